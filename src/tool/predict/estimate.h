// About how long layers take on a phone's core, by the figures of phone_core.h and arm64_kernels.h and a handful of
// assumptions (estimate.cc). No measurement, and no substitute for one.
#pragma once

#include <quern/op.h>

#include <optional>
#include <string>

#include "op/weights/weights.h"
#include "tool/predict/arm64_kernels.h"
#include "tool/predict/phone_core.h"

namespace quern::predict {

enum class Work {
  nothing,   // shares memory with its neighbours
  vectors,   // elementwise, pooling and what is like them
  products,  // convolution, fully-connected
};

// What an estimate looks at of an operator.
struct Layer {
  std::string name, op;
  Work work = Work::nothing;
  double input_bytes = 0, output_bytes = 0;
  double operations = 1;               // vectors: per output
  size_t images = 1;                   // products, from here on: each of so many
  size_t height = 1, width = 1;        // output pixels,
  size_t groups = 1, in = 1, out = 1;  // with these channels in a group
  qn_hw kernel = {1, 1}, stride = {1, 1};
  bool pointwise = true;                // pixels of the input are rows of a matrix
  bool undilated = true;                // and of stride 1
  std::optional<WeightsDensity> zeros;  // where some weights are 0
  bool in_blocked = false;              // pixel-blocked: sparse and depthwise convolution find their input as they
  bool out_blocked = false;             // want it, and leave their output so

  size_t taps() const { return kernel.h * kernel.w; }
  size_t depth() const { return taps() * in; }
  size_t pixels() const { return height * width; }
  bool depthwise() const { return groups > 1 && in == 1 && out == 1; }
  double outputs() const { return output_bytes / sizeof(float); }
  double macs() const { return work == Work::products ? outputs() * static_cast<double>(depth()) : 0; }
};

struct Machine {
  const PhoneCore* core = nullptr;
  double ghz = 0;
  size_t threads = 1;         // each on a core of its own
  bool weights_stay = false;  // in the caches from one run to the next
};

struct Estimate {
  const char* algorithm = "";
  const char* kernel = "";
  Evidence evidence = Evidence::predicted;
  double compute_ms = 0, cache_ms = 0, memory_ms = 0;
  double ms = 0;
};

// What a layer moves and multiplies on one core, whatever else the machine does.
struct Cost {
  double cycles = 0;        // of arithmetic
  double cache_bytes = 0;   // that come from behind the first cache, or go there
  double memory_bytes = 0;  // that come from memory, or go there
  double parts = 1;         // into which threads may divide it
};

// Out of order, arithmetic, caches and memory overlap, so the slowest counts; in order they add up, because loads that
// miss keep what uses them waiting, and everything behind that.
Estimate time_of(const Cost& cost, const Machine& machine);

// The fastest of the algorithms that apply.
Estimate estimate(const Layer& layer, const Machine& machine);

}  // namespace quern::predict

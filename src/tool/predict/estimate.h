// Estimates how long layers take on a phone's core, by the figures of phone_core.h and arm64_kernels.h and a handful of
// assumptions (estimate.cc). An estimate is no measurement, and no substitute for one.
#pragma once

#include <quern/op.h>

#include <optional>
#include <string>

#include "op/weights/weights.h"
#include "tool/predict/arm64_kernels.h"
#include "tool/predict/phone_core.h"

namespace quern::predict {

enum class Work {
  nothing,   // a view: it shares memory with its neighbours
  vectors,   // elementwise operators, pooling and the like
  products,  // convolution, fully-connected
};

// The properties of an operator that its estimate depends on.
struct Layer {
  std::string name, op;
  Work work = Work::nothing;
  KernelType type = KernelType::f32;  // of its kernels; elementwise operators and pooling of bytes have qs8
  double input_bytes = 0, output_bytes = 0;
  double outputs = 0;          // elements of the output
  double operations = 1;       // vectors: operations for each output
  const char* loop = nullptr;  // vectors: the kernel whose loop does all of the work, where there is one

  // Of products alone:
  size_t images = 1;
  size_t height = 1, width = 1;        // output pixels of an image
  size_t groups = 1, in = 1, out = 1;  // groups, and the channels in each
  qn_hw kernel = {1, 1}, stride = {1, 1};
  uint8_t weights_are = any;            // the demands of kernels that the weights meet: mask of Demand
  bool pointwise = true;                // pixels of the input are rows of a matrix
  bool undilated = true;                // no dilation, and stride 1
  bool contiguous = true;               // taps of one kernel row lie side by side in memory
  std::optional<WeightsDensity> zeros;  // if some weights are 0
  bool in_blocked = false;              // the input is pixel-blocked, as sparse and depthwise convolution like it
  bool out_blocked = false;             // the output is

  size_t taps() const { return kernel.h * kernel.w; }
  size_t depth() const { return taps() * in; }
  size_t pixels() const { return height * width; }
  bool depthwise() const { return groups > 1 && in == 1 && out == 1; }
  double macs() const { return work == Work::products ? outputs * static_cast<double>(depth()) : 0; }
};

struct Machine {
  const PhoneCore* core = nullptr;
  double ghz = 0;
  size_t threads = 1;  // each on a core of its own
  uint32_t features = isa_ref | isa_neon;
  bool weights_stay = false;  // weights stay in the caches from one run to the next
};

struct Estimate {
  const char* algorithm = "";
  const char* kernel = "";
  Evidence evidence = Evidence::predicted;
  double compute_ms = 0, cache_ms = 0, memory_ms = 0;
  double ms = 0;
};

// An assumption, near what models of cores say of the ends of kernels: instructions that make bytes of four sums.
constexpr double end_instructions = 8;

// The work of a layer on one core, whatever else the machine does.
struct Cost {
  double cycles = 0;        // cycles of arithmetic
  double cache_bytes = 0;   // bytes that come from a cache behind the first, or go there
  double memory_bytes = 0;  // bytes that come from memory, or go there
  double parts = 1;         // parts into which threads may divide the layer
};

// On a core that issues out of order, arithmetic, caches and memory overlap, so the slowest of them counts. On a core
// that issues in order they add up: an instruction that waits for a load keeps all later instructions waiting.
Estimate time_of(const Cost& cost, const Machine& machine);

// Returns the estimate of the fastest algorithm that applies.
Estimate estimate(const Layer& layer, const Machine& machine);

}  // namespace quern::predict

// Which algorithm and micro-kernel a convolution or matrix product uses: the cheapest by the cost models of the
// algorithms (op/algorithm/), which read shapes and the CPU.
#pragma once

#include <quern/op.h>

#include <string_view>

#include "base/vector.h"
#include "kernel/dwconv.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/select.h"
#include "kernel/spmm.h"
#include "kernel/winograd.h"
#include "op/core/operator.h"
#include "op/core/window.h"
#include "op/weights/weights.h"

namespace quern {

// igemm joins taps that lie side by side if the input has at most so many channels.
constexpr size_t few_channels = 8;

// A convolution as the cost model sees it; a matrix product has one tap and is pointwise.
struct Problem {
  KernelType type = KernelType::f32;
  uint8_t weights_are = any;           // which demands of rows the values of the weights meet: mask of Demand
  size_t pixels = 1;                   // rows of one product: output pixels of an image, or all where images join
  size_t images = 1;                   // such products
  size_t groups = 1, in = 1, out = 1;  // channels of one group
  qn_hw kernel = {1, 1};
  size_t height = 1, width = 1;             // of the output
  bool matrix = false;                      // no image at all: gemm and sparse alone apply
  bool pointwise = false;                   // 1x1, stride 1, no padding: rows of the image are rows of the matrix
  bool in_blocked = false;                  // the input is pixel-blocked,
  bool out_blocked = false;                 // the output is; of more than a pixel, sparse alone takes both layouts
  bool residual = false;                    // a second input is added
  bool offsets_fit = true;                  // 32 bits reach every pixel: igemm's tables can be made
  size_t row_stride = 0;                    // of gemm's A, in bytes
  size_t traffic = 0;                       // bytes that pass the caches between two runs
  bool contiguous = false;                  // taps of one kernel row lie side by side in memory
  bool undilated = false;                   // stride 1 and dilation 1
  const Window* window = nullptr;           // of a convolution
  const WeightsDensity* density = nullptr;  // NULL: nobody has looked, no weights are 0

  size_t taps() const { return kernel.h * kernel.w; }
  bool blocked() const { return has_sparse && (in_blocked || out_blocked); }
};

// Has anybody found weights that are 0?
bool has_zeros(const Problem& p);

// What the weights look like: how many percent of them are not zero, and the most channels that they come in blocks of.
// A block counts as one if blocks of its size are mostly full: then their zeros are stored like the others.
struct SparsePattern {
  size_t percent = 100, block = 1;
};
SparsePattern pattern_of(const Problem& problem);

struct Choice {
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  unsigned table = 0;             // of rows, where the algorithm has several
  const Row* row = nullptr;       // its kernel
  const Row* products = nullptr;  // winograd: the row of gemm that multiplies
  double cycles = 0;              // an estimate

  template <class KernelRow>
  const KernelRow& as() const {
    return static_cast<const KernelRow&>(*row);
  }
};

// All that apply, the cheapest first: algorithms with the rows that this CPU runs, within the limits of error and
// memory. `algorithm` and `kernel`, if not AUTO and NULL, leave only what they name, and a row named keeps no limits.
Vector<Choice> candidates(const Problem& problem, qn_algorithm algorithm, const char* kernel);

// AUTO for a name that no algorithm has.
qn_algorithm algorithm_from_name(std::string_view name);

// Is there a row of this name for the algorithm, whatever CPU it needs?
bool known_kernel(qn_algorithm algorithm, std::string_view name);

// The cheapest among what options.algorithm and options.kernel leave.
qn_status choose(const char* who, const Problem& problem, const qn_plan_options& options, Choice* choice);

}  // namespace quern

// Chooses the algorithm and the micro-kernel of a convolution or matrix product: the cheapest ones, according to the
// cost models of the algorithms (op/algorithm/). The models know the shapes and the CPU.
#pragma once

#include <quern/op.h>

#include <string_view>

#include "base/vector.h"
#include "kernel/dwconv.h"
#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "kernel/select.h"
#include "kernel/spmm.h"
#include "kernel/tapgemm.h"
#include "kernel/winograd.h"
#include "op/core/operator.h"
#include "op/core/window.h"
#include "op/weights/weights.h"

namespace quern {

// With at most this many input channels igemm joins taps that lie side by side in memory, if single ones fill groups of
// successive k.
constexpr size_t few_channels = 8;

// A convolution as the cost model sees it; a matrix product has one tap and is pointwise.
struct Problem {
  KernelType type = KernelType::f32;
  uint8_t weights_are = any;           // the demands that weights and scales meet: mask of Demand
  size_t pixels = 1;                   // rows of one product: output pixels of one image, or of all if images join
  size_t images = 1;                   // number of such products
  size_t groups = 1, in = 1, out = 1;  // in, out: channels of one group
  qn_hw kernel = {1, 1};
  size_t height = 1, width = 1;             // size of the output
  bool matrix = false;                      // there is no image: only gemm and sparse apply
  bool pointwise = false;                   // 1x1, stride 1, no padding: pixels of the image are rows of the matrix
  bool in_blocked = false;                  // the input is pixel-blocked
  bool out_blocked = false;                 // the output is pixel-blocked
  bool residual = false;                    // a second input is added
  bool offsets_fit = true;                  // 32 bits reach every pixel: igemm's tables can be made
  size_t row_stride = 0;                    // bytes from one row of gemm's A to the next
  size_t traffic = 0;                       // bytes that pass the caches between two runs
  bool contiguous = false;                  // taps of one kernel row lie side by side in memory
  bool undilated = false;                   // stride 1 and dilation 1
  const Window* window = nullptr;           // the window of a convolution; NULL for a matrix product
  const WeightsDensity* density = nullptr;  // NULL: nobody has counted zeros, so the weights count as full

  size_t taps() const { return kernel.h * kernel.w; }
  bool blocked() const { return has_sparse && (in_blocked || out_blocked); }
};

// Are some weights known to be 0?
bool has_zeros(const Problem& p);

// The pattern of the weights that are not 0: their share in percent, and the size of the largest blocks of channels
// that they come in. A size counts if blocks of this size are mostly full; then their few zeros are stored like other
// weights.
struct SparsePattern {
  size_t percent = 100, block = 1;
};
SparsePattern pattern_of(const Problem& problem);

struct Choice {
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;
  unsigned table = 0;             // the table that `row` is from, if the algorithm has several
  const Row* row = nullptr;       // the kernel
  const Row* products = nullptr;  // winograd: the row of gemm for the products
  double cycles = 0;              // estimated cycles

  template <class KernelRow>
  const KernelRow& as() const {
    return static_cast<const KernelRow&>(*row);
  }
};

// Returns all choices that apply to the problem, the cheapest first: each is an algorithm with a row that this CPU
// runs, within the limits for errors and memory. If `algorithm` is not AUTO, or `kernel` not NULL, only what they name
// counts. The limits do not apply to a kernel that is asked for by name.
Vector<Choice> candidates(const Problem& problem, qn_algorithm algorithm, const char* kernel);

// Returns AUTO if no algorithm has this name.
qn_algorithm algorithm_from_name(std::string_view name);

// Does the algorithm have a row of this name, whether this CPU runs it or not?
bool known_kernel(qn_algorithm algorithm, std::string_view name);

// Finds the cheapest choice among those that options.algorithm and options.kernel allow.
qn_status choose(const char* who, const Problem& problem, const qn_plan_options& options, Choice* choice);

}  // namespace quern

// From a convolution or matrix product to its plan, which an algorithm makes (op/algorithm/).
#pragma once

#include "base/math.h"
#include "kernel/minmax.h"
#include "op/algorithm/epilogue.h"
#include "op/conv/choose.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"
#include "op/core/window.h"
#include "op/weights/weights.h"

namespace quern {

// What is to be planned. References outlive the call that they are handed to.
struct ConvRequest {
  const char* who;
  Problem problem;
  const Request& request;
  const Weights& weights;
  const Window& window;  // not read for a matrix
  qn_minmax_f32 clamp;
};

// The cost model's choice, or a measured one.
qn_status choose_conv(const ConvRequest& conv, Choice* choice);
// Makes a choice and plans it.
qn_status plan_conv(const ConvRequest& conv, PlanPointer* plan);

// Counts the weights that are not 0, where that can matter.
inline const WeightsDensity* density_for(const Weights& weights, const qn_plan_options& options) {
  if (!has_sparse) return nullptr;
  const bool depthwise = weights.shape().in == 1;
  const bool may = options.algorithm == QN_ALGORITHM_SPARSE || (options.algorithm == QN_ALGORITHM_AUTO && !depthwise);
  return may ? &weights.density() : nullptr;
}

// ---- what plans of several algorithms share

// How many products there are and how many rows each has: rows of C that lie at equal distances join.
struct Rows {
  size_t count;     // rows of one product
  size_t products;  // per image
};
inline Rows output_rows(const qn_tensor& out) {
  const bool join = out.stride[1] == out.shape[2] * out.stride[2];
  return join ? Rows{out.shape[1] * out.shape[2], 1} : Rows{out.shape[2], out.shape[1]};
}

// Does igemm make one tap of each row of the kernel?
inline bool merges_taps(const Window& window, size_t in) {
  return in <= few_channels && window.w.kernel > 1 && window.w.dilation == 1 &&
         window.pixel_stride == in * sizeof(float);
}

// The distance of rows of `bytes` in scratch memory: an odd number of cache lines, lest a column of them, or all points
// of a winograd tile, fall into few sets of the L1 cache.
inline size_t spread(size_t bytes) { return round_up(bytes, cache_line) | cache_line; }

}  // namespace quern

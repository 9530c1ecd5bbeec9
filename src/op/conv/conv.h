// Turns a convolution or matrix product into a plan: chooses an algorithm, which then makes the plan (op/algorithm/).
#pragma once

#include "base/math.h"
#include "kernel/dequantize.h"
#include "kernel/minmax.h"
#include "op/algorithm/epilogue.h"
#include "op/conv/choose.h"
#include "op/core/nest.h"
#include "op/core/numbers.h"
#include "op/core/operator.h"
#include "op/core/window.h"
#include "op/weights/weights.h"

namespace quern {

// A convolution or matrix product to be planned. The references are valid as long as the call that takes the request.
struct ConvRequest {
  const char* who;
  Problem problem;
  const Request& request;
  const Weights& weights;
  const Window& window;  // not read for a matrix
  qn_minmax_f32 clamp;

  // The zero point of the input; 0 if it is not quantized.
  int32_t input_zero() const { return has_integers ? request.ins[0].quantization.zero_point : 0; }
  // What becomes of the sums.
  OutputNumbers numbers() const;
  // Packs the weights for a kernel of gemm, igemm or depthwise.
  Packed pack(Packing packing, const PanelShape& panel) const {
    return weights.pack(packing, panel, 0, {}, input_zero());
  }
};

// The demands that kernels may have (Demand in kernel/row.h) and that the weights and the tensors of a request meet.
uint8_t demands_met(const Request& request, const Weights& weights);
// Fails if input and output of a quantized convolution are not quantized with one scale each, or if no kernel could turn
// sums into outputs.
qn_status check_quantized(const ConvRequest& conv);

// The type of the kernels that multiply with these weights in an operator of this type.
KernelType kernel_type(qn_type type, const Weights& weights);

// The type of the kernels of this problem of floats, whose type is f32 so far. Weights of bytes are multiplied as they are
// by one row, those of 4 bits with scales for blocks by any number of rows; unless sparse kernels, which multiply floats,
// are faster, or another algorithm or kernel is asked for.
KernelType type_for_floats(const Problem& problem, const Request& request, const Weights& weights);

// Reads and checks the parameter quantize_input of an operator of this type. In a build that has neither integers nor
// op.h, nothing sets it.
constexpr bool reads_activations = has_integers || has_api("op");
qn_status read_activations(const char* who, int quantize_input, qn_type type, Activations* activations);

// Makes a choice: the cost model's, or a measured one if the options have a tuning.
qn_status choose_conv(const ConvRequest& conv, Choice* choice);
// Plans the product of a fully-connected operator.
qn_status plan_matrix(const char* who, const Request& request, const Weights& weights, const qn_minmax_f32& clamp,
                      PlanPointer* plan);

// Makes a choice, and a plan for it.
qn_status plan_conv(const ConvRequest& conv, PlanPointer* plan);

// Counts the weights that are not 0 if the sparse algorithm may be chosen; otherwise returns NULL.
inline const WeightsDensity* density_for(const Weights& weights, const qn_plan_options& options) {
  if (!has_sparse || weights.dynamic()) return nullptr;
  const bool depthwise = weights.shape().in == 1;
  const bool may = options.algorithm == QN_ALGORITHM_SPARSE || (options.algorithm == QN_ALGORITHM_AUTO && !depthwise);
  return may ? &weights.density() : nullptr;
}

// ---- helpers of the plans of several algorithms

// How the pixels of an output image become rows of products. Output rows join into one product if all pixels of the
// image lie at equal distances; otherwise each output row is a product of its own.
struct Rows {
  size_t count;     // rows of one product
  size_t products;  // per image
};
inline Rows output_rows(const qn_tensor& out) {
  const bool join = out.stride[1] == out.shape[2] * out.stride[2];
  return join ? Rows{out.shape[1] * out.shape[2], 1} : Rows{out.shape[2], out.shape[1]};
}

// The operands of the loops around products.
enum { a_operand, c_operand };

// How the rows of a matrix product lie, which are all dimensions but the last one. Those that lie at equal distances
// join into one product.
struct ProductRows {
  size_t count = 1, a_stride = 0, c_stride = 0;  // of one product
  Nest<2> products;

  ProductRows(const qn_tensor& in, const qn_tensor& out) {
    Nest<2> rows;
    for (uint32_t i = in.rank - 1; i-- > 0;) rows.add(in.shape[i], {in.stride[i], out.stride[i]});
    if (rows.rank > 0) {
      count = rows.loops[0].count;
      a_stride = rows.loops[0].stride[a_operand];
      c_stride = rows.loops[0].stride[c_operand];
    }
    for (size_t i = 1; i < rows.rank; ++i) products.add(rows.loops[i].count, rows.loops[i].stride);
  }
};

// The distance from one row of `bytes` bytes to the next in scratch memory. It is an odd number of cache lines, so that
// a column of the rows, or all points of a winograd tile, are spread over many sets of the L1 cache.
inline size_t spread(size_t bytes) { return round_up(bytes, cache_line) | cache_line; }

// Bytes from one row of k elements to the next, where an operator quantizes its rows itself. In front of each there is
// room for its numbers.
inline size_t quantized_row_stride(KernelType type, size_t k) {
  return spread(quantized_row_bytes(type, k) + sizeof(qn_quantized_row));
}

}  // namespace quern

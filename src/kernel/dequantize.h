// What kernels read that end sums of products as floats, where weights are integers. In types qd8c and so on an operator
// has quantized its activations row by row, so each row of A has a scale and a zero point of its own. Types qw8c and qw4b,
// whose activations stay floats, take the same epilogues, and no qn_quantized_row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/panel.h"
#include "kernel/type.h"

extern "C" {

// Stands in the 8 bytes before each row of A, which is aligned to 4 there.
struct qn_quantized_row {
  float scale;
  int32_t zero;  // -128 .. 127
};

// Where weights have a scale for each block (type qd8b4), a row of A is made of these. Zeros fill up the last one.
struct qn_quantized_block {
  int32_t start;  // -8 times the sum of the elements
  int8_t elements[32];
};

// Begins the epilogue of each panel of NR output channels. The NR scales of these channels follow, as floats, unless
// weights have scales for blocks, then their NR biases, as floats in units of the results, then the epilogue of the
// next panel.
struct qn_dequantize {
  qn_minmax_f32 clamp;
};

}  // extern "C"

namespace quern {

static_assert(sizeof(qn_quantized_block::elements) == scale_block);

constexpr size_t blocks_of(size_t k) { return (k + scale_block - 1) / scale_block; }

// Bytes of a row of k elements, without the numbers before it.
constexpr size_t quantized_row_bytes(KernelType type, size_t k) {
  return has_block_scales(type) ? blocks_of(k) * sizeof(qn_quantized_block) : k;
}

// Bytes of the epilogue of a panel whose channels have `floats` floats each: a scale and a bias, or a bias alone.
constexpr size_t dequantize_bytes(size_t nr, size_t floats = 2) {
  return sizeof(qn_dequantize) + floats * nr * sizeof(float);
}

// Returns the result of a channel: `sum` is that of the products, less the zero point of the row times the sum of the
// weights, so that it is exact. Each operation rounds.
inline float dequantize(int32_t sum, const qn_quantized_row& row, float scale, float bias, const qn_dequantize& p) {
  return clamp(static_cast<float>(sum) * row.scale * scale + bias, p.clamp);
}

// The same where weights have scales for blocks: `sum` is that of the blocks' sums, each times its scale, and `weights`
// that of the weights of each block, times its scale.
inline float dequantize_blocks(float sum, const qn_quantized_row& row, float weights, float bias,
                               const qn_dequantize& p) {
  return clamp((sum - static_cast<float>(row.zero) * weights) * row.scale + bias, p.clamp);
}

}  // namespace quern

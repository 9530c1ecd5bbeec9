// The epilogue of kernels that end sums of products of bytes as floats (types qd8c ...). An operator has quantized its
// activations row by row, so each row of A has a scale and a zero point of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"

extern "C" {

// Stands in the 8 bytes before each row of A, which is aligned to 4 there.
struct qn_quantized_row {
  float scale;
  int32_t zero;  // -128 .. 127
};

// Begins the epilogue of each panel of NR output channels. The NR scales of these channels follow, as floats, then their
// NR biases, as floats in units of the results, then the epilogue of the next panel.
struct qn_dequantize {
  qn_minmax_f32 clamp;
};

}  // extern "C"

namespace quern {

constexpr size_t dequantize_bytes(size_t nr) { return sizeof(qn_dequantize) + 2 * nr * sizeof(float); }

// Returns the result of a channel: `sum` is that of the products, less the zero point of the row times the sum of the
// weights, so that it is exact. Each operation rounds.
inline float dequantize(int32_t sum, const qn_quantized_row& row, float scale, float bias, const qn_dequantize& p) {
  return clamp(static_cast<float>(sum) * row.scale * scale + bias, p.clamp);
}

}  // namespace quern

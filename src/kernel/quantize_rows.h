// quantize_rows: rows of floats become rows of bytes, each with a scale and a zero point of its own
//
// Of a row, least and most are the least and the greatest of 0 and its elements. Then
//
//     scale   = (most - least) / 255          zero  = round(-least * inverse) - 128
//     inverse = 1 / scale                     C[i]  = clamp(round(A[i] * inverse) + zero, -128, 127)
//
// with round() to nearest even, so that 0 has a byte of its own: zero. A row of zeros, and one with most - least below
// 2^-100, has scale 1, zero 0, and bytes of 0. A row with a NaN, with an infinity, or with most - least beyond the
// greatest float has a scale of NaN, zero 0, and bytes of 0: all its results are NaN.
//
// Type qd8b4: the bytes of a row lie in blocks, qn_quantized_block of dequantize.h, as its multiplication needs them.
//
// Arguments  rows, k   >= 1; k elements in each row
//            a         row m at a + m * a_stride bytes
//            c         the bytes of row m at c + m * c_stride bytes; the 8 bytes before them are its qn_quantized_row
//                      (dequantize.h)
// Memory     Reads exactly the elements of A. Writes exactly the k bytes, or the blocks, of each row and the 8 bytes
//            before them. Addresses are multiples of 4. C overlaps nothing.
// Numbers    Each operation rounds to nearest even, so all kernels give equal bits.
// Machine    As gemm.h.
#pragma once

#include <cstddef>

#include "kernel/dequantize.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_quantize_rows_fn)(size_t rows, size_t k, const void* a, size_t a_stride, void* c, size_t c_stride);

#define QN_QUANTIZE_ROWS_ROW(type, isa, layout, name) QN_DECLARE_KERNEL(qn_quantize_rows_fn, name)
#include "kernel/quantize_rows.inc"

}  // extern "C"

namespace quern {

struct QuantizeRowsRow : Row {
  qn_quantize_rows_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const QuantizeRowsRow> quantize_rows_rows();

// The numbers of a row whose elements lie between `least` <= 0 and `most` >= 0. `finite`: does it have no NaN and no
// infinity? An inverse of 0 says that all bytes are 0.
struct RowSteps {
  qn_quantized_row numbers;
  float inverse;
};
inline RowSteps row_steps(float least, float most, bool finite) {
  constexpr float large = 0x1.8p23f;  // floats of this size have no fraction
  const float range = most - least;
  if (!finite || !(range <= 0x1.fffffep127f)) return {{__builtin_nanf(""), 0}, 0};
  if (range < 0x1p-100f) return {{1, 0}, 0};
  const float scale = range / 255, inverse = 1 / scale;
  return {{scale, static_cast<int32_t>(-least * inverse + large - large) - 128}, inverse};
}

}  // namespace quern

// winograd: convolution with 3x3 taps, stride 1, by tiles of m x m outputs, m = 2, 4 or 6; n = m + 2.
//
//     V[i][j] = (B d B')[i][j]         input: d are n x n pixels, B is the matrix of Winograd<m>::input
//     C = clamp(bias + A M A')         output: M are n x n products, A is the matrix of Winograd<m>::output
//
// The kernels transform each channel on its own; winograd_math.h has the formulas. Between the two transforms an
// operator computes the matrix product M[i][j] = V[i][j] * U[i][j] over the input channels, at each of the n * n points
// (i, j). U are the weights, which are transformed when they are packed. The tiles of one point lie one after the
// other, as the rows of one matrix:
//
//     point 0:    tile 0: channels    tile 1: channels ...       v, m: where this tile has its row of point 0
//     point 1:    tile 0: channels    tile 1: channels ...       v_stride, m_stride: bytes from a point to the next
//
// A tile at the end of the image may have fewer outputs: rows x columns, 1 .. m each. In a direction with r outputs it
// has r + 2 inputs, and only the points that winograd_has() names. Let k be r rounded up to an even number: these are
// the points 0 .. k, and point m + 1 (infinity) if r is even. The weights stay the same; B and A are those of
// Winograd<m, k>.
//
// Input      channels  >= 1
//            a         the tile's first pixel that lies inside the image; not read if no pixel does
//            row_stride, pixel_stride: bytes from one row, or pixel, to the next
//            tile      the number of its outputs, and the part of its inputs that lies inside the image: rows
//                      top .. bottom-1, columns left .. right-1, with 0 <= top <= bottom <= rows + 2 and
//                      0 <= left <= right <= columns + 2; all other inputs are zeros
//            zero      `channels` zeros; read if some inputs lie outside the image, or if rows or columns are odd
//            v         V[i][j] at v + (i * n + j) * v_stride
// Output     channels  >= 1
//            m         M[i][j] at m + (i * n + j) * m_stride
//            bias      `channels` floats
//            c         output pixel (y, x) at c + y * row_stride + x * pixel_stride
//            rows, columns: the number of outputs of the tile
//            p         clamp
//
// Memory     Reads exactly the named pixels, the tile's points of M, *tile, zero, bias, *p; writes exactly `channels`
//            floats at each of the tile's points of V, or of the rows x columns pixels of C. Addresses are multiples
//            of 4. V and C overlap nothing.
// Numbers    The operations of winograd_math.h, first on columns, then on rows; the output kernel then adds the bias
//            and clamps as in gemm.h. No kernel uses FMA, so all levels give equal bits. A NaN or an infinity of one
//            pixel may reach all outputs of its tile; there an infinity may become NaN. op/algorithm/cost.h bounds the
//            error of a whole convolution. The level of 32-bit ARM flushes denormals as in gemm.h.
// Machine    As gemm.h.
#pragma once

#include <cstddef>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

struct qn_winograd_tile {
  size_t rows, columns;
  size_t top, bottom, left, right;
};

typedef void (*qn_winograd_input_fn)(size_t channels, const void* a, size_t row_stride, size_t pixel_stride,
                                     const qn_winograd_tile* tile, const void* zero, void* v, size_t v_stride);
typedef void (*qn_winograd_output_fn)(size_t channels, const void* m, size_t m_stride, const void* bias, void* c,
                                      size_t row_stride, size_t pixel_stride, size_t rows, size_t columns,
                                      const void* p);

#define QN_WINOGRAD_ROW(type, outputs, isa, layout, name) \
  QN_DECLARE_KERNEL(qn_winograd_input_fn, name##_input)   \
  QN_DECLARE_KERNEL(qn_winograd_output_fn, name##_output)
#include "kernel/winograd.inc"

}  // extern "C"

namespace quern {

// The number of outputs along one direction, rounded up to an even number.
[[gnu::always_inline]] constexpr size_t winograd_even(size_t outputs) { return outputs + outputs % 2; }
// Does a tile with `outputs` outputs along a direction need this one of the m + 2 points?
[[gnu::always_inline]] constexpr bool winograd_has(size_t m, size_t outputs, size_t point) {
  return point <= m ? point <= winograd_even(outputs) : outputs % 2 == 0;
}

// How outputs along one direction are cut into tiles: `whole` tiles of m outputs, and one tile of `rest` outputs if
// `rest` is not 0.
struct WinogradCut {
  size_t whole, rest;

  WinogradCut(size_t m, size_t outputs) : whole(outputs / m), rest(outputs % m) {}
  size_t tiles() const { return whole + tiles(true); }
  size_t tiles(bool last) const { return !last ? whole : rest > 0 ? 1 : 0; }
};

struct WinogradRow : Row {
  uint32_t outputs;  // m, the outputs of a tile along each direction
  qn_winograd_input_fn input;
  qn_winograd_output_fn output;

  size_t inputs() const { return outputs + 2; }
  size_t points() const { return inputs() * inputs(); }
};

// The best level comes first. The references are last and run everywhere.
std::span<const WinogradRow> winograd_rows();

}  // namespace quern

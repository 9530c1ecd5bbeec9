// winograd: convolution with 3x3 taps, stride 1, by tiles of m x m outputs, m = 2, 4 or 6; n = m + 2.
//
//     V[i][j] = (B d B')[i][j]         input: d are n x n pixels, B is the matrix of Winograd<m>::input
//     C = clamp(bias + A M A')         output: M are n x n products, A is the matrix of Winograd<m>::output
//
// all of them per channel; winograd_math.h has the formulas. In between an operator multiplies, at each of the n * n
// points (i, j), M[i][j] = V[i][j] * U[i][j] over the input channels, where U are weights that were transformed when
// they were packed. The tiles of a point lie after each other, so that they make the rows of one matrix:
//
//     point 0:    tile 0: channels    tile 1: channels ...       v, m: where this tile has its row of point 0
//     point 1:    tile 0: channels    tile 1: channels ...       v_stride, m_stride: bytes from a point to the next
//
// Input      channels  >= 1
//            a         the first pixel of the tile that lies inside the image; not read if none does
//            row_stride, pixel_stride: bytes from a row, a pixel to the next
//            top, bottom, left, right: the part of the tile that lies inside the image, rows top .. bottom-1, columns
//                      left .. right-1; 0 <= top <= bottom <= n, 0 <= left <= right <= n; the rest is zeros
//            zero      `channels` zeros, read if there is such a rest
//            v         V[i][j] at v + (i * n + j) * v_stride
// Output     channels  >= 1
//            m         M[i][j] at m + (i * n + j) * m_stride
//            bias      `channels` floats
//            c         output pixel (y, x) at c + y * row_stride + x * pixel_stride
//            rows, columns: how much of the tile there is, 1 .. m
//            p         clamp
//
// Memory     Reads exactly the named pixels, n * n rows of M, zero, bias, *p; writes exactly `channels` floats in each
//            of the n * n rows of V, or of the rows x columns pixels of C. Multiples of 4. V and C overlap nothing.
// Numbers    The operations of winograd_math.h, columns first, then rows; then + bias and the clamp of gemm.h. No FMA:
//            the bits are equal on all levels. A NaN or an infinity of one pixel reaches all outputs of its tile, and
//            an infinity becomes NaN there. For the error of the whole see op/choose.h.
// Machine    As gemm.h.
#pragma once

#include <cstddef>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_winograd_input_fn)(size_t channels, const void* a, size_t row_stride, size_t pixel_stride, size_t top,
                                     size_t bottom, size_t left, size_t right, const void* zero, void* v,
                                     size_t v_stride);
typedef void (*qn_winograd_output_fn)(size_t channels, const void* m, size_t m_stride, const float* bias, void* c,
                                      size_t row_stride, size_t pixel_stride, size_t rows, size_t columns,
                                      const qn_minmax_f32* p);

#define QN_WINOGRAD_ROW(type, outputs, isa, layout, name)                                                              \
  void name##_input(size_t channels, const void* a, size_t row_stride, size_t pixel_stride, size_t top, size_t bottom, \
                    size_t left, size_t right, const void* zero, void* v, size_t v_stride);                            \
  void name##_output(size_t channels, const void* m, size_t m_stride, const float* bias, void* c, size_t row_stride,   \
                     size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32* p);
#include "kernel/winograd.inc"
#undef QN_WINOGRAD_ROW

}  // extern "C"

namespace quern {

struct WinogradRow : Row {
  size_t outputs;  // m, of each direction
  qn_winograd_input_fn input;
  qn_winograd_output_fn output;

  size_t inputs() const { return outputs + 2; }
  size_t points() const { return inputs() * inputs(); }
};

// By level, best first; the references are last and run everywhere.
std::span<const WinogradRow> winograd_rows();

}  // namespace quern

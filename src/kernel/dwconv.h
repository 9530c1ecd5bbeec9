// dwconv (depthwise): C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]) for output pixels x
//
// Two kinds: of a row, for any number of taps, and of a tile of several rows, for one kernel size and stride.
//
// Packed weights: one panel per NR channels, the last one padded with zeros; taps column by column (kernel width outer,
// height inner):
//
//     panel:   bias[0] .. bias[NR-1]  W[0][0] .. W[0][NR-1]  W[1][0] ..  W[T-1][0] .. W[T-1][NR-1]     NR * (T + 1) * 4
//     bytes
//
// ---- row: a run of output pixels x
//
// A(x, t) is a row of `channels` floats: a + offsets(x)[t], or `zero` where that offset is negative (padding).
// offsets(x) = offsets + x * step: 32-bit offsets in bytes. With taps in the order of the weights, neighbouring pixels
// share columns: step = stride_w * kernel_h * 4 when the dilation is 1.
//
//     stride 1, 3x3:   offsets  [c0: r0 r1 r2][c1: r0 r1 r2][c2: r0 r1 r2][c3: ...
//                      x = 0    `---------------- 9 taps --------------'
//                      x = 1                  `---------------- 9 taps --------------'
//
// Arguments  channels  >= 1
//            pixels    output pixels, >= 1
//            taps      T >= 1
//            offsets, step, a, zero (4 * channels bytes of zeros)
//            w         packed weights, aligned to 64
//            c         pixel x at c + x * c_stride bytes
//
// ---- tile: R output rows y, each a run of output pixels x; kernel K x K, stride S, dilation 1
//
// The columns of the table are (R - 1) * S + K offsets high: what R windows, one below the other, cover. Kernel column
// i, row j of the window at (y, x) is entry y * S + j of column x * S + i. A column serves all windows it lies in, so
// that it is loaded once for R * K * K / S products.
//
//     R 2, K 3, S 1:   offsets  [c0: r0 r1 r2 r3][c1: r0 r1 r2 r3][c2: r0 r1 r2 r3][c3: ...
//                      y = 0         `------'          `------'          `------'
//                      y = 1            `------'          `------'          `------'
//
// A negative offset stands for zeros.
//
// Arguments  channels, pixels, offsets, a, w as above
//            rows      output rows there are, 1 .. R; entries that none of them needs are not read
//            c         pixel (y, x) at c + y * row_stride + x * c_stride bytes
//
// ---- both
//
// Memory     Reads exactly the named rows, `zero` only where the table asks for it, whole panels, and *p. Writes
//            exactly `channels` floats per pixel. Addresses of A and C: multiples of 4. C overlaps nothing.
// Numbers    Each output is one ascending chain over the taps, as in gemm.h.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_dwconv_fn)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                             const void* a, const void* zero, const void* w, void* c, size_t c_stride,
                             const qn_minmax_f32* p);
typedef void (*qn_dwconv_tile_fn)(size_t channels, size_t pixels, size_t rows, const int32_t* offsets, const void* a,
                                  const void* w, void* c, size_t row_stride, size_t c_stride, const qn_minmax_f32* p);

#define QN_DWCONV_ROW(type, nr, isa, layout, name)                                                           \
  void name(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a, \
            const void* zero, const void* w, void* c, size_t c_stride, const qn_minmax_f32* p);
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, isa, layout, name)                                   \
  void name(size_t channels, size_t pixels, size_t rows_, const int32_t* offsets, const void* a, const void* w, \
            void* c, size_t row_stride, size_t c_stride, const qn_minmax_f32* p);
#include "kernel/dwconv.inc"
#undef QN_DWCONV_ROW
#undef QN_DWCONV_TILE_ROW

}  // extern "C"

namespace quern {

struct DwconvRow : Row {
  size_t nr;
  qn_dwconv_fn run;
};

struct DwconvTileRow : Row {
  size_t kernel, stride;
  size_t rows, nr;
  qn_dwconv_tile_fn run;
};

// Best first; the reference is last and runs everywhere. Of the tiles, those of each kernel and stride.
std::span<const DwconvRow> dwconv_rows();
std::span<const DwconvTileRow> dwconv_tile_rows();

}  // namespace quern

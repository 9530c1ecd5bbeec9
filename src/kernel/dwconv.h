// dwconv (depthwise): C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]) for output pixels x
//
// Four kinds: of a row, for any number of taps; of a tile of several rows, for one kernel size and stride; and, of one
// channel of a whole image, planes, whose pixels go in blocks, and halves, for stride 2.
//
// Packed weights: one panel per NR channels, the last one padded with zeros; taps column by column (kernel width outer,
// height inner):
//
//     panel:   bias[0] .. bias[NR-1]  W[0][0] .. W[0][NR-1]  W[1][0] ..  W[T-1][0] .. W[T-1][NR-1]
//     bytes:   NR * (T + 1) * 4
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
//            offsets, step, a
//            zero      a pixel of padding, `channels` elements: zeros, or the zero point of quantized numbers
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
// A negative offset stands for the pixel `zero`.
//
// Arguments  channels, pixels, offsets, a, w as above
//            rows      output rows there are, 1 .. R; entries that none of them needs are not read
//            c         pixel (y, x) at c + y * row_stride + x * c_stride bytes
//            zero      as above; kernels of f32 may know that it is zeros, and not read it
//
// Memory     of rows and tiles: reads exactly the named rows, `zero` only where the table asks for it, whole panels,
//            and *p. Writes exactly `channels` floats per pixel. Addresses of A and C: multiples of 4. C overlaps
//            nothing.
//
// ---- plane: pixels p of one channel, C[p] = clamp(bias + sum over taps t of A(p, t) * W[t])
//
// A tap is a shift of a plane of pixels: A(p, t) is the float at a + offsets[t] + 4 * p, or 0 where the mask of t's
// kernel column has no bit for p, because p is so near the left or right edge of the image.
//
//     3x3 on rows of 5:   columns of taps     0           1           2
//                         offsets / 4         -6 -1 4     -5 0 5      -4 1 6
//                         mask                01111 01111 11111 11111 11110 11110 ..
//
// Arguments  pixels    >= 1
//            kernel_h, kernel_w     taps of a column, and columns
//            offsets   one per tap, of 32 bits, in bytes, may be negative
//            masks     of column i at masks + i * mask_stride bytes: pixel p is bit p % 8 of byte p / 8, bits behind
//                      the last pixel are 0; whole words of 16 bits
//            a
//            w         a packed panel for NR = 1: bias, then taps column by column
//            c         pixel p at c + p / BLOCK * c_stride bytes + p % BLOCK * 4
//            p         clamp
// Memory     Reads exactly the pixels with a bit, and kernels for a size K whole vectors: those of C, at the offsets of
//            the middle column, and one on either side. Writes whole vectors of LANES pixels of C: what is behind the
//            last pixel gets any value. Addresses of A and C: multiples of 4. C overlaps nothing.
// K          0: any kernel. 3: 3x3, columns 4 bytes apart; every pixel has a bit in the middle one, whose mask is not
//            read.
//
// ---- image: one channel of an image, 3x3 with stride 2, C[y][x] = clamp(bias + sum of A[2y + j][2x + i - 1] * W[i][j])
//
// A[..][-1] is 0; what else is beyond the edges of the image lies in memory.
//
// Arguments  rows, columns     of C, >= 1
//            a         row y of A, 0 .. 2 rows, at a + y * a_stride bytes
//            w         a packed panel for NR = 1: bias, then taps column by column
//            c         row y at c + y * c_stride bytes, in ascending order
//            p         clamp
// Memory     Reads and writes rows of whole vectors of LANES pixels of C, of which those behind the last column get the
//            value that the formula has for them: rows of C may lie closer than that. Addresses of A and C: multiples
//            of 4. C overlaps A nowhere.
//
// ---- all
//
// Numbers    Each output is one ascending chain over the taps, as in gemm.h.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_dwconv_fn)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                             const void* a, const void* zero, const void* w, void* c, size_t c_stride, const void* p);
typedef void (*qn_dwconv_tile_fn)(size_t channels, size_t pixels, size_t rows, const int32_t* offsets, const void* a,
                                  const void* w, void* c, size_t row_stride, size_t c_stride, const void* p,
                                  const void* zero);
typedef void (*qn_dwconv_plane_fn)(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                   const void* masks, size_t mask_stride, const void* a, const void* w, void* c,
                                   size_t c_stride, const void* p);

typedef void (*qn_dwconv_image_fn)(size_t rows, size_t columns, const void* a, size_t a_stride, const void* w, void* c,
                                   size_t c_stride, const void* p);

#define QN_DWCONV_ROW(type, nr, isa, layout, name) QN_DECLARE_KERNEL(qn_dwconv_fn, name)
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, isa, layout, name) QN_DECLARE_KERNEL(qn_dwconv_tile_fn, name)
#define QN_DWCONV_PLANE_ROW(type, kernel, block, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_dwconv_plane_fn, name)
#define QN_DWCONV_IMAGE_ROW(type, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_dwconv_image_fn, name)
#include "kernel/dwconv.inc"

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

struct DwconvPlaneRow : Row {
  size_t kernel;  // K
  size_t block;   // pixels of a block
  size_t lanes;   // pixels of a vector
  qn_dwconv_plane_fn run;
};

struct DwconvImageRow : Row {
  size_t lanes;  // pixels of a vector
  qn_dwconv_image_fn run;
};

// Best first; the reference is last and runs everywhere. Of the tiles, those of each kernel and stride; of the planes,
// those of each block.
std::span<const DwconvRow> dwconv_rows();
std::span<const DwconvTileRow> dwconv_tile_rows();
std::span<const DwconvPlaneRow> dwconv_plane_rows();
std::span<const DwconvImageRow> dwconv_image_rows();

}  // namespace quern

// dwconv (depthwise): C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]) for output pixels x
//
// There are four kinds of kernels. A row kernel computes a run of pixels of one output row, for any number of taps. A
// tile kernel computes several output rows at once, for one kernel size and one stride. The other two compute one
// channel of a whole image: a plane kernel writes its output in blocks of pixels, an image kernel serves 3x3 taps with
// stride 2.
//
// Packed weights: one panel holds NR channels; zeros fill up the last panel. The taps are stored column by column: the
// outer loop runs over the kernel's width, the inner loop over its height.
//
//     panel:   bias[0] .. bias[NR-1]  W[0][0] .. W[0][NR-1]  W[1][0] ..  W[T-1][0] .. W[T-1][NR-1]
//     bytes:   f32: NR * (T + 1) * 4;  qs8c: NR * (T + 4), as in gemm.h
//
// Panels of tile kernels may have a format (panel.h). If kr is more than 1, kr successive taps of a column lie together,
// as in gemm.h, and zeros fill up the last kr of each column.
//
// ---- row: a run of output pixels x
//
// A(x, t) is a row of `channels` elements at a + offsets(x)[t]. If that offset is negative, the tap lies in the padding
// and A(x, t) is `zero`. offsets(x) begins at offsets + x * step; its entries are 32-bit numbers of bytes, in the order
// of the taps. Because taps are stored column by column, neighbouring pixels share columns of the table: with dilation
// 1, step is stride_w * kernel_h * 4.
//
//     stride 1, 3x3:   offsets  [c0: r0 r1 r2][c1: r0 r1 r2][c2: r0 r1 r2][c3: ...
//                      x = 0    `---------------- 9 taps --------------'
//                      x = 1                  `---------------- 9 taps --------------'
//
// Arguments  channels  >= 1
//            pixels    output pixels, >= 1
//            taps      T >= 1
//            offsets, step, a
//            zero      a pixel of padding: `channels` elements, all 0 (or, for quantized numbers, their zero point)
//            w         packed weights, aligned to 64
//            c         pixel x at c + x * c_stride bytes
//
// ---- tile: R output rows y, each a run of output pixels x; kernel K x K, stride S, dilation 1
//
// Each column of the table has (R - 1) * S + K offsets: the input rows that R windows, one below the other, cover. For
// the window at (y, x), the tap in kernel column i and row j is entry y * S + j of column x * S + i. One column serves
// all windows that contain it, so a kernel loads it once for R * K * K / S products.
//
//     R 2, K 3, S 1:   offsets  [c0: r0 r1 r2 r3][c1: r0 r1 r2 r3][c2: r0 r1 r2 r3][c3: ...
//                      y = 0         `------'          `------'          `------'
//                      y = 1            `------'          `------'          `------'
//
// A negative offset stands for the pixel `zero`.
//
// Arguments  channels, pixels, offsets, a, w as above
//            rows      output rows to compute, 1 .. R; the kernel does not read entries that none of them needs
//            c         pixel (y, x) at c + y * row_stride + x * c_stride bytes
//            zero      as above; f32 kernels may assume that it holds zeros and not read it
//
// Memory     of row and tile kernels: they read exactly the rows of A that the table names, `zero` only where the table
//            asks for it, whole panels, and *p. They write exactly `channels` elements per pixel. Addresses of A and
//            C are multiples of an element. C overlaps nothing.
//
// ---- plane: pixels p of one channel, C[p] = clamp(bias + sum over taps t of A(p, t) * W[t])
//
// A tap reads the plane of pixels shifted by a fixed distance: A(p, t) is the float at a + offsets[t] + 4 * p. For
// pixels near the left or right edge of the image, a tap may fall outside the image: then the mask of the tap's kernel
// column has no bit for p, and A(p, t) is 0.
//
//     3x3 on rows of 5:   columns of taps     0           1           2
//                         offsets / 4         -6 -1 4     -5 0 5      -4 1 6
//                         mask                01111 01111 11111 11111 11110 11110 ..
//
// Arguments  pixels    >= 1
//            kernel_h, kernel_w     taps of a column, and columns
//            offsets   one 32-bit number of bytes per tap; it may be negative
//            masks     the mask of column i begins at masks + i * mask_stride bytes. Pixel p is bit p % 8 of byte
//                      p / 8. A mask consists of whole 16-bit words; bits after the last pixel are 0
//            a
//            w         a packed panel for NR = 1: bias, then taps column by column
//            c         pixel p at c + p / BLOCK * c_stride bytes + p % BLOCK * 4
//            p         clamp
// Memory     Kernels with K = 0 read exactly the pixels whose bit is set. Kernels with K = 3 read whole vectors: at
//            each offset of the middle column, those of all pixels, and one more vector before and after them. All
//            kernels write whole vectors of LANES pixels of C; the floats after the last pixel get arbitrary values.
//            Addresses of A and C are multiples of 4. C overlaps nothing.
// K          0: the kernel takes any window. 3: it takes 3x3 taps, with columns 4 bytes apart. Then every pixel has its
//            bit in the middle column, and the kernel does not read that column's mask.
//
// ---- image: one channel of an image, 3x3 with stride 2, C[y][x] = clamp(bias + sum of A[2y + j][2x + i - 1] * W[i][j])
//
// A[..][-1], left of the image, counts as 0. All other padding is stored in memory as part of A.
//
// Arguments  rows, columns     of C, >= 1
//            a         row y of A, 0 .. 2 rows, at a + y * a_stride bytes
//            w         a packed panel for NR = 1: bias, then taps column by column
//            c         row y at c + y * c_stride bytes, in ascending order
//            p         clamp
// Memory     Each row of C is written in whole vectors of LANES pixels, and A is read for all of them. Pixels after the
//            last column get the value that the formula gives them, so rows of C may lie closer together than whole
//            vectors: the next row overwrites them. Addresses of A and C are multiples of 4. C does not overlap A.
//
// ---- all
//
// Numbers    f32: Each output is one chain of multiply-adds over the taps in ascending order, as in gemm.h. qs8c: as in
//            gemm.h; row and tile kernels only.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/panel.h"
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
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, panel, demands, isa, layout, name) \
  QN_DECLARE_KERNEL(qn_dwconv_tile_fn, name)
#define QN_DWCONV_PLANE_ROW(type, kernel, block, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_dwconv_plane_fn, name)
#define QN_DWCONV_IMAGE_ROW(type, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_dwconv_image_fn, name)
#include "kernel/dwconv.inc"

}  // extern "C"

namespace quern {

struct DwconvRow : Row {
  uint32_t nr;
  qn_dwconv_fn run;
};

struct DwconvTileRow : Row {
  uint32_t kernel, stride;
  uint32_t rows, nr;
  PanelFormat panel;
  qn_dwconv_tile_fn run;
};

struct DwconvPlaneRow : Row {
  uint32_t kernel;  // K
  uint32_t block;   // pixels of a block
  uint32_t lanes;   // pixels of a vector
  qn_dwconv_plane_fn run;
};

struct DwconvImageRow : Row {
  uint32_t lanes;  // pixels of a vector
  qn_dwconv_image_fn run;
};

// Each table lists the best row first; the reference is last and runs everywhere. Tile rows are sorted so for each
// kernel size and stride, plane rows for each block size.
std::span<const DwconvRow> dwconv_rows();
std::span<const DwconvTileRow> dwconv_tile_rows();
std::span<const DwconvPlaneRow> dwconv_plane_rows();
std::span<const DwconvImageRow> dwconv_image_rows();

}  // namespace quern

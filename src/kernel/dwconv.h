// dwconv (depthwise): C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]) for a run of output pixels x
//
// A(x, t) is a row of `channels` floats: a + offsets(x)[t], or `zero` where that offset is negative (padding).
// offsets(x) = offsets + x * step: 32-bit offsets in bytes. With taps ordered column by column (kernel width outer,
// height inner), neighbouring pixels share columns: step = stride_w * kernel_h * 4 when the dilation is 1.
//
//     stride 1, 3x3:   offsets  [c0: r0 r1 r2][c1: r0 r1 r2][c2: r0 r1 r2][c3: ...
//                      x = 0    `---------------- 9 taps --------------'
//                      x = 1                  `---------------- 9 taps --------------'
//
// Packed weights: one panel per NR channels, the last one padded with zeros; taps in the order of the table:
//
//     panel:   bias[0] .. bias[NR-1]  W[0][0] .. W[0][NR-1]  W[1][0] ..  W[T-1][0] .. W[T-1][NR-1]     NR * (T + 1) * 4
//     bytes
//
// Arguments  channels  >= 1
//            pixels    output pixels, >= 1
//            taps      T >= 1; a row with a fixed number of taps (9p16) is only called with that number
//            offsets, step, a, zero (4 * channels bytes of zeros)
//            w         packed weights, aligned to 64
//            c         pixel x at c + x * c_stride bytes
//
// Memory     Reads exactly the named rows, `zero` only where the table asks for it, whole panels, and *p. Writes
// exactly
//            `channels` floats per pixel. Addresses of A and C: multiples of 4. C overlaps nothing.
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

#define QN_DWCONV_ROW(type, taps, nr, isa, layout, name)                                                      \
  void name(size_t channels, size_t pixels, size_t taps_, const int32_t* offsets, size_t step, const void* a, \
            const void* zero, const void* w, void* c, size_t c_stride, const qn_minmax_f32* p);
#include "kernel/dwconv.inc"
#undef QN_DWCONV_ROW

}  // extern "C"

namespace quern {

struct DwconvRow : Row {
  size_t taps;  // 0: any number
  size_t nr;
  qn_dwconv_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const DwconvRow> dwconv_rows();

}  // namespace quern

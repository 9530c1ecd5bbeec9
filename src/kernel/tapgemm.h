// tapgemm: C(m)[n] = requantize(bias[n] + sum over taps t, bytes k of A(t, m)[k] * W[t][k][n])
//
// A(t, m) is a row of kc bytes at a + offsets[t] + m * a_stride: each tap is a matrix with the same distance between its
// rows. So are the taps of a convolution, if the rows of an image, padding included, follow each other without a gap:
// then all output rows are one product, with some columns between them that nobody wants.
//
//     row of C    0 1 2 .. w-1   -   0 1 2 .. w-1   -   0 1 2 ..        -: its address is that of scratch memory
//     tap 0       p x x  ..  x   x   p x x  ..  x   x   p x x ..        p: a pixel of padding, which is that to the right
//     tap 1       x x x  ..  x   p   x x x  ..  x   p   x x x ..           of one row, and to the left of the next one
//
// Packed weights: the panels of gemm.h, with K = ks * kc. If the format adds 128 to A (panel.h), the caller has: rows
// hold unsigned bytes. Callers copy A anyway, and kernels need no flip of signs.
//
// Arguments  mr        rows of this call, 1 <= mr <= MR
//            nc        output channels, >= 1
//            kc        bytes of one row, >= 1: a multiple of KR, for kernels of tiles at most 64. Longer rows count as
//                      several taps
//            ks        taps, >= 1
//            offsets   ks entries
//            a         row m of tap t at a + offsets[t] + m * a_stride bytes
//            w, p      as in gemm.h
//            c         mr addresses, one for each row of C. Rows may share one: then one of them is stored there
//
// Memory     Reads exactly these rows of A, kc bytes each, offsets, c, ceil(nc / NR) whole panels, and *p. Writes exactly
//            nc elements in each of the rows of C. C overlaps nothing.
// Numbers    As gemm.h: the bits are those of gemm with a matrix A into which all taps were copied.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/panel.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_tapgemm_fn)(size_t mr, size_t nc, size_t kc, size_t ks, const size_t* offsets, const void* a,
                              size_t a_stride, const void* w, void* const* c, const void* p);

#define QN_TAPGEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) QN_DECLARE_KERNEL(qn_tapgemm_fn, name)
#include "kernel/tapgemm.inc"

}  // extern "C"

namespace quern {

struct TapgemmRow : Row {
  uint32_t mr, nr;
  PanelFormat panel;
  qn_tapgemm_fn run;
};

// The most bytes of a row of a tap.
inline size_t most_tap_bytes(const Row& row) { return of_tiles(row) ? tile_engine.step_bytes : SIZE_MAX; }

// Does the build have kernels of this family other than the reference, which is too slow to be of use? A small build has
// them if its list names them.
constexpr bool has_taps =
    QN_ARCH_X86_64 && has_integers && (!small || (trimmed && has_kernel("qn_tapgemm_qs8c_12x32_avx512vnni")));

// Best first; the reference is last and runs everywhere.
std::span<const TapgemmRow> tapgemm_rows();

}  // namespace quern

// gemm: C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n])
//
// Packed weights W: one panel per NR output channels, the last one padded with zeros, one after the other. Type f32:
//
//     panel:   bias[0] .. bias[NR-1]                NR floats
//              W[0][0] .. W[0][NR-1]                NR floats    k = 0
//              W[1][0] .. W[1][NR-1]                             k = 1
//              ...                                               k = K-1
//     bytes:   NR * (K + 1) * 4;  panel j begins at w + j * that
//
// Where KR is more than 1, KR successive k of a channel lie together, and zeros fill up the last of them:
//
//              W[0][0] .. W[KR-1][0]   W[0][1] .. W[KR-1][1]   ..  W[KR-1][NR-1]    k = 0 .. KR-1
//
// A's rows are not padded: k counts what they have, and a kernel reads no more, whether KR divides it or not.
//
// Arguments  mr        rows of this call, 1 <= mr <= MR
//            nc        output channels, >= 1; NR at a time from successive panels
//            k         bytes of one row of A, K >= 1 elements
//            a         row m at a + m * a_stride bytes
//            w         packed weights, aligned to 64
//            c         row m at c + m * c_stride bytes
//            p         the epilogue of the type; f32: qn_minmax_f32 of minmax.h, the clamp
//
// Memory     Reads exactly rows 0 .. mr-1 of A, k bytes each, ceil(nc / NR) whole panels, and *p. Writes exactly nc
//            floats in each of the mr rows of C. A, C: any address that is a multiple of 4. C overlaps nothing.
// Numbers    Each output is one ascending chain of fused multiply-adds that begins with the bias; a level without FMA
//            (ref, sse41, neon on 32-bit ARM) rounds the product first. So the bits are equal for all tiles of all FMA
//            levels.  |error| <= (K + 1) * eps * (|bias| + sum |A| |W|).  Clamp: min, then max, of a NaN is that NaN.
//            The levels of 32-bit ARM flush: a denormal in A, W, p or of a product or sum counts as a zero of its sign.
// Machine    The platform's C calling convention; FP control untouched; a leaf; no stack beyond its frame.
#pragma once

#include <cstddef>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_gemm_fn)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c,
                           size_t c_stride, const void* p);

#define QN_GEMM_ROW(type, mr, nr, kr, demands, isa, layout, name) QN_DECLARE_KERNEL(qn_gemm_fn, name)
#include "kernel/gemm.inc"

}  // extern "C"

namespace quern {

struct GemmRow : Row {
  size_t mr, nr;
  size_t kr;  // successive k that lie together in a panel
  qn_gemm_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const GemmRow> gemm_rows();

}  // namespace quern

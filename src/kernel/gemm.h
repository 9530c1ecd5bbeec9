// gemm: C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n])
//
// Packed weights W: panels of NR output channels, one after the other; zeros fill up the last panel. Type f32:
//
//     panel:   bias[0] .. bias[NR-1]                NR floats
//              W[0][0] .. W[0][NR-1]                NR floats    k = 0
//              W[1][0] .. W[1][NR-1]                             k = 1
//              ...                                               k = K-1
//     bytes:   NR * (K + 1) * 4;  panel j begins at w + j * that
//
// A row may give panels another format (panel.h). If KR is more than 1, KR successive k of a channel lie together, and
// zeros fill up the last KR of them. If the kernel adds 128 to A, the biases are less by 128 times the sum of the weights:
//
//              W[0][0] .. W[KR-1][0]   W[0][1] .. W[KR-1][1]   ..  W[KR-1][NR-1]    k = 0 .. KR-1
//
// Type qs8c: A, W and C are bytes, and biases and sums are 32-bit integers.
//
//     panel:   bias[0] .. bias[NR-1]                NR int32
//              W[0][0] .. W[0][NR-1]                NR int8     k = 0
//              ...                                              k = K-1
//     bytes:   NR * (K + 4);  panel j begins at w + j * that
//
// Type qd8c: A and W are bytes, C is floats. Each row of A has a scale and a zero point of its own.
//
//     panel:   sum of W[..][0] .. sum of W[..][NR-1]    NR int32, over all k
//              W[0][0] .. W[0][NR-1]                    NR int8, and so on as for qs8c
//     A:       before each row, a qn_quantized_row (dequantize.h)
//
// Type qd8c4: the same with weights of 4 bits, -8 .. 7. A byte of a panel's row holds the weights of two channels: that
// of channel i < NR / 2 in its lower half, that of channel i + NR / 2 in its upper half (half_of() in panel.h).
//
//     bytes:   NR * (K / 2 + 4)
//
// Type qd8b4: the same with a scale for each block of 32 k of a channel. A half of a byte holds its weight plus 8, as a
// number from 0 to 15. Weights of 0 and elements of 0 fill up the last block.
//
//     panel:   sums of weights of 0 .. of NR-1      NR floats: the sum of W[k][n] over the k of a block, times its
//                                                   scale s[b][n], over all blocks b in ascending order; each operation
//                                                   rounds
//              W[0][0] ..                           a block of weights, NR * 16 bytes
//              s[0][0] .. s[0][NR-1]                its scales, NR floats
//              W[32][0] ..                          the next block
//     bytes:   NR * (4 + 20 * blocks)
//     A:       a qn_quantized_row, then for each block a qn_quantized_block (dequantize.h)
//
// In other types rows of A have no such padding: a kernel reads exactly K elements of a row, even if KR does not divide
// K, but with qd8c whole words.
//
// Type qw8c: A and C are floats. Panels are those of qd8c; kernels do not read the sums of weights. Only for one row.
//
// Type qw4b: A and C are floats. Panels are those of qd8b4; kernels do not read the sums of weights.
//
// Arguments  mr        rows of this call, 1 <= mr <= MR
//            nc        output channels, >= 1; each panel gives NR of them
//            k         bytes of one row of A, which has K >= 1 elements; with qd8b4 those of its blocks
//            a         row m at a + m * a_stride bytes
//            w         packed weights, aligned to 64
//            c         row m at c + m * c_stride bytes
//            p         the epilogue, which depends on the type. f32: the clamp, qn_minmax_f32 of minmax.h. qs8c: for
//                      each panel a qn_requantize and NR scales (requantize.h); the scales of channels that do not
//                      exist may be anything. All other types: for each panel a qn_dequantize, NR scales (not with
//                      qd8b4 and qw4b) and NR biases, likewise
//
// Memory     Reads exactly rows 0 .. mr-1 of A, k bytes each (with qd8c also the 8 bytes before each, and up to 3 bytes
//            that make up a last word, whatever these are), ceil(nc / NR) whole panels, and *p. Writes exactly nc
//            elements in each of the mr rows of C. Addresses of A and C are multiples of an element, with qd8c of 4. C
//            overlaps nothing.
// Numbers    f32: Each output is one chain of fused multiply-adds that begins with the bias and takes k in ascending order.
//            So all kernels of all FMA levels give equal bits. A level without FMA (ref, sse41, neon on 32-bit ARM)
//            rounds each product before it adds it.
//            |error| <= (K + 1) * eps * (|bias| + sum |A| |W|).
//            The clamp applies min, then max, and keeps a NaN.
//            The levels of 32-bit ARM flush denormals: one in A, W or p, or as a product or sum, counts as a zero of
//            its sign.
//            qs8c: Sums of 32 bits wrap around, as the formats of quantized models define them. They end as requantize()
//            says, so all kernels return the same bits.
//            qd8c: Sums are exact; the caller sees to it that none overflows, nor a zero point times a sum of weights,
//            nor their difference. With weights of 4 bits the same holds for 16 times these numbers, so that a kernel
//            may leave weights in the upper halves of bytes. No sum of weights exceeds 2^23 - 1, nor does its negative:
//            those of up to 65,535 weights cannot. Sums end as dequantize() says, so all kernels give equal bits.
//            qd8b4: The sum of the products A[m][k] * W[k][n] of a block is exact. It becomes a float and is multiplied
//            by its scale; these products are added to 0, in ascending order of blocks. Each operation rounds, none is
//            fused. The sum ends as dequantize_blocks() says.
//            qw8c: Weights become floats, which is exact. Four sums begin with 0 and take every fourth k each, from 0, 1,
//            2 and 3 on, in ascending order, by multiply-adds as those of f32. The result is
//            clamp(((s0 + s1) + (s2 + s3)) * scale + bias), where each operation rounds.
//            qw4b: Weights become floats, which is exact. The sum of a block begins with 0 and takes k in ascending order,
//            by multiply-adds as those of f32. Such multiply-adds also add the sum of each block times its scale to the
//            bias, in ascending order of blocks; then the result is clamped.
// Machine    A kernel follows the platform's C calling convention, leaves the floating-point control register as it is,
//            calls no function, and uses no stack beyond its own frame.
#pragma once

#include <cstddef>

#include "kernel/minmax.h"
#include "kernel/panel.h"
#include "kernel/row.h"

extern "C" {

typedef void (*qn_gemm_fn)(size_t mr, size_t nc, size_t k, const void* a, size_t a_stride, const void* w, void* c,
                           size_t c_stride, const void* p);

#define QN_GEMM_ROW(type, mr, nr, panel, demands, isa, layout, name) QN_DECLARE_KERNEL(qn_gemm_fn, name)
#include "kernel/gemm.inc"

}  // extern "C"

namespace quern {

struct GemmRow : Row {
  uint32_t mr, nr;
  PanelFormat panel;
  qn_gemm_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const GemmRow> gemm_rows();

}  // namespace quern

// C[m][n] = requantized (bias[n] + sum over k of A[m][k] * W[k][n]), 4 rows x 4 channels of bytes.
// Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   code   gemm_tile.h, row_1x4.h   tile   tile_4x4_qs8c.h
#include "tile_4x4_qs8c.h"
#include "gemm_tile.h"
#include "row_1x4.h"

gemm    qn_gemm_qs8c_4x4_neon
gemm_inorder qn_gemm_qs8c_4x4_neon_inorder, inorder

// One row: row_1x4.h.
fn qn_gemm_qs8c_1x4_neon
        ldr     x8, [sp]
0:      ldr     s16, [x5], #4
        ldr     s17, [x5], #4
        ldr     s18, [x5], #4
        ldr     s19, [x5], #4
        row_sums
        ldr     q0, [x8, #REQUANTIZE_SCALES]
        load_zero_and_bounds
        scvtf   v16.4s, v16.4s
        fmul    v16.4s, v16.4s, v0.4s
        fadd    v16.4s, v16.4s, v7.4s
        sqsub   v16.4s, v16.4s, v4.4s
        sqxtn   v16.4h, v16.4s
        sqxtn   v16.8b, v16.8h
        smax    v16.8b, v16.8b, v5.8b
        smin    v16.8b, v16.8b, v6.8b
        add     x8, x8, #(REQUANTIZE_SCALES + 16)
        cmp     x1, #4
        b.lo    5f
        str     s16, [x6], #4
        subs    x1, x1, #4
        b.ne    0b
        ret
5:      fmov    w16, s16
        store_first_bytes x6, x1, 16, 4
        ret
endfn qn_gemm_qs8c_1x4_neon

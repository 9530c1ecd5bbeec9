// Products of rows that are quantized each on its own, 4 rows x 4 channels of bytes, without dot products, to floats.
// Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   code   gemm_tile.h, row_1x4.h   tile   tile_4x4_bytes.h
//
// At its end a sum becomes less by the row's zero point times the sum of the weights, which is in front of these.
#include "clamp_f32.h"
#include "tile_4x4_bytes.h"
#include "gemm_tile.h"
#include "row_1x4.h"

#define DEQUANTIZE_BYTES (DEQUANTIZE_SCALES + 32)       // of the epilogue of a panel

.macro no_sums m, a, c0, c1, c2, c3, none
        movi    v\c0\().4s, #0
        movi    v\c1\().4s, #0
        movi    v\c2\().4s, #0
        movi    v\c3\().4s, #0
.endm

// The sums of the weights of the panel behind which x5 is, in v0.
.macro sums_of_weights
        add     x16, x2, #15
        and     x16, x16, #-16
        sub     x16, x5, x16, lsl #2
        ldr     q0, [x16, #-16]
.endm

.macro less_zeros m, a, c0, c1, c2, c3, none
        ldur    s1, [\a, #QUANTIZED_ROW_ZERO]
        mul     v1.4s, v0.4s, v1.s[0]
        sub     v\c0\().4s, v\c0\().4s, v1.4s
.endm

.macro times_row m, a, c0, c1, c2, c3, none
        ldur    s1, [\a, #QUANTIZED_ROW_SCALE]
        scvtf   v\c0\().4s, v\c0\().4s
        fmul    v\c0\().4s, v\c0\().4s, v1.s[0]
.endm

.macro load_epilogue
        ldur    q2, [x8, #DEQUANTIZE_SCALES]
        ldur    q3, [x8, #(DEQUANTIZE_SCALES + 16)]
        load_bounds
.endm

.macro times_channels m, a, c0, c1, c2, c3, none
        fmul    v\c0\().4s, v\c0\().4s, v2.4s
        fadd    v\c0\().4s, v\c0\().4s, v3.4s
.endm

// Whole rows of C, or their first channels.  The last row first, for the address of the last row is known: x17 the row
// at hand.
.macro store_row m, whole, sums
        .if     \m > 0
        cmp     x0, #\m
        b.ls    1f
        .endif
        .if     \whole
        str     q\sums, [x17]
        .else
        mov     x16, x17
        store_below_4 x16, x1, \sums
        .endif
        .if     \m > 0
        sub     x17, x17, x7
1:
        .endif
.endm

.macro store_rows whole
        store_row 3, \whole, 28
        store_row 2, \whole, 24
        store_row 1, \whole, 20
        store_row 0, \whole, 16
.endm

.macro parts
L(start):
        add     x5, x5, #16
        rows    no_sums
        ret

        singly_bytes

L(finish):
        rows    add_fours
        rows    add_twos
        sums_of_weights
        rows    less_zeros
        rows    times_row
        load_epilogue
        rows    times_channels
        clamp_rows 16, 20, 24, 28
        add     x8, x8, #DEQUANTIZE_BYTES
        mov     x17, x6
        cmp     x1, #4
        b.lo    5f
        store_rows 1
        add     x6, x6, #16
        subs    x1, x1, #4
        b.ne    L(start)
        ret
5:      store_rows 0
        mov     x1, #0
        ret
.endm

gemm    qn_gemm_qd8c_4x4_neon
gemm_inorder qn_gemm_qd8c_4x4_neon_inorder, inorder

// One row: row_1x4.h.
fn qn_gemm_qd8c_1x4_neon
        ldr     x8, [sp]
0:      add     x5, x5, #16
        no_sums 0, , 16, 17, 18, 19
        row_sums
        sums_of_weights
        less_zeros 0, x3, 16
        times_row 0, x3, 16
        load_epilogue
        times_channels 0, , 16
        clamp_one 16, 2
        add     x8, x8, #DEQUANTIZE_BYTES
        cmp     x1, #4
        b.lo    5f
        str     q16, [x6], #16
        subs    x1, x1, #4
        b.ne    0b
        ret
5:      store_below_4 x6, x1, 16
        ret
endfn qn_gemm_qd8c_1x4_neon

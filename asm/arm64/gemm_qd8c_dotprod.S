// Products of rows that are quantized each on its own, 8 rows x 8 channels of bytes, with dot products, to floats.
// Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   code   gemm_tile.h, row_1x8.h   tile   tile_8x8.h and tile_8x8_inorder.h
//
// A sum begins with minus the row's zero point times the sum of the weights.  The last k are read as a whole word, of
// which the other bytes meet weights of 0.
#include "dot.h"
#include "floats_8x8.h"
#include "tile_8x8_inorder.h"
#include "gemm_tile.h"
#include "row_1x8.h"

#define DEQUANTIZE_BYTES (DEQUANTIZE_SCALES + 64)       // of the epilogue of a panel

.macro whole_words
        add     x2, x2, #3
        and     x2, x2, #-4
.endm

.macro load_zero m, a, lo, hi, none
        ldur    s\m, [\a, #QUANTIZED_ROW_ZERO]
.endm

.macro start_sums m, a, lo, hi, none
        mul     v\lo\().4s, v8.4s, v\m\().s[0]
        mul     v\hi\().4s, v9.4s, v\m\().s[0]
.endm

.macro load_scale m, a, lo, hi, none
        ldur    s\m, [\a, #QUANTIZED_ROW_SCALE]
.endm

.macro times_row m, a, lo, hi, none
        scvtf   v\lo\().4s, v\lo\().4s
        scvtf   v\hi\().4s, v\hi\().4s
        fmul    v\lo\().4s, v\lo\().4s, v\m\().s[0]
        fmul    v\hi\().4s, v\hi\().4s, v\m\().s[0]
.endm

.macro times_channels m, a, lo, hi, none
        fmul    v\lo\().4s, v\lo\().4s, v0.4s
        fmul    v\hi\().4s, v\hi\().4s, v1.4s
.endm

.macro add_biases m, a, lo, hi, none
        fadd    v\lo\().4s, v\lo\().4s, v2.4s
        fadd    v\hi\().4s, v\hi\().4s, v3.4s
.endm

.macro parts
L(start):
        ldp     q8, q9, [x5], #32
        rows    load_zero
        neg     v8.4s, v8.4s
        neg     v9.4s, v9.4s
        rows    start_sums
        ret

        singly_words

L(finish):                              // v0-v7 scales of rows, then v0 v1 of channels  v2 v3 biases, then floats_8x8.h
        rows    load_scale
        rows    times_row
        ldur    q0, [x8, #DEQUANTIZE_SCALES]
        ldur    q1, [x8, #(DEQUANTIZE_SCALES + 16)]
        ldur    q2, [x8, #(DEQUANTIZE_SCALES + 32)]
        ldur    q3, [x8, #(DEQUANTIZE_SCALES + 48)]
        rows    times_channels
        rows    add_biases
        load_bounds
        add     x8, x8, #DEQUANTIZE_BYTES
        store_floats
.endm

gemm    qn_gemm_qd8c_8x8_dotprod, whole_words
gemm_inorder qn_gemm_qd8c_8x8_dotprod_a55, a55, whole_words

// One row: row_1x8.h.  v1 minus its zero point  v2 its scale
.macro panel_sums w, lo, hi, w0, w1, none
        ldp     q\lo, q\hi, [\w], #32
        mul     v\lo\().4s, v\lo\().4s, v1.4s
        mul     v\hi\().4s, v\hi\().4s, v1.4s
.endm

fn qn_gemm_qd8c_1x8_dotprod
        ldr     x8, [sp]
        whole_words
        ldp     s2, s1, [x3, #QUANTIZED_ROW_SCALE]
        dup     v1.4s, v1.s[0]
        neg     v1.4s, v1.4s
0:      lsl     x13, x2, #3
        add     x13, x13, #32           // bytes of a panel
        panel_words panel_sums
        last_panel_words

        mov     x5, x11                 // the panels, one after the other, from v16 v17
        mov     x13, #4
8:      ldur    q4, [x8, #DEQUANTIZE_SCALES]
        ldur    q5, [x8, #(DEQUANTIZE_SCALES + 16)]
        ldur    q6, [x8, #(DEQUANTIZE_SCALES + 32)]
        ldur    q7, [x8, #(DEQUANTIZE_SCALES + 48)]
        load_bounds 26, 27
        times_row 2, , 16, 17
        fmul    v16.4s, v16.4s, v4.4s
        fmul    v17.4s, v17.4s, v5.4s
        fadd    v16.4s, v16.4s, v6.4s
        fadd    v17.4s, v17.4s, v7.4s
        clamp_one 16, 24, 26, 27
        clamp_one 17, 25, 26, 27
        cmp     x1, #8
        b.lo    9f
        stp     q16, q17, [x6], #32
        subs    x1, x1, #8
        b.eq    10f
        add     x8, x8, #DEQUANTIZE_BYTES
        move_panels
        subs    x13, x13, #1
        b.ne    8b
        b       0b
9:      store_first x6, x1, 16, 17
10:     ret
endfn qn_gemm_qd8c_1x8_dotprod

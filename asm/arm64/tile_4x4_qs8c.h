// The tile of 4 rows x 4 channels of bytes (tile_4x4_bytes.h) that ends as bytes.
#ifndef QN_ASM_ARM64_TILE_4X4_QS8C_H
#define QN_ASM_ARM64_TILE_4X4_QS8C_H

#include "requantize.h"
#include "tile_4x4_bytes.h"

.macro start_row m, a, c0, c1, c2, c3, none
        .if     \m > 0                  // row 0 was loaded
        mov     v\c0\().16b, v16.16b
        mov     v\c1\().16b, v17.16b
        mov     v\c2\().16b, v18.16b
        mov     v\c3\().16b, v19.16b
        .endif
.endm

.macro to_float m, a, c0, c1, c2, c3, none
        scvtf   v\c0\().4s, v\c0\().4s
.endm

.macro scale m, a, c0, c1, c2, c3, none
        fmul    v\c0\().4s, v\c0\().4s, v0.4s
.endm

.macro round m, a, c0, c1, c2, c3, none
        fadd    v\c0\().4s, v\c0\().4s, v7.4s
.endm

.macro to_integer m, a, c0, c1, c2, c3, none
        sqsub   v\c0\().4s, v\c0\().4s, v4.4s
.endm

.macro store_four m
        .if     \m > 0
        cmp     x0, #\m
        b.ls    1f
        .endif
        st1     {v16.s}[\m], [x17]
        .if     \m > 0
        sub     x17, x17, x7
1:
        .endif
.endm

// What the functions of a file call, behind one of them, as tile_8x8.h says.
.macro parts
L(start):                               // each bias is one of four sums, the others are 0
        ldr     s16, [x5], #4
        ldr     s17, [x5], #4
        ldr     s18, [x5], #4
        ldr     s19, [x5], #4
        rows    start_row
        ret

        singly_bytes

L(finish):                              // v0 scales  v4-v7 load_zero_and_bounds
        ldr     q0, [x8, #REQUANTIZE_SCALES]
        load_zero_and_bounds
        rows    add_fours
        rows    add_twos
        rows    to_float
        rows    scale
        rows    round
        rows    to_integer
        sqxtn   v16.4h, v16.4s
        sqxtn   v24.4h, v24.4s
        sqxtn2  v16.8h, v20.4s
        sqxtn2  v24.8h, v28.4s
        sqxtn   v16.8b, v16.8h
        sqxtn2  v16.16b, v24.8h
        smax    v16.16b, v16.16b, v5.16b
        smin    v16.16b, v16.16b, v6.16b
        add     x8, x8, #(REQUANTIZE_SCALES + 16)
        cmp     x1, #4
        b.lo    5f
        mov     x17, x6
        store_four 3
        store_four 2
        store_four 1
        store_four 0
        add     x6, x6, #4
        subs    x1, x1, #4
        b.ne    L(start)
        ret

5:      str     q16, [sp, #-16]!        // x1 channels, from memory: x9 the row at hand
        .cfi_adjust_cfa_offset 16
        mov     x9, sp
        add     x9, x9, x0, lsl #2
6:      ldr     w16, [x9, #-4]!
        mov     x17, x6
        store_first_bytes x17, x1, 16, 4
        sub     x6, x6, x7
        subs    x0, x0, #1
        b.ne    6b
        add     sp, sp, #16
        .cfi_adjust_cfa_offset -16
        mov     x1, #0
        ret
.endm

#endif

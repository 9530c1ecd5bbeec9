// The part of the tile of 8 rows x 8 channels (tile_8x8.h) that depends on the numbers: floats.
#ifndef QN_ASM_ARM64_TILE_8X8_F32_H
#define QN_ASM_ARM64_TILE_8X8_F32_H

#include "tile_8x8.h"

.macro mac acc, w, a, lane
        fmla    v\acc\().4s, v\w\().4s, v\a\().s[\lane]
.endm

.macro load1 m, a, lo, hi, none
        ldr     s\m, [\a, x17]
.endm

// Comparisons with NaN are false, so a NaN stays; and -0 is not below 0. (fmax would make it +0.)
.macro clamp_rows a, b, c, d
        fcmgt   v2.4s, v0.4s, v\a\().4s
        fcmgt   v3.4s, v0.4s, v\b\().4s
        fcmgt   v4.4s, v0.4s, v\c\().4s
        fcmgt   v5.4s, v0.4s, v\d\().4s
        bit     v\a\().16b, v0.16b, v2.16b
        bit     v\b\().16b, v0.16b, v3.16b
        bit     v\c\().16b, v0.16b, v4.16b
        bit     v\d\().16b, v0.16b, v5.16b
        fcmgt   v2.4s, v\a\().4s, v1.4s
        fcmgt   v3.4s, v\b\().4s, v1.4s
        fcmgt   v4.4s, v\c\().4s, v1.4s
        fcmgt   v5.4s, v\d\().4s, v1.4s
        bit     v\a\().16b, v1.16b, v2.16b
        bit     v\b\().16b, v1.16b, v3.16b
        bit     v\c\().16b, v1.16b, v4.16b
        bit     v\d\().16b, v1.16b, v5.16b
.endm

.macro store_row m, lo, hi
        .if     \m > 0
        cmp     x0, #\m
        b.ls    1f
        .endif
        stp     q\lo, q\hi, [x17]
        .if     \m > 0
        sub     x17, x17, x7
1:
        .endif
.endm

.macro put_aside m, a, lo, hi, none
        stp     q\lo, q\hi, [sp, #(32 * \m)]
.endm

// What the functions of a file call, behind one of them.
.macro parts
L(start):
        ldp     q16, q17, [x5], #32
        rows    start_row
        ret

L(singly):                              // v0-v7 A  v8 v9 W
        rows    load1
        ldp     q8, q9, [x5], #32
        add     x17, x17, #4
        subs    x16, x16, #4
        rows    step, 0, 8, 9
        b.ne    L(singly)
        ret

L(finish):                              // v0 min  v1 max  v2-v5 masks
        add     x16, x8, #MINMAX_MIN
        add     x17, x8, #MINMAX_MAX
        ld1r    {v0.4s}, [x16]
        ld1r    {v1.4s}, [x17]
        clamp_rows 16, 17, 18, 19
        clamp_rows 20, 21, 22, 23
        clamp_rows 24, 25, 26, 27
        clamp_rows 28, 29, 30, 31
        cmp     x1, #8
        b.lo    5f
        rows_down store_row
        add     x6, x6, #32
        subs    x1, x1, #8
        b.ne    L(start)
        ret

5:      sub     sp, sp, #256            // x1 channels, from memory: x9 the row at hand
        .cfi_adjust_cfa_offset 256
        rows    put_aside
        mov     x9, sp
        add     x9, x9, x0, lsl #5
6:      ldp     q2, q3, [x9, #-32]!
        mov     x16, x6
        store_first x16, x1, 2, 3
        sub     x6, x6, x7
        subs    x0, x0, #1
        b.ne    6b
        add     sp, sp, #256
        .cfi_adjust_cfa_offset -256
        mov     x1, #0
        ret
.endm

#endif

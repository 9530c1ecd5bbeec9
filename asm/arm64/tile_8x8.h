// What the float kernels with a tile of 8 rows x 8 channels share: gemm and igemm, for whatever core.
//
//   args   x0 mr     x1 channels left   x2 k(bytes)   x5 w   x6 last row of C in the tile   x7 c_stride   x8 p
//   A      rows 0-7 at x3 x9 x10 x11 x12 x13 x14 x15
//   acc    v16-v31: row m holds v(16+2m), v(17+2m)
//   free   v0-v15 x16 x17
//
// Rows past the last one are computed as its copies and not stored.  What is not hot stands once in a file (`parts`), for
// its functions to call; these keep their return address in a register, so it needs no signature:
//
//   start     begins a panel
//   singly    x16 bytes of k, more than none, one k at a time, at x17 in the rows of A
//   finish    clamps and stores a tile, and begins the next panel; x1 is 0 where there is none
#ifndef QN_ASM_ARM64_TILE_8X8_H
#define QN_ASM_ARM64_TILE_8X8_H

#include "asm.h"
#include "../offset.h"

// Every row: its number, its A, its accumulators.
.macro rows do, arg:vararg
        \do     0, x3,  16, 17, \arg
        \do     1, x9,  18, 19, \arg
        \do     2, x10, 20, 21, \arg
        \do     3, x11, 22, 23, \arg
        \do     4, x12, 24, 25, \arg
        \do     5, x13, 26, 27, \arg
        \do     6, x14, 28, 29, \arg
        \do     7, x15, 30, 31, \arg
.endm

// The return address from here on: in the register `to`.
.macro keep_return to
        mov     \to, x30
        .cfi_register x30, \to
.endm

.macro return_from kept
        mov     x30, \kept
        .cfi_restore x30
.endm

.macro load4 m, a, lo, hi, none
        ldr     q\m, [\a], #16
.endm

.macro load1 m, a, lo, hi, none
        ldr     s\m, [\a, x17]
.endm

.macro step m, a, lo, hi, lane, w0, w1
        fmla    v\lo\().4s, v\w0\().4s, v\m\().s[\lane]
        fmla    v\hi\().4s, v\w1\().4s, v\m\().s[\lane]
.endm

// All k for cores that look ahead.  v0-v7 four k of each row of A; v8 v9, v10 v11 rows of W in turn
// 16 accumulators hide the latency of four FMAs per cycle; four k are 64 FMAs and 12 loads (of 16 or 32 bytes).
.macro sum
        subs    x16, x2, #16
        b.lo    2f
1:      rows    load4
        ldp     q8, q9, [x5]
        ldp     q10, q11, [x5, #32]
        subs    x16, x16, #16
        rows    step, 0, 8, 9
        ldp     q8, q9, [x5, #64]
        rows    step, 1, 10, 11
        ldp     q10, q11, [x5, #96]
        add     x5, x5, #128
        rows    step, 2, 8, 9
        rows    step, 3, 10, 11
        b.hs    1b
2:      adds    x16, x16, #16           // k mod 4
        b.eq    3f
        mov     x17, #0
        bl      L(singly)
3:
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

// A panel begins with the bias.
.macro start_row m, a, lo, hi, none
        .if     \m > 0                  // row 0 was loaded
        mov     v\lo\().16b, v16.16b
        mov     v\hi\().16b, v17.16b
        .endif
.endm

// The last row first, for the address of the last row is known: x17 the row at hand.
.macro rows_down do
        mov     x17, x6
        \do     7, 30, 31
        \do     6, 28, 29
        \do     5, 26, 27
        \do     4, 24, 25
        \do     3, 22, 23
        \do     2, 20, 21
        \do     1, 18, 19
        \do     0, 16, 17
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

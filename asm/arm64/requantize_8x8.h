// How a tile of 8 rows x 8 channels (tile_8x8.h) of 32-bit sums ends as bytes: finish_qs8c is the part `finish`.
// See requantize.h.
//
// Sums are in v16-v31: of row m 0-3 in v(16+2m), 4-7 in v(17+2m).  A file whose sums lie otherwise says so by `paired`:
// it is 2, see tile_8x8_i8mm.h, or else 0.
//
//   in     x0 rows  x1 channels left  x6 last row of C  x7 c_stride  x8 the panel's qn_requantize
//   v0 v1  scales; with `paired` v0-v3     v4-v7 load_zero_and_bounds
#ifndef QN_ASM_ARM64_REQUANTIZE_8X8_H
#define QN_ASM_ARM64_REQUANTIZE_8X8_H

#include "requantize.h"
#include "tile_8x8.h"

.macro to_float m, a, lo, hi, none
        scvtf   v\lo\().4s, v\lo\().4s
        scvtf   v\hi\().4s, v\hi\().4s
.endm

.macro scale m, a, lo, hi, paired
        .if     \m % 2 * \paired
        fmul    v\lo\().4s, v\lo\().4s, v2.4s
        fmul    v\hi\().4s, v\hi\().4s, v3.4s
        .else
        fmul    v\lo\().4s, v\lo\().4s, v0.4s
        fmul    v\hi\().4s, v\hi\().4s, v1.4s
        .endif
.endm

.macro round m, a, lo, hi, none
        fadd    v\lo\().4s, v\lo\().4s, v7.4s
        fadd    v\hi\().4s, v\hi\().4s, v7.4s
.endm

.macro to_integer m, a, lo, hi, none
        sqsub   v\lo\().4s, v\lo\().4s, v4.4s
        sqsub   v\hi\().4s, v\hi\().4s, v4.4s
.endm

.macro narrow m, a, lo, hi, none
        sqxtn   v\lo\().4h, v\lo\().4s
.endm

.macro narrow_high m, a, lo, hi, none
        sqxtn2  v\lo\().8h, v\hi\().4s
.endm

// Two rows: the register that they share from now on, the first row, the second one.
.macro two_rows do
        \do     16, 16, 18
        \do     20, 20, 22
        \do     24, 24, 26
        \do     28, 28, 30
.endm

.macro narrow_again both, first, second
        sqxtn   v\first\().8b, v\first\().8h
.endm

.macro narrow_again_high both, first, second
        sqxtn2  v\both\().16b, v\second\().8h
.endm

.macro clamp_bytes both, first, second
        smax    v\both\().16b, v\both\().16b, v5.16b
        smin    v\both\().16b, v\both\().16b, v6.16b
.endm

// The last row first, for the address of the last row is known: x17 the row at hand.
.macro store_two m, both
        cmp     x0, #(\m + 1)
        b.ls    1f
        st1     {v\both\().d}[1], [x17]
        sub     x17, x17, x7
1:
        .if     \m > 0
        cmp     x0, #\m
        b.ls    1f
        .endif
        str     d\both, [x17]
        .if     \m > 0
        sub     x17, x17, x7
1:
        .endif
.endm

.macro finish_qs8c paired
L(finish):
        ldp     q0, q1, [x8, #REQUANTIZE_SCALES]
        .if     \paired
        dup     v2.2d, v1.d[0]          // of channels 4 5, 6 7, 0 1, 2 3, twice
        dup     v3.2d, v1.d[1]
        dup     v1.2d, v0.d[1]
        dup     v0.2d, v0.d[0]
        .endif
        load_zero_and_bounds
        rows    to_float
        rows    scale, \paired
        rows    round
        rows    to_integer
        rows    narrow
        rows    narrow_high
        two_rows narrow_again
        two_rows narrow_again_high
        .if     \paired
        part_rows
        .endif
        two_rows clamp_bytes
        add     x8, x8, #(REQUANTIZE_SCALES + 32)
        cmp     x1, #8
        b.lo    5f
        mov     x17, x6
        store_two 6, 28
        store_two 4, 24
        store_two 2, 20
        store_two 0, 16
        add     x6, x6, #8
        subs    x1, x1, #8
        b.ne    L(start)
        ret

5:      .if     \paired == 0            // x1 channels, from memory: x9 the row at hand
        sub     sp, sp, #64             // (otherwise there is memory)
        .cfi_adjust_cfa_offset 64
        .endif
        stp     q16, q20, [sp]
        stp     q24, q28, [sp, #32]
        mov     x9, sp
        add     x9, x9, x0, lsl #3
6:      ldr     x16, [x9, #-8]!
        mov     x17, x6
        store_first_bytes x17, x1, 16, 8
        sub     x6, x6, x7
        subs    x0, x0, #1
        b.ne    6b
        .if     \paired == 0
        add     sp, sp, #64
        .cfi_adjust_cfa_offset -64
        .endif
        mov     x1, #0
        ret
.endm

#endif

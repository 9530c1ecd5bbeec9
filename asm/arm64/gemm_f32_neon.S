// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 8 rows x 8 channels.  Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   A      rows 0-7 at x3 x9 x10 x11 x12 x13 x14 x15
//   C      x6 last row of the tile, x17 the row at hand, x16 within it
//   left   x16 bytes of k     x1 channels     x8 p
//   acc    v16-v31: row m holds v(16+2m), v(17+2m)
//   load   v0-v7 four k of each row of A     v8 v9, v10 v11 rows of W in turn     then v0 min  v1 max  v2 v3 masks
//
// 16 accumulators hide the latency of two FMAs per cycle; four k are 64 FMAs and 12 loads (of 16 or 32 bytes).
// Rows past the last one are computed as its copies and not stored.
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

// A of row m is one stride after that of the row before, or the same when there is no row m.
.macro locate m, a, before
        add     \a, \before, x4
        cmp     x0, #\m
        csel    \a, \a, \before, hi
.endm

.macro start m, a, lo, hi, none
        .if     \m > 0                  // row 0 was loaded
        mov     v\lo\().16b, v16.16b
        mov     v\hi\().16b, v17.16b
        .endif
.endm

.macro load4 m, a, lo, hi, none
        ldr     q\m, [\a], #16
.endm

.macro load1 m, a, lo, hi, none
        ldr     s\m, [\a], #4
.endm

.macro step m, a, lo, hi, lane, w0, w1
        fmla    v\lo\().4s, v\w0\().4s, v\m\().s[\lane]
        fmla    v\hi\().4s, v\w1\().4s, v\m\().s[\lane]
.endm

.macro rewind m, a, lo, hi, none
        sub     \a, \a, x2
.endm

// Comparisons with NaN are false, so a NaN stays; and -0 is not below 0. (fmax would make it +0.)
.macro clamp m, a, lo, hi, none
        fcmgt   v2.4s, v0.4s, v\lo\().4s
        fcmgt   v3.4s, v0.4s, v\hi\().4s
        bit     v\lo\().16b, v0.16b, v2.16b
        bit     v\hi\().16b, v0.16b, v3.16b
        fcmgt   v2.4s, v\lo\().4s, v1.4s
        fcmgt   v3.4s, v\hi\().4s, v1.4s
        bit     v\lo\().16b, v1.16b, v2.16b
        bit     v\hi\().16b, v1.16b, v3.16b
.endm

.macro store m, lo, hi
        .if     \m > 0
        cmp     x0, #\m
        b.ls    L(row\m)
        .endif
        stp     q\lo, q\hi, [x17]
        .if     \m > 0
        sub     x17, x17, x7
L(row\m):
        .endif
.endm

// nc mod 8 channels: four, two and one of them.
.macro store_part m, lo, hi
        .if     \m > 0
        cmp     x0, #\m
        b.ls    L(part\m)
        .endif
        mov     x16, x17
        tbz     x1, #2, 1f
        str     q\lo, [x16], #16
        mov     v\lo\().16b, v\hi\().16b
1:      tbz     x1, #1, 2f
        str     d\lo, [x16], #8
        dup     v\lo\().2d, v\lo\().d[1]
2:      tbz     x1, #0, 3f
        str     s\lo, [x16]
3:
        .if     \m > 0
        sub     x17, x17, x7
L(part\m):
        .endif
.endm

// The last row first, for the address of the last row is known.
.macro rows_down do
        \do     7, 30, 31
        \do     6, 28, 29
        \do     5, 26, 27
        \do     4, 24, 25
        \do     3, 22, 23
        \do     2, 20, 21
        \do     1, 18, 19
        \do     0, 16, 17
.endm

fn qn_gemm_f32_8x8_neon
        ldr     x8, [sp]
        save    d8, d9
        save    d10, d11
        sub     x16, x0, #1             // last row of C
        madd    x6, x16, x7, x6
        locate  1, x9,  x3
        locate  2, x10, x9
        locate  3, x11, x10
        locate  4, x12, x11
        locate  5, x13, x12
        locate  6, x14, x13
        locate  7, x15, x14

0:      ldp     q16, q17, [x5], #32     // a panel: start from the bias
        rows    start

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
        b.eq    4f
3:      rows    load1
        ldp     q8, q9, [x5], #32
        subs    x16, x16, #4
        rows    step, 0, 8, 9
        b.ne    3b

4:      rows    rewind                  // A again for the next panel
        add     x16, x8, #MINMAX_MIN
        add     x17, x8, #MINMAX_MAX
        ld1r    {v0.4s}, [x16]
        ld1r    {v1.4s}, [x17]
        rows    clamp

        mov     x17, x6
        cmp     x1, #8
        b.lo    5f
        rows_down store
        add     x6, x6, #32
        subs    x1, x1, #8
        b.ne    0b
        b       6f
5:      rows_down store_part
6:      restore d10, d11
        restore d8, d9
        ret
endfn qn_gemm_f32_8x8_neon

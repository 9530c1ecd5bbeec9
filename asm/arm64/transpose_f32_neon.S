// C[j][i] = A[i][j], 8 rows x 4 columns at a time.  Contract: src/kernel/transpose.h
//
//   args   x0 rows left  x1 columns  x2 addresses of rows of A  x3 c  x4 c_stride
//   A      x8-x15: 8 rows, of which those behind the last one are its copies
//   C      x5 its row
//   left   x6 columns
//   load   v0-v7, later column j of rows 0-3 in v(j), of rows 4-7 in v(4+j)
//
// 32 elements are 16 shuffles, 8 loads and 4 stores, which write half a cache line each.
#include "asm.h"

.macro rows do
        \do     0, x8
        \do     1, x9
        \do     2, x10
        \do     3, x11
        \do     4, x12
        \do     5, x13
        \do     6, x14
        \do     7, x15
.endm

// x7 is the last row.
.macro locate i, a
        mov     x16, #\i
        .if     \i > 0
        cmp     x16, x7
        csel    x16, x16, x7, ls
        .endif
        ldr     \a, [x2, x16, lsl #3]
.endm

.macro load4 i, a
        ldr     q\i, [\a], #16
.endm

// One element of each row: lanes of v0 and v4.
.macro load1 i, a
        .if     \i < 4
        ld1     {v0.s}[\i], [\a], #4
        .else
        ld1     {v4.s}[\i - 4], [\a], #4
        .endif
.endm

.macro transpose4 a, b, c, d
        trn1    v16.4s, v\a\().4s, v\b\().4s
        trn2    v17.4s, v\a\().4s, v\b\().4s
        trn1    v18.4s, v\c\().4s, v\d\().4s
        trn2    v19.4s, v\c\().4s, v\d\().4s
        trn1    v\a\().2d, v16.2d, v18.2d
        trn1    v\b\().2d, v17.2d, v19.2d
        trn2    v\c\().2d, v16.2d, v18.2d
        trn2    v\d\().2d, v17.2d, v19.2d
.endm

.macro store lo, hi
        stp     q\lo, q\hi, [x5]
        add     x5, x5, x4
.endm

// Less than 8 rows: four, two and one of them.
.macro store_part lo, hi
        mov     x16, x5
        store_first x16, x0, \lo, \hi
        add     x5, x5, x4
.endm

.macro columns do
        \do     0, 4
        \do     1, 5
        \do     2, 6
        \do     3, 7
.endm

fn qn_transpose_f32_8x4_neon
0:      sub     x7, x0, #1              // up to 8 rows
        rows    locate
        mov     x5, x3
        subs    x6, x1, #4
        b.lo    3f
1:      rows    load4
        transpose4 0, 1, 2, 3
        transpose4 4, 5, 6, 7
        cmp     x0, #8
        b.lo    2f
        columns store
        subs    x6, x6, #4
        b.hs    1b
        b       3f
2:      columns store_part
        subs    x6, x6, #4
        b.hs    1b

3:      adds    x6, x6, #4              // what is left of the columns
        b.eq    6f
4:      rows    load1
        cmp     x0, #8
        b.lo    5f
        store   0, 4
        subs    x6, x6, #1
        b.ne    4b
        b       6f
5:      store_part 0, 4
        subs    x6, x6, #1
        b.ne    4b

6:      add     x2, x2, #64
        add     x3, x3, #32
        subs    x0, x0, #8
        b.hi    0b
        ret
endfn qn_transpose_f32_8x4_neon

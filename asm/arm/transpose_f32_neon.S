// C[j][i] = A[i][j], 8 rows x 4 columns at a time.  Contract: src/kernel/transpose.h
//
//   args   r0 rows left  r1 columns  r2 addresses of rows of A  r3 c  stack: c_stride
//   A      r4-r11: 8 rows, of which those behind the last one are its copies
//   C      r12 its row  r1 distance from where its stores end to the next one
//   left   lr columns
//   load   q0 q2 q8 q10 rows 0-3  q1 q3 q9 q11 rows 4-7     later column j: q0 q1  q2 q3  q8 q9  q10 q11
//
// 32 elements are 8 shuffles of two vectors each, 8 loads and 4 stores, which write half a cache line each.
#include "asm.h"

#define COLUMNS 0                       // r1, which is pushed
#define C_STRIDE 40

.macro rows_of_a do
        \do     0, r4, q0, d0[0]
        \do     1, r5, q2, d0[1]
        \do     2, r6, q8, d1[0]
        \do     3, r7, q10, d1[1]
        \do     4, r8, q1, d2[0]
        \do     5, r9, q3, d2[1]
        \do     6, r10, q9, d3[0]
        \do     7, r11, q11, d3[1]
.endm

// r12 is the last row.
.macro find i, a, vector, lane
        mov     lr, #\i
        .if     \i > 0
        cmp     lr, r12
        movhi   lr, r12
        .endif
        ldr     \a, [r2, lr, lsl #2]
.endm

.macro fetch4 i, a, vector, lane
        vld1.32 {\vector}, [\a]!
.endm

.macro fetch1 i, a, vector, lane
        vld1.32 {\lane}, [\a]!
.endm

.macro transpose8x4
        vtrn.32 q0, q2
        vtrn.32 q1, q3
        vtrn.32 q8, q10
        vtrn.32 q9, q11
        vswp    d1, d16
        vswp    d3, d18
        vswp    d5, d20
        vswp    d7, d22
.endm

.macro columns do
        \do     0, 1
        \do     2, 3
        \do     8, 9
        \do     10, 11
.endm

.macro store lo, hi
        vst1.32 {q\lo, q\hi}, [r12], r1
.endm

// Less than 8 rows: four, two and one of them.
.macro store_part lo, hi
        tst     r0, #4
        beq     .Lpart\@_two
        store4  0, r12, \lo, \hi
.Lpart\@_two:
        tst     r0, #2
        beq     .Lpart\@_one
        store2  0, r12, \lo, \hi
.Lpart\@_one:
        tst     r0, #1
        beq     .Lpart\@_done
        store1  0, r12, \lo, \hi
.Lpart\@_done:
        add     r12, r12, r1
.endm

fn qn_transpose_f32_8x4_neon
        save    r1, r4, r5, r6, r7, r8, r9, r10, r11, lr
0:      sub     r12, r0, #1             // up to 8 rows
        rows_of_a find
        ldr     r1, [sp, #C_STRIDE]
        cmp     r0, #8
        andlo   r12, r0, #6
        sublo   r1, r1, r12, lsl #2
        mov     r12, r3
        ldr     lr, [sp, #COLUMNS]
        subs    lr, lr, #4
        blo     3f
1:      rows_of_a fetch4
        transpose8x4
        cmp     r0, #8
        blo     2f
        columns store
        subs    lr, lr, #4
        bhs     1b
        b       3f
2:      columns store_part
        subs    lr, lr, #4
        bhs     1b

3:      adds    lr, lr, #4              // what is left of the columns
        beq     6f
4:      rows_of_a fetch1
        cmp     r0, #8
        blo     5f
        store   0, 1
        subs    lr, lr, #1
        bne     4b
        b       6f
5:      store_part 0, 1
        subs    lr, lr, #1
        bne     4b

6:      add     r2, r2, #32
        add     r3, r3, #32
        subs    r0, r0, #8
        bhi     0b
        pop     {r1, r4-r11, pc}
endfn qn_transpose_f32_8x4_neon

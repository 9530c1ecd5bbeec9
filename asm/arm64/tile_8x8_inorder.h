// The sum of a tile of 8x8 (tile_8x8.h) for cores that issue in order: loads stand between the multiply-adds where they
// cost least, half an iteration before their first use.
//
//   in     x2 k(bytes), all as tile_8x8.h says; saved: save_inorder
//   place  x16 in the rows of A: k 0 1, then 2 3 at x17     x5 in W: of the loop's next four k x25
//   left   x26 bytes of k
//   k 0 1  v0-v3 A: rows 2i and 2i+1 in the halves of v(i)      v4 v5 W of k 0    v6 v7 of k 1
//   k 2 3  v8-v15 the same
//   high   x23 x24 in turn: on its way to the high half of a register; x24 that of v7 between two iterations
//
// Four k are 64 multiply-adds and 256 bytes of operands.  Each register of these is loaded by ldr d (its low half) and
// ldr x, ins (its high half), for a load of 128 bits takes two cycles in which nothing else is done.
//
// Cortex-A53: a cycle has room for a multiply-add and an integer instruction behind it, ldr x being one, or for a ldr d
// and an ins, or for two ins.  So 32 halves take 16 cycles of their own: 80 cycles, 80% of the peak.  ldr d is said to
// wait in the fourth cycle after a multiply-add, so three multiply-adds lie between any two of these cycles, and the
// first only inserts.
// Cortex-A55: any of them goes beside a multiply-add: 64 cycles for 64 multiply-adds and 58 other instructions.
#ifndef QN_ASM_ARM64_TILE_8X8_INORDER_H
#define QN_ASM_ARM64_TILE_8X8_INORDER_H

#include "inorder.h"
#include "tile_8x8.h"

// Bytes of W that are fetched ahead.
#define AHEAD 512

// The next of 64 multiply-adds: k by k, row by row, four channels and the other four.
.macro mul_next
        .set    L(set), L(n) / 32 * 8   // the first register of these two k
        .set    L(odd), L(n) / 16 % 2   // the second of them?
        .altmacro
        mac     %(16 + L(n) % 16), %(L(set) + 4 + 2 * L(odd) + L(n) % 2), \
                %(L(set) + L(n) % 16 / 4), %(L(n) / 2 % 2 * 2 + L(odd))
        .noaltmacro
        .set    L(n), L(n) + 1
.endm

// All operands but the first, in the order of their loading, and what is to be done between: the register, where its
// low and its high half come from and by way of what; the register whose high half has come.
.macro operands do
        \do     9,  x10, x17,   x11, x17,   x24, 8,  x23, subs x26, x26, #16
        \do     10, x12, x17,   x13, x17,   x23, 9,  x24, add x25, x16, #16
        \do     11, x14, x17,   x15, x17,   x24, 10, x23, csel x16, x25, x16, ne   // the last time these again
        \do     12, x5,  #64,   x5,  #72,   x23, 11, x24, add x25, x5, #128
        \do     13, x5,  #80,   x5,  #88,   x24, 12, x23, csel x25, x25, x5, ne
        \do     14, x5,  #96,   x5,  #104,  x23, 13, x24, prfm pldl1keep, [x5, #AHEAD]
        \do     15, x5,  #112,  x5,  #120,  x24, 14, x23, prfm pldl1keep, [x5, #AHEAD + 64]
        \do     4,  x25, #0,    x25, #8,    x23, 15, x24
        \do     5,  x25, #16,   x25, #24,   x24, 4,  x23
        \do     0,  x3,  x16,   x9,  x16,   x23, 5,  x24
        \do     1,  x10, x16,   x11, x16,   x24, 0,  x23
        \do     2,  x12, x16,   x13, x16,   x23, 1,  x24
        \do     3,  x14, x16,   x15, x16,   x24, 2,  x23
        \do     6,  x25, #32,   x25, #40,   x23, 3,  x24
        \do     7,  x25, #48,   x25, #56,   x24, 6,  x23, mov x5, x25
.endm

.macro operand_a53 v, low, at_low, high, at_high, way, before, way_before, other:vararg
        mul_next
        ldr     \way, [\high, \at_high]
        mul_next
        \other
        mul_next
        ldr     d\v, [\low, \at_low]
        ins     v\before\().d[1], \way_before
.endm

.macro four_k_a53
        mul_next
        ldr     x25, [x3, x17]          // the low half of the first, this time
        mul_next
        ldr     x23, [x9, x17]
        mul_next
        mul_next
        ins     v8.d[0], x25
        ins     v7.d[1], x24
        operands operand_a53
.endm

.macro operand_a55 v, low, at_low, high, at_high, way, before, way_before, other:vararg
        mul_next
        ldr     d\v, [\low, \at_low]
        mul_next
        ldr     \way, [\high, \at_high]
        mul_next
        ins     v\before\().d[1], \way_before
        .ifnb   \other
        mul_next
        \other
        .endif
.endm

.macro four_k_a55
        operand_a55 8, x3, x17, x9, x17, x23, 7, x24
        operands operand_a55
.endm

// Two rows of A, k 0 and 1.
.macro first_a v, a, b
        ldr     d\v, [\a]
        ld1     {v\v\().d}[1], [\b]
.endm

// All k.  The rows of A stay where they are.
.macro sum_inorder core
        mov     x16, #0
        ands    x26, x2, #-16
        b.eq    2f
        mov     x17, #8
        first_a 0, x3,  x9
        first_a 1, x10, x11
        first_a 2, x12, x13
        first_a 3, x14, x15
        ldp     q4, q5, [x5]
        ldp     q6, q7, [x5, #32]
        ldr     x24, [x5, #56]
1:      .set    L(n), 0
        four_k_\core
        mul_next
        add     x17, x16, #8
        .rept   64 - L(n)
        mul_next
        .endr
        b.ne    1b
        add     x16, x16, #16
        add     x5, x5, #128
2:      mov     x17, x16
        ands    x16, x2, #15            // k mod 4
        b.eq    4f
        bl      L(singly)
4:
.endm

#endif

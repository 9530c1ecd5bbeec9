// Tiles of 4 rows x 8 channels of bytes (type qs8c), for gemm and igemm.  Panels hold two k of a channel together (k2).
//
//   r0-r12  as in asm.h; rows of A in r3-r6
//   acc     q8-q15: row m holds q(8+2m), q(9+2m), as 32-bit sums
//   load    q6 q7 four k of W    q0 q1 the same k of two rows of A: two k in a register, four times
//   prod    q2-q5: 16-bit products of two rows with eight channels
//   then    see requantize.h, and q4 q5 scales
//
// A byte of W times one of A fits 16 bits, and so does the sum of two such products if no weight is -128: at most
// 2 * 128 * 127.  So vmull multiplies the first two k, vmlal adds the products of the other two, and vpadal adds
// neighbours to the sums.  Four k of the tile, 128 products, are 24 such instructions, 5 loads, and 2 for the loop.
// For any weights each product goes to the sums at once: two k are 16 instructions, 5 loads, and 2.
//
// A core that executes in order would wait for products before it adds them, and for the loads of the next step.  So
// the products of the last two rows stay where they are until that step has begun to load, or the panel ends.
#ifndef QN_ASM_ARM_TILE_QS8C_H
#define QN_ASM_ARM_TILE_QS8C_H

#include "requantize.h"

// The first products that wait are zeros.
.macro begin_panel_qs8c
        vld1.32 {q8, q9}, [r7:128]!
        .irp    product, 2, 3, 4, 5
        vmov.i32 q\product, #0
        .endr
        rows    start
.endm

// One to four successive k of a row of A: the first two in all places of a register, the others in all those of the
// next one.  Where their number is odd, a weight of zero stands beside the last one.
.macro load_k k, first, second, row
        .if     \k == 4
        vld2.16 {d\first[], d\second[]}, [\row]!
        .elseif \k == 3
        vld1.16 {d\first[]}, [\row]!
        vld1.8  {d\second[]}, [\row]
        .elseif \k == 2
        vld1.16 {d\first[]}, [\row]!
        .else
        vld1.8  {d\first[]}, [\row]
        .endif
.endm

// The products of a row with two k of all channels, and with the others.
.macro multiply_first lo, hi, in
        vmull.s8 q\lo, d12, d\in
        vmull.s8 q\hi, d13, d\in
.endm
.macro multiply_more k, lo, hi, in
        .if     \k > 2
        vmlal.s8 q\lo, d14, d\in
        vmlal.s8 q\hi, d15, d\in
        .endif
.endm
.macro add_products s0, s1, s2, s3, third=4, fourth=5
        vpadal.s16 q\s0, q2
        vpadal.s16 q\s1, q3
        vpadal.s16 q\s2, q\third
        vpadal.s16 q\s3, q\fourth
.endm

// acc += A * W for one to four k.
.macro step k
        .if     \k > 2
        vld1.8  {q6, q7}, [r7:128]!
        .else
        vld1.8  {q6}, [r7:128]!
        .endif
        load_k  \k, 0, 1, r3
        load_k  \k, 2, 3, r4
        add_products 12, 13, 14, 15     // of the step before
        multiply_first 2, 3, 0
        multiply_first 4, 5, 2
        multiply_more \k, 2, 3, 1
        load_k  \k, 0, 1, r5
        multiply_more \k, 4, 5, 3
        load_k  \k, 2, 3, r6
        add_products 8, 9, 10, 11
        multiply_first 2, 3, 0
        multiply_first 4, 5, 2
        multiply_more \k, 2, 3, 1
        multiply_more \k, 4, 5, 3
.endm

// acc += A * W over r2 bytes of each row, with weights above -128 or with any.
.macro multiply_w127
        subs    r12, r2, #4
        blo     2f
1:      step    4
        subs    r12, r12, #4
        bhs     1b
2:      ands    r12, r2, #3
        beq     5f
        cmp     r12, #2
        bhi     4f
        beq     3f
        step    1
        b       5f
3:      step    2
        b       5f
4:      step    3
5:
.endm
.macro multiply_any
        subs    r12, r2, #2
        blo     2f
1:      step    2
        subs    r12, r12, #2
        bhs     1b
2:      tst     r2, #1
        beq     4f
        step    1
4:
.endm

.macro scale m, address, lo, hi, none
        vmul.f32 q\lo, q\lo, q4
        vmul.f32 q\hi, q\hi, q5
.endm

// Stores some bytes of each row, and goes on to those behind them.
.macro store_part bits
        vst1.\bits {low8[0]}, [r3]!
        vst1.\bits {high8[0]}, [r4]!
        vst1.\bits {low12[0]}, [r5]!
        vst1.\bits {high12[0]}, [r6]!
        .if     \bits > 8
        vshr.u64 q8, q8, #\bits
        vshr.u64 q12, q12, #\bits
        .endif
.endm

// Ends the sums with *p, which is an argument on the stack, stores them, and goes on with the next panel at 0 or
// returns.
.macro end_panel_qs8c p
        add_products 12, 13, 14, 15
        ldr     r12, [sp, #\p]
        load_requantize r12
        vld1.32 {q4, q5}, [r12]!
        str     r12, [sp, #\p]         // the next panel's
        rows    convert
        rows    scale
        requantize
        mov     r3, r10
        locate  r11
        cmp     r1, #8
        blo     5f
        vst1.8  {low8}, [r3]
        vst1.8  {high8}, [r4]
        vst1.8  {low12}, [r5]
        vst1.8  {high12}, [r6]
        add     r10, r10, #8
        subs    r1, r1, #8
        bne     0b
        leave
5:      tst     r1, #4                  // nc mod 8 channels: four, two and one of them
        beq     6f
        store_part 32
6:      tst     r1, #2
        beq     7f
        store_part 16
7:      tst     r1, #1
        beq     8f
        store_part 8
8:      leave
.endm

#endif

// How sums of products of bytes become bytes (type qs8c).
//
//   sums    q8-q15: what asm.h calls a row holds eight, and they end as bytes: row 0 in d16, then d17, d24, d25
//   regs    q0 what makes integers  q1 what rounds  q2 min  q3 max
#ifndef QN_ASM_ARM_REQUANTIZE_H
#define QN_ASM_ARM_REQUANTIZE_H

#include "asm.h"

// A sum becomes a float, which the kernel multiplies by its scale.  The product is rounded, the zero point is added,
// and the result is clamped.
//
// NEON's conversion to integers does not round to nearest.  But addition does, and the sum of a number and 1.5 * 2^23
// has no fraction: its bits are those of 1.5 * 2^23 plus the rounded number, if that is below 2^22.  The bits of larger
// floats are larger integers, those of negative ones lie below all others, and the subtraction saturates.  So whatever
// is beyond 2^22 ends as 127 or -128, as it should.
//
// NEON counts denormals as zeros.  A scale, or a product, as small as that would be rounded to zero anyway.

// *p of a panel; the address goes on to the scales.
.macro load_requantize p
        vmov.i32 q1, #0x4b000000        // 1.5 * 2^23
        vorr.i32 q1, #0x400000
        vld1.32 {d0[], d1[]}, [\p]!
        vsub.i32 q0, q1, q0             // less the zero point
        vld1.8  {d4[], d5[]}, [\p]
        add     \p, \p, #(REQUANTIZE_MAX - REQUANTIZE_MIN)
        vld1.8  {d6[], d7[]}, [\p]
        add     \p, \p, #(REQUANTIZE_SCALES - REQUANTIZE_MAX)
.endm

.macro convert m, address, lo, hi, none
        vcvt.f32.s32 q\lo, q\lo
        vcvt.f32.s32 q\hi, q\hi
.endm
.macro round m, address, lo, hi, none
        vadd.f32 q\lo, q\lo, q1
        vadd.f32 q\hi, q\hi, q1
.endm
.macro add_zero m, address, lo, hi, none
        vqsub.s32 q\lo, q\lo, q0
        vqsub.s32 q\hi, q\hi, q0
.endm
.macro narrow m, address, lo, hi, none
        vqmovn.s32 low\lo, q\lo
        vqmovn.s32 high\lo, q\hi
.endm
// Of two rows, which then share a vector.
.macro narrow_more m, lo, hi, n, lo2, hi2, none
        vqmovn.s16 low\lo, q\lo
        vqmovn.s16 high\lo, q\lo2
.endm
.macro clamp_qs8c m, lo, hi, n, lo2, hi2, none
        vmax.s8 q\lo, q\lo, q2
        vmin.s8 q\lo, q\lo, q3
.endm

// Floats, which are times their scales, to bytes.
.macro requantize
        rows    round
        rows    add_zero
        rows    narrow
        pairs   narrow_more
        pairs   clamp_qs8c
.endm

#endif

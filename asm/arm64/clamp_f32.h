// Clamps floats.
#ifndef QN_ASM_ARM64_CLAMP_F32_H
#define QN_ASM_ARM64_CLAMP_F32_H

#include "asm.h"
#include "../offset.h"

// Four vectors.  v0 min  v1 max  v2-v5 masks
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

// One vector.
.macro clamp_one v, mask, min=0, max=1
        fcmgt   v\mask\().4s, v\min\().4s, v\v\().4s
        bit     v\v\().16b, v\min\().16b, v\mask\().16b
        fcmgt   v\mask\().4s, v\v\().4s, v\max\().4s
        bit     v\v\().16b, v\max\().16b, v\mask\().16b
.endm

// Clamps one row of 8 results, whose bounds are in v0 and v1, and stores it to x6: all of it, and then goes on at `next`
// if x1 channels are left, or the first x1.  A last panel that is whole leaves none.
.macro end_one_row lo, hi, mask_lo, mask_hi, next
        clamp_one \lo, \mask_lo
        clamp_one \hi, \mask_hi
        cmp     x1, #8
        b.lo    8f
        stp     q\lo, q\hi, [x6], #32
        subs    x1, x1, #8
        b.ne    \next
8:      store_first x6, x1, \lo, \hi
        ret
.endm

// Of the epilogue at x8, which begins with them.
.macro load_bounds min=0, max=1
        add     x17, x8, #MINMAX_MAX
        ld1r    {v\min\().4s}, [x8]
        ld1r    {v\max\().4s}, [x17]
.endm

#endif

// What ends of sums as bytes have in common, whatever the tile.  Contract: src/kernel/requantize.h
//
// A product with a scale is rounded to an integer by adding 1.5 * 2^23, as floats of this size have no fraction: the
// integer is what the sum's bits are more than those of 1.5 * 2^23.  (fcvtns would wait for the unit that scvtf needs.)
// Of a product beyond +-2^22 the bits tell no integer, but they are so much more or less that the difference saturates
// in 8 bits, and sqsub keeps it from wrapping around.  The zero point joins the bits that are subtracted.  Only a
// channel that does not exist can have a NaN.
#ifndef QN_ASM_ARM64_REQUANTIZE_H
#define QN_ASM_ARM64_REQUANTIZE_H

#include "asm.h"
#include "../offset.h"

// Stores the first n (in a register, fewer than `of`, which is 4 or 8) of the bytes in x\bytes at [at], which moves on.
.macro store_first_bytes at, n, bytes, of
        .if     \of == 8
        tbz     \n, #2, L(first\@_two)
        str     w\bytes, [\at], #4
        lsr     x\bytes, x\bytes, #32
        .endif
L(first\@_two):
        tbz     \n, #1, L(first\@_one)
        strh    w\bytes, [\at], #2
        lsr     x\bytes, x\bytes, #16
L(first\@_one):
        tbz     \n, #0, L(first\@_done)
        strb    w\bytes, [\at]
L(first\@_done):
.endm

// v\zero what to subtract  v\min  v\max, as bytes  v\large 1.5 * 2^23, for the qn_requantize at \p.
// x16 and x17 are scratch.
.macro load_zero_and_bounds zero=4, min=5, max=6, large=7, p=x8
        add     x16, \p, #REQUANTIZE_MIN
        add     x17, \p, #REQUANTIZE_MAX
        ld1r    {v\zero\().4s}, [\p]
        movi    v\large\().4s, #0x4b, lsl #24
        ld1r    {v\min\().16b}, [x16]
        orr     v\large\().4s, #0x40, lsl #16
        ld1r    {v\max\().16b}, [x17]
        sub     v\zero\().4s, v\large\().4s, v\zero\().4s
.endm

#endif

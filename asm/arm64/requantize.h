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

// v4 what to subtract  v5 min  v6 max, as bytes  v7 1.5 * 2^23
.macro load_zero_and_bounds
        add     x16, x8, #REQUANTIZE_MIN
        add     x17, x8, #REQUANTIZE_MAX
        ld1r    {v4.4s}, [x8]
        movi    v7.4s, #0x4b, lsl #24
        ld1r    {v5.16b}, [x16]
        orr     v7.4s, #0x40, lsl #16
        ld1r    {v6.16b}, [x17]
        sub     v4.4s, v7.4s, v4.4s
.endm

#endif

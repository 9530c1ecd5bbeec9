// What ends of sums as bytes have in common, whatever the tile.  Contract: src/kernel/requantize.h
//
// Each conversion rounds to nearest even and saturates, fcvtns and both that narrow; a NaN, which only a channel that
// does not exist can have, becomes 0.  The zero point is added to numbers of 16 bits, so no result that saturated
// before comes back within the bounds.
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

.macro load_zero_and_bounds
        add     x16, x8, #REQUANTIZE_MIN
        add     x17, x8, #REQUANTIZE_MAX
        ld1r    {v4.8h}, [x8]
        ld1r    {v5.16b}, [x16]
        ld1r    {v6.16b}, [x17]
.endm

#endif

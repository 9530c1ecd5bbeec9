// The part of the tile of 8 rows x 8 channels (tile_8x8.h) that depends on the numbers: bytes, with dot products.
// Panels have four k together, so a word of weights is four k of one channel.
#ifndef QN_ASM_ARM64_TILE_8X8_QS8C_H
#define QN_ASM_ARM64_TILE_8X8_QS8C_H

#include "dot.h"
#include "requantize_8x8.h"

.macro load_half m, a, lo, hi, none
        ldr     h\m, [\a, x17]
.endm

.macro load_byte m, a, lo, hi, none
        ldr     b\m, [\a, x17]
.endm

.macro load_third m, a, lo, hi, none
        add     x16, \a, x17
        ld1     {v\m\().b}[2], [x16]
.endm

// What the functions of a file call, behind one of them.
.macro parts
L(start):
        ldp     q16, q17, [x5], #32
        rows    start_row
        ret

L(singly):                              // v0-v7 A  v8 v9 W
        subs    x16, x16, #4
        b.lo    2f
        rows    load_word
1:      ldp     q8, q9, [x5], #32
        add     x17, x17, #4
        rows    step, 0, 8, 9
        b.hi    L(singly)               // there were more than four
        ret
2:      tbz     x16, #1, 3f             // 1 .. 3 bytes, less 4: none beyond them is read; their weights are 0
        rows    load_half
        tbz     x16, #0, 1b
        add     x17, x17, #2
        rows    load_third
        b       1b
3:      rows    load_byte
        b       1b

        finish_qs8c 0
.endm

#endif

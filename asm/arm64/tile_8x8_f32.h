// The part of the tile of 8 rows x 8 channels (tile_8x8.h) that depends on the numbers: floats.
#ifndef QN_ASM_ARM64_TILE_8X8_F32_H
#define QN_ASM_ARM64_TILE_8X8_F32_H

#include "floats_8x8.h"

.macro mac acc, w, a, lane
        fmla    v\acc\().4s, v\w\().4s, v\a\().s[\lane]
.endm

// What the functions of a file call, behind one of them.
.macro parts
L(start):
        ldp     q16, q17, [x5], #32
        rows    start_row
        ret

        singly_words

L(finish):                              // v0 min  v1 max  v2-v5 masks
        add     x16, x8, #MINMAX_MIN
        add     x17, x8, #MINMAX_MAX
        ld1r    {v0.4s}, [x16]
        ld1r    {v1.4s}, [x17]
        store_floats
.endm

#endif

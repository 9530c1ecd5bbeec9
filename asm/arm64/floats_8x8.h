// How a tile of 8 rows x 8 channels (tile_8x8.h) of floats is clamped and stored, whatever its sums were made of.
//
//   in     x0 rows  x1 channels left  x6 last row of C  x7 c_stride     v0 min  v1 max
#ifndef QN_ASM_ARM64_FLOATS_8X8_H
#define QN_ASM_ARM64_FLOATS_8X8_H

#include "clamp_f32.h"
#include "tile_8x8.h"

.macro store_row m, lo, hi
        .if     \m > 0
        cmp     x0, #\m
        b.ls    1f
        .endif
        stp     q\lo, q\hi, [x17]
        .if     \m > 0
        sub     x17, x17, x7
1:
        .endif
.endm

.macro put_aside m, a, lo, hi, none
        stp     q\lo, q\hi, [sp, #(32 * \m)]
.endm

// The end of the part `finish`: clamps and stores the tile, and begins the next panel.
.macro store_floats
        clamp_rows 16, 17, 18, 19
        clamp_rows 20, 21, 22, 23
        clamp_rows 24, 25, 26, 27
        clamp_rows 28, 29, 30, 31
        cmp     x1, #8
        b.lo    5f
        rows_down store_row
        add     x6, x6, #32
        subs    x1, x1, #8
        b.ne    L(start)
        ret

5:      sub     sp, sp, #256            // x1 channels, from memory: x9 the row at hand
        .cfi_adjust_cfa_offset 256
        rows    put_aside
        mov     x9, sp
        add     x9, x9, x0, lsl #5
6:      ldp     q2, q3, [x9, #-32]!
        mov     x16, x6
        store_first x16, x1, 2, 3
        sub     x6, x6, x7
        subs    x0, x0, #1
        b.ne    6b
        add     sp, sp, #256
        .cfi_adjust_cfa_offset -256
        mov     x1, #0
        ret
.endm

#endif

// gemm of one row x 8 channels, four panels side by side: with fewer, multiply-accumulates would wait for each other.
//
//   args   x1 channels left  x2 k(bytes)  x3 a  x6 c  x8 p
//   W      x5 x9 x10 x11, of a panel that is not there that of the one before     A  x12     x13 bytes of k left
//   acc    v16-v23, two of each panel     load  v0 four words of A  v24-v31 one row of each panel
//
// Four words (tile_8x8.h) are 32 multiply-accumulates and 17 loads (16 of 32 bytes).
//
// Include the tile before this; x13 is for panel_address the bytes of a panel.
#ifndef QN_ASM_ARM64_ROW_1X8_H
#define QN_ASM_ARM64_ROW_1X8_H

#include "tile_8x8.h"

.macro panels do, arg:vararg
        \do     x5,  16, 17, 24, 25, \arg
        \do     x9,  18, 19, 26, 27, \arg
        \do     x10, 20, 21, 28, 29, \arg
        \do     x11, 22, 23, 30, 31, \arg
.endm

.macro panel_bias w, lo, hi, w0, w1, none
        ldp     q\lo, q\hi, [\w], #32
.endm

.macro panel_load w, lo, hi, w0, w1, row
        ldp     q\w0, q\w1, [\w, #(32 * \row)]
.endm

// Loads for the next row come right behind the last use.
.macro panel_step w, lo, hi, w0, w1, lane, next
        mac     \lo, \w0, 0, \lane
        mac     \hi, \w1, 0, \lane
        .if     \next < 4
        panel_load \w, \lo, \hi, \w0, \w1, \next
        .endif
.endm

.macro panel_next w, lo, hi, w0, w1, rows
        add     \w, \w, #(32 * \rows)
.endm

.macro panel_address n, w, before
        add     \w, \before, x13
        cmp     x1, #(8 * \n)
        csel    \w, \w, \before, hi
.endm

// Begins the panels, and adds all words but the last, fewer than four: x13 their bytes, of which the flags say whether
// there are none.
.macro panel_words begin=panel_bias
        panel_address 1, x9,  x5
        panel_address 2, x10, x9
        panel_address 3, x11, x10
        panels  \begin
        mov     x12, x3
        subs    x13, x2, #16
        b.lo    2f
1:      ldr     q0, [x12], #16
        panels  panel_load, 0
        panels  panel_step, 0, 1
        panels  panel_step, 1, 2
        panels  panel_step, 2, 3
        panels  panel_step, 3, 4
        panels  panel_next, 4
        subs    x13, x13, #16
        b.hs    1b
2:      adds    x13, x13, #16
.endm

// Adds the last words, where there are any.
.macro last_panel_words
        b.eq    4f
3:      ldr     s0, [x12], #4
        panels  panel_load, 0
        panels  panel_step, 0, 4
        panels  panel_next, 1
        subs    x13, x13, #4
        b.ne    3b
4:
.endm

// The sums of the next panel come to v16 and v17.
.macro move_panels
        mov     v16.16b, v18.16b
        mov     v17.16b, v19.16b
        mov     v18.16b, v20.16b
        mov     v19.16b, v21.16b
        mov     v20.16b, v22.16b
        mov     v21.16b, v23.16b
.endm

#endif

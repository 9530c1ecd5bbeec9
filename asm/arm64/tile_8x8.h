// What kernels with a tile of 8 rows x 8 channels share: gemm and igemm of floats and of bytes, for whatever core.
//
//   args   x0 mr     x1 channels left   x2 k(bytes)   x5 w   x6 last row of C in the tile   x7 c_stride   x8 p
//   A      rows 0-7 at x3 x9 x10 x11 x12 x13 x14 x15
//   acc    v16-v31: row m holds v(16+2m), v(17+2m)
//   free   v0-v15 x16 x17
//
// Rows past the last one are computed as its copies and not stored.  A word is what a multiply-accumulate takes of a
// row of A at once: a float or four bytes.  A panel has 32 bytes of biases, or of sums of weights, then 32 bytes of
// weights for each word.
//
// Who includes this file adds what depends on the numbers:
//
//   mac       acc, w, a, lane: a multiply-accumulate of a vector of weights with a word of a row
//   parts     what is not hot and stands once in a file, for its functions to call; these keep their return address in
//             a register, so it needs no signature:
//   start       begins a panel
//   singly      x16 bytes of k, more than none, a word at a time, at x17 in the rows of A
//   finish      ends and stores a tile, and begins the next panel; x1 is 0 where there is none
#ifndef QN_ASM_ARM64_TILE_8X8_H
#define QN_ASM_ARM64_TILE_8X8_H

#include "asm.h"
#include "../offset.h"

#define TILE_ROWS 8

// Every row: its number, its A, its accumulators.
.macro rows do, arg:vararg
        \do     0, x3,  16, 17, \arg
        \do     1, x9,  18, 19, \arg
        \do     2, x10, 20, 21, \arg
        \do     3, x11, 22, 23, \arg
        \do     4, x12, 24, 25, \arg
        \do     5, x13, 26, 27, \arg
        \do     6, x14, 28, 29, \arg
        \do     7, x15, 30, 31, \arg
.endm

.macro load4 m, a, lo, hi, none
        ldr     q\m, [\a], #16
.endm

.macro step m, a, lo, hi, lane, w0, w1
        mac     \lo, \w0, \m, \lane
        mac     \hi, \w1, \m, \lane
.endm

.macro load_word m, a, lo, hi, none
        ldr     s\m, [\a, x17]
.endm

// The part `singly`, of whole words.  v0-v7 A  v8 v9 W
.macro singly_words
L(singly):
        rows    load_word
        ldp     q8, q9, [x5], #32
        add     x17, x17, #4
        subs    x16, x16, #4
        rows    step, 0, 8, 9
        b.ne    L(singly)
        ret
.endm

// All k for cores that look ahead.  v0-v7 four words of each row of A; v8 v9, v10 v11 rows of W in turn
// 16 accumulators hide the latency of four multiply-accumulates per cycle; four words are 64 of these and 12 loads (of
// 16 or 32 bytes).
.macro sum
        subs    x16, x2, #16
        b.lo    2f
1:      rows    load4
        ldp     q8, q9, [x5]
        ldp     q10, q11, [x5, #32]
        subs    x16, x16, #16
        rows    step, 0, 8, 9
        ldp     q8, q9, [x5, #64]
        rows    step, 1, 10, 11
        ldp     q10, q11, [x5, #96]
        add     x5, x5, #128
        rows    step, 2, 8, 9
        rows    step, 3, 10, 11
        b.hs    1b
2:      adds    x16, x16, #16           // the last bytes, fewer than 16
        b.eq    3f
        mov     x17, #0
        bl      L(singly)
3:
.endm

// A panel begins with the bias.
.macro start_row m, a, lo, hi, none
        .if     \m > 0                  // row 0 was loaded
        mov     v\lo\().16b, v16.16b
        mov     v\hi\().16b, v17.16b
        .endif
.endm

// The last row first, for the address of the last row is known: x17 the row at hand.
.macro rows_down do
        mov     x17, x6
        \do     7, 30, 31
        \do     6, 28, 29
        \do     5, 26, 27
        \do     4, 24, 25
        \do     3, 22, 23
        \do     2, 20, 21
        \do     1, 18, 19
        \do     0, 16, 17
.endm

#endif

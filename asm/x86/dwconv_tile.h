// What depthwise tiles of AVX-512 and AVX2 share: the walk over the columns of the input, of a tile of R rows.
//
//   column rdx its offsets     r10d bit g: there is an open pixel of age g
//   pixel  rbp C of the oldest open one  rbx those still to open     r12 c_stride
//   panel  rsi pixels  rcx offsets  rdi channels left  r9 W  r13 C  r8 a at its channels
//   acc    pixel of age g, row r is number g R + r     A  from number OPEN R
//
// A kernel says what a vector is, by macros: copy, bias, load, weight, multiply, limits, clamp, store; and by symbols
// what a tile is: K the size of the window, S its stride, ROWS of a whole tile, OPEN pixels.  It uses .altmacro.
#ifndef QN_ASM_X86_DWCONV_TILE_H
#define QN_ASM_X86_DWCONV_TILE_H

#include "asm.h"
#include "../offset.h"

.macro next_column bytes
        add     rdx, \bytes
.endm

// Column d of a step: kernel column d of the youngest pixel, d + S of the next one ...
.macro column d
        .set    i, 0
        .rept   (R - 1) * S + K
        load    %(OPEN * R + i), %i
        .set    i, i + 1
        .endr
        next_column %(4 * ((ROWS - 1) * S + K))
        mov     eax, r10d
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        products %g, %(g * S + \d)
        .endif
        .set    g, g + 1
        .endr
.endm

// Every open pixel grows older, and the next one, if there is one, opens.
.macro age
        .set    i, (OPEN - 1) * R
        .rept   i
        .set    i, i - 1
        copy    %(i + R), %i
        .endr
        .rept   R
        bias    %i
        .set    i, i + 1
        .endr
        xor     eax, eax
        test    rbx, rbx
        setnz   al
        lea     r10d, [rax + r10 * 2]
        sub     rbx, rax
.endm

.macro skip_unless bits, to
        test    r10d, \bits
        jz      \to
.endm

.macro again_if bits, to
        test    r10d, \bits
        jnz     \to
.endm

// Kernel column x, for the pixel of age g, if it is open: bit 0 of eax tells.
.macro products g, x
        shr     eax
        jnc     7f
        .set    j, 0
        .rept   K
        weight  %(K * \x + j)
        .set    r, 0
        .rept   R
        multiply %(\g * R + r), %(OPEN * R + r * S + j), %(K * \x + j)
        .set    r, r + 1
        .endr
        .set    j, j + 1
        .endr
7:
.endm

// A macro for each row of the oldest pixel: its accumulator and its number.
.macro oldest do
        .set    r, 0
        .rept   R
        \do     %((OPEN - 1) * R + r), %r
        .set    r, r + 1
        .endr
.endm

// All pixels of R rows of a panel.
.macro panel
        mov     rdx, rcx
        mov     rbp, r13
        mov     rbx, rsi
        xor     r10d, r10d

1:      age
        column  0
        .if     S == 2
        skip_unless %((1 << (K / 2)) - 1), 2f // behind the last window
        column  1
2:
        .endif
        skip_unless %(1 << (OPEN - 1)), 1b
        limits
        oldest  clamp
        oldest  store
        add     rbp, r12
        again_if %((1 << (OPEN - 1)) - 1), 1b
.endm

.macro next_panel bytes, vector
        add     r9, \bytes
        add     r13, \vector
        add     r8, \vector
        sub     rdi, \vector / 4
.endm

#endif

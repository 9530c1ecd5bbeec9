// C[x][c] = requantize(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 6 pixels x 8 channels of bytes.
// Contract: src/kernel/dwconv.h
//
// For a pixel, a step of two taps is an interleaving, 3 instructions that widen, 2 products, 2 sums, 8 instructions
// that find the rows, and 4 loads.
#include "dwconv_qs8c.h"
#include "requantize_sse41.h"

.macro load_bias at
        movdqu  xmm0, [\at]
        movdqu  xmm1, [\at + 16]
.endm

.macro start_row m, at, lo, hi, none
        movdqa  xmm\lo, xmm0
        movdqa  xmm\hi, xmm1
.endm

// 16 bytes of v as words, the upper ones in `high`.
.macro widen v, high
        movdqa  xmm\high, xmm\v
        punpckhbw xmm\high, xmm\high
        psraw   xmm\high, 8
        pmovsxbw xmm\v, xmm\v
.endm

// Of the two taps before `at`.
.macro load_weights at
        movq    xmm0, qword ptr [\at - 16]
        movq    xmm2, qword ptr [\at - 8]
        punpcklbw xmm0, xmm2
        widen   0, 1
.endm

// Of one tap, followed by zeros.
.macro load_weights_alone at
        pmovsxbd xmm0, dword ptr [\at]
        pmovsxbd xmm1, dword ptr [\at + 4]
        pxor    xmm2, xmm2
        pblendw xmm0, xmm2, 0xaa
        pblendw xmm1, xmm2, 0xaa
.endm

.macro multiply lo, hi
        pmaddwd xmm2, xmm0
        pmaddwd xmm3, xmm1
        paddd   xmm\lo, xmm2
        paddd   xmm\hi, xmm3
.endm

.macro step_row m, at, lo, hi, none
L(step_row\m):
        two_rows \at
        movq    xmm2, qword ptr [rax]
        movq    xmm3, qword ptr [rdi]
        punpcklbw xmm2, xmm3
        widen   2, 3
        multiply \lo, \hi
.endm

.macro alone_row m, at, lo, hi, none
L(alone_row\m):
        row     \at
        pmovsxbd xmm2, dword ptr [rax]
        pmovsxbd xmm3, dword ptr [rax + 4]
        multiply \lo, \hi
.endm

// The first bytes of the row, from the last one to the first one.
.macro alone_part m, at, lo, hi, none
L(alone_part\m):
        row     \at
        add     rax, CHANNELS
        test    byte ptr CHANNEL_BITS, 1
        jz      6f
        dec     rax
        pinsrb  xmm2, byte ptr [rax], 0
6:      test    byte ptr CHANNEL_BITS, 2
        jz      6f
        sub     rax, 2
        pslldq  xmm2, 2
        pinsrw  xmm2, word ptr [rax], 0
6:      test    byte ptr CHANNEL_BITS, 4
        jz      6f
        sub     rax, 4
        pslldq  xmm2, 4
        pinsrd  xmm2, dword ptr [rax], 0
6:      pshufd  xmm3, xmm2, 1
        pmovsxbd xmm2, xmm2
        pmovsxbd xmm3, xmm3
        multiply \lo, \hi
.endm

dwconv_pairs qn_dwconv_qs8c_np8_sse41, 3

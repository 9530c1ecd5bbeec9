// C[x][c] = requantize(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 6 pixels x 16 channels of bytes.
// Contract: src/kernel/dwconv.h
//
// For a pixel, a step of two taps is 2 interleavings, 2 widenings, 2 products, 2 sums (2 cycles), 8 instructions that
// find the rows, and 5 loads.
#include "dwconv_qs8c.h"
#include "requantize_avx2.h"

.macro load_bias at
        vmovdqu ymm0, [\at]
        vmovdqu ymm1, [\at + 32]
.endm

.macro start_row m, at, lo, hi, none
        vmovdqa ymm\lo, ymm0
        vmovdqa ymm\hi, ymm1
.endm

// Of the two taps before `at`.
.macro load_weights at
        vmovdqa xmm2, [\at - 32]
        vpunpcklbw xmm0, xmm2, [\at - 16]
        vpunpckhbw xmm1, xmm2, [\at - 16]
        vpmovsxbw ymm0, xmm0
        vpmovsxbw ymm1, xmm1
.endm

// Of one tap, followed by zeros.
.macro load_weights_alone at
        vpmovsxbd ymm0, qword ptr [\at]
        vpmovsxbd ymm1, qword ptr [\at + 8]
        vpxor   xmm2, xmm2, xmm2
        vpblendw ymm0, ymm0, ymm2, 0xaa
        vpblendw ymm1, ymm1, ymm2, 0xaa
.endm

.macro multiply lo, hi
        vpmaddwd ymm2, ymm2, ymm0
        vpmaddwd ymm3, ymm3, ymm1
        vpaddd  ymm\lo, ymm\lo, ymm2
        vpaddd  ymm\hi, ymm\hi, ymm3
.endm

.macro step_row m, at, lo, hi, none
L(step_row\m):
        two_rows \at
        vmovdqu xmm2, [rax]
        vpunpckhbw xmm3, xmm2, [rdi]
        vpunpcklbw xmm2, xmm2, [rdi]
        vpmovsxbw ymm2, xmm2
        vpmovsxbw ymm3, xmm3
        multiply \lo, \hi
.endm

.macro alone_row m, at, lo, hi, none
L(alone_row\m):
        row     \at
        vpmovsxbd ymm2, qword ptr [rax]
        vpmovsxbd ymm3, qword ptr [rax + 8]
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
        vpinsrb xmm2, xmm2, byte ptr [rax], 0
6:      test    byte ptr CHANNEL_BITS, 2
        jz      6f
        sub     rax, 2
        vpslldq xmm2, xmm2, 2
        vpinsrw xmm2, xmm2, word ptr [rax], 0
6:      test    byte ptr CHANNEL_BITS, 4
        jz      6f
        sub     rax, 4
        vpslldq xmm2, xmm2, 4
        vpinsrd xmm2, xmm2, dword ptr [rax], 0
6:      test    byte ptr CHANNEL_BITS, 8
        jz      6f
        sub     rax, 8
        vpslldq xmm2, xmm2, 8
        vpinsrq xmm2, xmm2, qword ptr [rax], 0
6:      vpsrldq xmm3, xmm2, 8
        vpmovsxbd ymm2, xmm2
        vpmovsxbd ymm3, xmm3
        multiply \lo, \hi
.endm

dwconv_pairs qn_dwconv_qs8c_np16_avx2, 4

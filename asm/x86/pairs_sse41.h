// Pairs of k with SSE4.1: rows of two vectors, 8 channels.
//
//   row    its number, where its A is, the numbers of its accumulators lo and hi; then what is the same for all rows
//   load   xmm0 xmm1 one row of W   xmm2 one A everywhere, a product   xmm3 a product
#ifndef QN_ASM_X86_PAIRS_SSE41_H
#define QN_ASM_X86_PAIRS_SSE41_H

#include "pairs.h"

.macro widen_8 from, to
        pmovsxbw xmm0, qword ptr [\from]
        movdqu  [\to], xmm0
.endm

.macro widen_16 from, to
        pmovsxbw xmm0, qword ptr [\from]
        pmovsxbw xmm1, qword ptr [\from + 8]
        movdqu  [\to], xmm0
        movdqu  [\to + 16], xmm1
.endm

.macro widen_4 from, to
        movd    xmm0, dword ptr [\from]
        pmovsxbw xmm0, xmm0
        movq    qword ptr [\to], xmm0
.endm

.macro load_weights at
        pmovsxbw xmm0, qword ptr [\at]
        pmovsxbw xmm1, qword ptr [\at + 8]
.endm

.macro load_bias at
        movdqa  xmm0, [\at]
        movdqa  xmm1, [\at + 16]
.endm

.macro start_row m, a, lo, hi, none
        movdqa  xmm\lo, xmm0
        movdqa  xmm\hi, xmm1
.endm

.macro multiply_row a, lo, hi
        movd    xmm2, dword ptr [\a]
        pshufd  xmm2, xmm2, 0
        movdqa  xmm3, xmm2
        pmaddwd xmm2, xmm0
        pmaddwd xmm3, xmm1
        paddd   xmm\lo, xmm2
        paddd   xmm\hi, xmm3
.endm

.macro load_sums m, a, lo, hi, at
        movdqa  xmm\lo, [\at + \m * 32]
        movdqa  xmm\hi, [\at + \m * 32 + 16]
.endm

.macro store_sums m, a, lo, hi, at
        movdqa [\at + \m * 32], xmm\lo
        movdqa [\at + \m * 32 + 16], xmm\hi
.endm

#endif

// Pairs of k with AVX2: rows of two vectors, 16 channels.
//
//   row    its number, where its A is, the numbers of its accumulators lo and hi; then what is the same for all rows
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere   ymm3 a product
#ifndef QN_ASM_X86_PAIRS_AVX2_H
#define QN_ASM_X86_PAIRS_AVX2_H

#include "pairs.h"

.macro widen_16 from, to
        vpmovsxbw ymm0, [\from]
        vmovdqu [\to], ymm0
.endm

.macro widen_8 from, to
        vpmovsxbw xmm0, qword ptr [\from]
        vmovdqu [\to], xmm0
.endm

.macro widen_4 from, to
        vmovd   xmm0, dword ptr [\from]
        vpmovsxbw xmm0, xmm0
        vmovq   qword ptr [\to], xmm0
.endm

.macro load_weights at
        vpmovsxbw ymm0, [\at]
        vpmovsxbw ymm1, [\at + 16]
.endm

.macro load_bias at
        vmovdqa ymm0, [\at]
        vmovdqa ymm1, [\at + 32]
.endm

.macro start_row m, a, lo, hi, none
        vmovdqa ymm\lo, ymm0
        vmovdqa ymm\hi, ymm1
.endm

.macro multiply_row a, lo, hi
        vpbroadcastd ymm2, dword ptr [\a]
        vpmaddwd ymm3, ymm2, ymm0
        vpmaddwd ymm2, ymm2, ymm1
        vpaddd  ymm\lo, ymm\lo, ymm3
        vpaddd  ymm\hi, ymm\hi, ymm2
.endm

.macro load_sums m, a, lo, hi, at
        vmovdqa ymm\lo, [\at + \m * 64]
        vmovdqa ymm\hi, [\at + \m * 64 + 32]
.endm

.macro store_sums m, a, lo, hi, at
        vmovdqa [\at + \m * 64], ymm\lo
        vmovdqa [\at + \m * 64 + 32], ymm\hi
.endm

#endif

// Where tiles of 12 rows x 32 channels have their rows of A, and their sums, if rows lie at equal distances.
//
//   A      row 3i+j is at base i + j strides: bases rcx rbx rbp r12, stride r8
//   acc    zmm4-zmm27: row m holds zmm(4+2m), zmm(5+2m)
#ifndef QN_ASM_X86_GEMM_12X32_H
#define QN_ASM_X86_GEMM_12X32_H

#include "gemm.h"

// Every row: its number, where its A is, its accumulators.
.macro rows do, arg:vararg
        \do     11, r12+r8*2, zmm26, zmm27, \arg
        \do     10, r12+r8,   zmm24, zmm25, \arg
        \do     9,  r12,      zmm22, zmm23, \arg
        \do     8,  rbp+r8*2, zmm20, zmm21, \arg
        \do     7,  rbp+r8,   zmm18, zmm19, \arg
        \do     6,  rbp,      zmm16, zmm17, \arg
        \do     5,  rbx+r8*2, zmm14, zmm15, \arg
        \do     4,  rbx+r8,   zmm12, zmm13, \arg
        \do     3,  rbx,      zmm10, zmm11, \arg
        \do     2,  rcx+r8*2, zmm8,  zmm9,  \arg
        \do     1,  rcx+r8,   zmm6,  zmm7,  \arg
        \do     0,  rcx,      zmm4,  zmm5,  \arg
.endm

// So many bytes of k further.
.macro move bytes
        add     rcx, \bytes
        add     rbx, \bytes
        add     rbp, \bytes
        add     r12, \bytes
.endm

#endif

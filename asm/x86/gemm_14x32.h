// Where tiles of 14 rows x 32 channels have their rows of A, and their sums, in gemm kernels of AVX-512.
//
//   A      row 3i+j is at base i + j strides: bases rcx rbx rbp r12 r13, stride r8
//   acc    zmm4-zmm31: row m holds zmm(4+2m), zmm(5+2m)
#ifndef QN_ASM_X86_GEMM_14X32_H
#define QN_ASM_X86_GEMM_14X32_H

#include "gemm.h"

// Every row: its number, where its A is, its accumulators.
.macro rows do, arg:vararg
        \do     13, r13+r8,   zmm30, zmm31, \arg
        \do     12, r13,      zmm28, zmm29, \arg
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

// The other bases, from that of row 0.
.macro bases
        lea     rbx, [rcx + r8 * 2]     // rows 3, 6, 9, 12
        add     rbx, r8
        lea     rbp, [rbx + r8 * 2]
        add     rbp, r8
        lea     r12, [rbp + r8 * 2]
        add     r12, r8
        lea     r13, [r12 + r8 * 2]
        add     r13, r8
.endm

// Four bytes of k further; rax bytes are left.
.macro next_k
        add     rcx, 4
        add     rbx, 4
        add     rbp, 4
        add     r12, 4
        add     r13, 4
        sub     rax, 4
.endm

// Back by so many bytes, for the next panel.
.macro rewind bytes
        sub     rcx, \bytes
        sub     rbx, \bytes
        sub     rbp, \bytes
        sub     r12, \bytes
        sub     r13, \bytes
.endm

#endif

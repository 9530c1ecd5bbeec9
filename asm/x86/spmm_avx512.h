// What the sparse kernels of AVX-512 share: rows of up to 64 pixels in vectors of 16.
#ifndef QN_ASM_X86_SPMM_AVX512_H
#define QN_ASM_X86_SPMM_AVX512_H

#include "spmm.h"

        .altmacro

// Where variant 0, for one pixel, or V, for up to 16 V of them, begins.
.macro entry_vectors name
        lea     eax, [rdi + 15]
        shr     eax, 4
        cmp     edi, 2
        sbb     eax, -1
        entry   rdi, rax, \name, rbx
.endm

// The pixels of one channel are the accumulators acc .. acc+V-1.

.macro copy to, from
        vmovaps zmm\to, zmm\from
.endm

.macro fetch acc, at, v
        vmovups zmm\acc, [\at + 64 * \v]
.endm

.macro store acc, at, v
        vmovups [\at + 64 * \v], zmm\acc
.endm

.macro from_bias V, acc, at
        vbroadcastss zmm\acc, dword ptr [\at]
        .set    v, 1
        .rept   \V - 1
        copy    %(\acc + v), \acc
        .set    v, v + 1
        .endr
.endm

.macro from_c V, acc, at
        .set    v, 0
        .rept   \V
        fetch   %(\acc + v), \at, %v
        .set    v, v + 1
        .endr
.endm

.macro to_c V, acc, at
        .set    v, 0
        .rept   \V
        store   %(\acc + v), \at, %v
        .set    v, v + 1
        .endr
.endm

#endif

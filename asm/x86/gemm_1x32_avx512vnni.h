// How gemm kernels of AVX-512 with dot products multiply one row of bytes by panels of 32 channels, whatever a sum
// becomes.  `bits` are those of a weight.
//
//   A      rcx the end of its whole fours, rax from minus their bytes, rdx, up to 0     r8 the bytes left behind them
//   W      r9
//   left   r10 bytes of A for whole steps, rbx of a panel
//   acc    zmm4-zmm11: the sums of every fourth four k in zmm(4+2i), zmm(5+2i)
//   load, masks   tile_avx512vnni.h     zmm12 with weights of 4 bits: the upper halves of bytes
//
// Nothing is used twice, so this is as fast as the weights arrive, and they arrive fastest where one place is read after
// the other: from the last cache a fifth faster than where four panels are read side by side.  Four pairs of sums hide
// the latency of dot products.
#ifndef QN_ASM_X86_GEMM_1X32_AVX512VNNI_H
#define QN_ASM_X86_GEMM_1X32_AVX512VNNI_H

#include "tile_avx512vnni.h"

// Needs rdx bytes of k.
.macro begin_row_steps scratch
        mov     r8, rdx
        mask_tail r8d, \scratch
        and     rdx, -4
        add     rcx, rdx
        mov     rbx, rdx
        and     rbx, -16
        load_signs \scratch
.endm

// Adds the products of four k, zmm2, with the weights at w.  Weights of 4 bits: gemm_14x32_avx512vnni.h
.macro dots_of_weights bits, lo, hi, w
        .if     \bits == 8
        vpdpbusd \lo, zmm2, [\w]
        vpdpbusd \hi, zmm2, [\w + 64]
        .else
        vmovdqa64 zmm1, [\w]
        vpslld  zmm0, zmm1, 4
        vpandd  zmm1, zmm1, zmm12
        vpandd  zmm0, zmm0, zmm12
        vpdpbusd \hi, zmm2, zmm1
        vpdpbusd \lo, zmm2, zmm0
        .endif
.endm

.macro row_dots bits, lo, hi, a, w
        vpxord  zmm2, zmm3, dword ptr [\a]{1to16}
        dots_of_weights \bits, \lo, \hi, \w
.endm

// Adds the products of all k with the panel whose weights begin at r9, and moves r9 behind it.  What the sums begin with
// is in zmm4 and zmm5, where they end.
.macro all_row_products bits
        .irp    i, 6, 7, 8, 9, 10, 11
        vpxord  zmm\i, zmm\i, zmm\i
        .endr
        mov     rax, rdx
        neg     rax
        mov     r10, rbx
        test    rbx, rbx
        jz      2f
1:      row_dots \bits, zmm4, zmm5, rcx+rax, r9
        row_dots \bits, zmm6, zmm7, rcx+rax+4, r9+16*\bits
        row_dots \bits, zmm8, zmm9, rcx+rax+8, r9+32*\bits
        row_dots \bits, zmm10, zmm11, rcx+rax+12, r9+48*\bits
        add     r9, 64 * \bits
        add     rax, 16
        sub     r10, 16
        jnz     1b

2:      test    rax, rax
        jz      3f
        row_dots \bits, zmm4, zmm5, rcx+rax, r9
        sub     r9, -16 * \bits         // as an addition, in fewer bytes
        add     rax, 4
        jmp     2b

3:      test    r8d, r8d
        jz      3f
        vmovdqu8 xmm2{k3}{z}, [rcx]
        vpbroadcastd zmm2, xmm2
        vpxord  zmm2, zmm2, zmm3
        dots_of_weights \bits, zmm4, zmm5, r9
        sub     r9, -16 * \bits

3:      vpaddd  zmm4, zmm4, zmm6
        vpaddd  zmm5, zmm5, zmm7
        vpaddd  zmm8, zmm8, zmm10
        vpaddd  zmm9, zmm9, zmm11
        vpaddd  zmm4, zmm4, zmm8
        vpaddd  zmm5, zmm5, zmm9
.endm

#endif

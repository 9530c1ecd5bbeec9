// C[n] = clamp(bias[n] + scale[n] * sum over k of A[k] * W[k][n]) with weights of bytes, one row x 32 channels.
// Contract: src/kernel/gemm.h
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      rcx the end of its whole fours, rax from minus their bytes, rdx, up to 0     r8 the bytes left behind them
//   C      rdi     p  r10     left  rsi channels
//   acc    zmm4-zmm11: the sums of every fourth k from i on in zmm(4+2i), zmm(5+2i)
//   load   zmm(16+i) a vector of weights of four k as floats   zmm(24+i) one of the next four k as integers
//
// Weights go through three steps, each behind that of the four k before: beside a multiply-add of one vector the next is
// converted, and the one after it widened.  Measured on a Zen 4: 1.65 cycles a vector; 1.94 where one vector takes all
// three steps at once.  One place is read after the other, so that weights arrive fast (gemm_1x32_avx512vnni.h).
#include "tile_avx512.h"

// All vectors of four k: which k, the vectors of weights, and their sum.
.macro fours do, arg:vararg
        \do     0, 16, 24, 4,  \arg
        \do     0, 17, 25, 5,  \arg
        \do     1, 18, 26, 6,  \arg
        \do     1, 19, 27, 7,  \arg
        \do     2, 20, 28, 8,  \arg
        \do     2, 21, 29, 9,  \arg
        \do     3, 22, 30, 10, \arg
        \do     3, 23, 31, 11, \arg
.endm

.macro widen i, floats, ints, acc, none
        vpmovsxbd zmm\ints, [r9 + 16 * (\ints - 24)]
.endm

.macro convert i, floats, ints, acc, none
        vcvtdq2ps zmm\floats, zmm\ints
.endm

.macro multiply i, floats, ints, acc, none
        vfmadd231ps zmm\acc, zmm\floats, dword ptr [rcx + rax + 4 * \i]{1to16}
.endm

.macro in_turn i, floats, ints, acc, first, second, third
        \first  \i, \floats, \ints, \acc
        \second \i, \floats, \ints, \acc
        .ifnb   \third
        \third  \i, \floats, \ints, \acc
        .endif
.endm

// The products of the only k numbered i behind the whole fours.
.macro last i, lo, hi
        vpmovsxbd zmm16, [r9]
        vpmovsxbd zmm17, [r9 + 16]
        lea     r9, [r9 + 32]           // leaves the flags as they are
        vcvtdq2ps zmm16, zmm16
        vcvtdq2ps zmm17, zmm17
        vfmadd231ps \lo, zmm16, dword ptr [rcx + 4 * \i]{1to16}
        vfmadd231ps \hi, zmm17, dword ptr [rcx + 4 * \i]{1to16}
.endm

fn qn_gemm_qw8c_1x32_avx512
        mov     rdi, [rsp + 8]
        mov     r10, [rsp + 24]
        mov     r8, rdx
        and     rdx, -16
        add     rcx, rdx
        sub     r8, rdx
        neg     rdx

0:      .irp    i, 4, 5, 6, 7, 8, 9, 10, 11
        vpxord  zmm\i, zmm\i, zmm\i
        .endr
        sub     r9, -128                // the sums of weights
        mov     rax, rdx
        test    rax, rax
        jz      4f
        fours   widen
        sub     r9, -128
        cmp     rax, -16
        je      2f
        fours   in_turn, convert, widen
        sub     r9, -128
        jmp     3f

1:      fours   in_turn, multiply, convert, widen
        sub     r9, -128
        add     rax, 16
3:      cmp     rax, -32
        jne     1b
        fours   multiply
        add     rax, 16
2:      fours   convert
        fours   multiply

4:      test    r8, r8
        jz      5f
        last    0, zmm4, zmm5
        cmp     r8, 8
        jb      5f
        last    1, zmm6, zmm7
        je      5f
        last    2, zmm8, zmm9

5:      vaddps  zmm4, zmm4, zmm6
        vaddps  zmm5, zmm5, zmm7
        vaddps  zmm8, zmm8, zmm10
        vaddps  zmm9, zmm9, zmm11
        vaddps  zmm4, zmm4, zmm8
        vaddps  zmm5, zmm5, zmm9
        vmulps  zmm4, zmm4, [r10 + DEQUANTIZE_SCALES]
        vmulps  zmm5, zmm5, [r10 + DEQUANTIZE_SCALES + 64]
        vaddps  zmm4, zmm4, [r10 + DEQUANTIZE_SCALES + 128]
        vaddps  zmm5, zmm5, [r10 + DEQUANTIZE_SCALES + 192]
        load_clamp r10
        clamp_row zmm4, zmm5
        mask_channels rsi, esi, eax
        vmovups [rdi]{k1}, zmm4
        vmovups [rdi + 64]{k2}, zmm5
        add     r10, DEQUANTIZE_SCALES + 256
        sub     rdi, -128
        sub     rsi, 32
        ja      0b

        vzeroupper
        ret
endfn qn_gemm_qw8c_1x32_avx512

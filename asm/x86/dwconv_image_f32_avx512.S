// C[y][x] = clamp(bias + sum of A[2y + j][2x + i - 1] * W[i][j]), 3x3 with stride 2, one channel of an image.
// Contract: src/kernel/dwconv.h
//
//   args   rdi rows left  rsi columns  rdx a  rcx a_stride  r8 w  r9 c  [rsp+8] c_stride  p
//   A      r10 rbx r11: three rows     vector  rax columns left  rbp C
//   taps   zmm0-zmm2 the right ones, of odd columns  zmm3-zmm5 those of even ones  zmm6-zmm8 the left ones, which are
//          the right ones of the pixels before
//   W      zmm16-zmm24 taps column by column  zmm25 bias     acc  zmm9     clamp  zmm30 min  zmm31 max
//   order  zmm26 even  zmm27 odd     load  zmm10 zmm11
//
// A vector is 9 FMAs and 9 shuffles, 6 cycles where shuffles have one execution unit of their own and share another, and
// 6 loads, which cross cache lines.
#include "asm.h"

        .altmacro

.macro weight r, i
        vbroadcastss zmm\r, dword ptr [r8 + 4 + 4 * \i]
.endm

.macro row at, right, even, left
        vmovups zmm\even, [\at]
        vmovups zmm10, [\at + 64]
        vmovaps zmm11, zmm\even
        vpermt2ps zmm\even, zmm26, zmm10
        vpermt2ps zmm11, zmm27, zmm10
        valignd zmm\left, zmm11, zmm\right, 15
        vmovaps zmm\right, zmm11
        add     \at, 128
.endm

.macro product r, a
        vfmadd231ps zmm9, zmm\r, zmm\a
.endm

        rodata
L(even):
        .long   0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
L(odd):
        .long   1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31

fn qn_dwconv_f32_image_k3s2_avx512
        save    rbx, rbp
        mov     rax, [rsp + 32]
        vbroadcastss zmm30, dword ptr [rax + MINMAX_MIN]
        vbroadcastss zmm31, dword ptr [rax + MINMAX_MAX]
        vmovaps zmm26, [rip + L(even)]
        vmovaps zmm27, [rip + L(odd)]
        vbroadcastss zmm25, dword ptr [r8]
        .set    i, 0
        .rept   9
        weight  %(16 + i), %i
        .set    i, i + 1
        .endr

0:      mov     r10, rdx
        lea     rbx, [rdx + rcx]
        lea     r11, [rdx + rcx * 2]
        mov     rdx, r11
        mov     rbp, r9
        add     r9, [rsp + 24]
        mov     rax, rsi
        vpxord  zmm0, zmm0, zmm0        // left of the image
        vpxord  zmm1, zmm1, zmm1
        vpxord  zmm2, zmm2, zmm2
1:      row     r10, 0, 3, 6
        row     rbx, 1, 4, 7
        row     r11, 2, 5, 8
        vmovaps zmm9, zmm25
        product 16, 6
        product 17, 7
        product 18, 8
        product 19, 3
        product 20, 4
        product 21, 5
        product 22, 0
        product 23, 1
        product 24, 2
        vmaxps  zmm9, zmm30, zmm9       // a NaN in the second operand is the result
        vminps  zmm9, zmm31, zmm9
        vmovups [rbp], zmm9
        add     rbp, 64
        sub     rax, 16
        ja      1b
        dec     rdi
        jnz     0b

        vzeroupper
        restore rbx, rbp
        ret
endfn qn_dwconv_f32_image_k3s2_avx512

// C[p] = clamp(bias + sum over taps t of A(p, t) * W[t]), the pixels of one channel in blocks of 64.
// Contract: src/kernel/dwconv.h
#include "asm.h"

#define ARGS rsp + 56                   // a  w  c  c_stride  p

        .altmacro

.macro begin
        save    rbx, rbp, r12, r13, r14, r15
        mov     r12, [ARGS]
        mov     r13, [ARGS + 8]
        mov     r14, [ARGS + 16]
        mov     r15, [ARGS + 24]
        mov     rax, [ARGS + 32]
        vbroadcastss zmm30, dword ptr [rax + MINMAX_MIN]
        vbroadcastss zmm31, dword ptr [rax + MINMAX_MAX]
.endm

.macro end
        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

.macro clamp_store v, at
        vmaxps  zmm\v, zmm30, zmm\v     // a NaN in the second operand is the result
        vminps  zmm\v, zmm31, zmm\v
        vmovups [\at], zmm\v
.endm

// ---- any kernel: V = 1 to 4 vectors of pixels at a time
//
//   args   rdi pixels left  rsi kernel_h  rdx kernel_w  rcx offsets  r8 masks  r9 mask_stride
//          r12 a  r13 from an offset to its weight  r14 c  r15 c_stride
//   column rax its masks  ebx columns left     k1-k4 which of its taps count
//   tap    r11 its offset  ebp rows left  r10 A
//   acc    zmm0-zmm3     load  zmm4 W  zmm5-zmm8 A     clamp  zmm30 min  zmm31 max
//
// A tap is 4 FMAs (2 cycles) and 4 loads; as most of them cross a cache line, these take 4 cycles.

.macro start v
        vmovaps zmm\v, zmm0
.endm

.macro column_mask mask, v
        kmovw   k\mask, [rax + 2 * \v]
.endm

.macro product acc, mask, in, v
        vmovups zmm\in{k\mask}{z}, [r10 + 64 * \v]
        vfmadd231ps zmm\acc, zmm4, zmm\in
.endm

.macro store v
        clamp_store \v, r14+64*\v
.endm

.macro each V, do
        .set    v, 0
        .rept   \V
        \do     %v
        .set    v, v + 1
        .endr
.endm

.macro each_mask V
        .set    v, 0
        .rept   \V
        column_mask %(v + 1), %v
        .set    v, v + 1
        .endr
.endm

.macro each_product V
        .set    v, 0
        .rept   \V
        product %v, %(v + 1), %(v + 5), %v
        .set    v, v + 1
        .endr
.endm

.macro pixels V
L(any\V):
        mov     r11, rcx
        vbroadcastss zmm0, dword ptr [r11 + r13 - 4]
        .set    v, 1
        .rept   \V - 1
        start   %v
        .set    v, v + 1
        .endr
        mov     rax, r8
        mov     ebx, edx
1:      each_mask \V
        add     rax, r9
        mov     ebp, esi
2:      movsxd  r10, dword ptr [r11]
        vbroadcastss zmm4, dword ptr [r11 + r13]
        add     r11, 4
        add     r10, r12
        each_product \V
        dec     ebp
        jnz     2b
        dec     ebx
        jnz     1b
        each    \V, store
.endm

        rodata
        places  any, 1, 2, 3

fn qn_dwconv_f32_plane64_avx512
        begin
        add     r13, 4                  // behind the bias
        sub     r13, rcx
0:      cmp     rdi, 48
        jbe     3f
        pixels  4
        add     r8, 8
        add     r12, 256
        add     r14, r15
        sub     rdi, 64
        ja      0b
        jmp     L(any_end)
3:      lea     eax, [rdi + 15]
        shr     eax, 4
        entry   rax, rax, any, rbx
        enter   rax
        pixels  3
        jmp     L(any_end)
        pixels  2
        jmp     L(any_end)
        pixels  1
L(any_end):
        end
endfn qn_dwconv_f32_plane64_avx512

// ---- 3x3, columns one pixel apart: one vector of pixels at a time
//
//   args   rdi pixels left  r8 masks of column 0  r9 of column 2     r14 c  r15 c_stride
//   A      r10 rbx r11: three rows
//          zmm0-zmm2 the pixels left of a vector, zmm3-zmm5 its own, zmm6-zmm8 those right of it
//   W      zmm16-zmm24 taps column by column  zmm25 bias     acc  zmm9     clamp  zmm30 min  zmm31 max
//   taps   zmm10-zmm15 columns 0 and 2     k1 k2 which of them count
//
// Every vector of A is loaded once: the neighbouring columns are shifted into place.  A vector is 9 FMAs and 6 shifts,
// 5 cycles where shifts have one execution unit of their own and share another, and 3 loads, which cross cache lines.

.macro weight r, i
        vbroadcastss zmm\r, dword ptr [r13 + 4 + 4 * \i]
.endm

.macro vector v
        kmovw   k1, [r8 + 2 * \v]
        kmovw   k2, [r9 + 2 * \v]
        vmovups zmm6, [r10 + 64 * \v + 64]
        vmovups zmm7, [rbx + 64 * \v + 64]
        vmovups zmm8, [r11 + 64 * \v + 64]
        vmovaps zmm9, zmm25
        valignd zmm10{k1}{z}, zmm3, zmm0, 15
        valignd zmm11{k1}{z}, zmm4, zmm1, 15
        valignd zmm12{k1}{z}, zmm5, zmm2, 15
        valignd zmm13{k2}{z}, zmm6, zmm3, 1
        valignd zmm14{k2}{z}, zmm7, zmm4, 1
        valignd zmm15{k2}{z}, zmm8, zmm5, 1
        vfmadd231ps zmm9, zmm16, zmm10
        vfmadd231ps zmm9, zmm17, zmm11
        vfmadd231ps zmm9, zmm18, zmm12
        vfmadd231ps zmm9, zmm19, zmm3
        vfmadd231ps zmm9, zmm20, zmm4
        vfmadd231ps zmm9, zmm21, zmm5
        vfmadd231ps zmm9, zmm22, zmm13
        vfmadd231ps zmm9, zmm23, zmm14
        vfmadd231ps zmm9, zmm24, zmm15
        clamp_store 9, r14+64*\v
        sub     rdi, 16
        jbe     L(three_end)
        vmovaps zmm0, zmm3
        vmovaps zmm1, zmm4
        vmovaps zmm2, zmm5
        vmovaps zmm3, zmm6
        vmovaps zmm4, zmm7
        vmovaps zmm5, zmm8
.endm

fn qn_dwconv_f32_plane64_k3_avx512
        begin
        lea     r9, [r8 + r9 * 2]
        movsxd  r10, dword ptr [rcx + 12]
        movsxd  rbx, dword ptr [rcx + 16]
        movsxd  r11, dword ptr [rcx + 20]
        add     r10, r12
        add     rbx, r12
        add     r11, r12
        vbroadcastss zmm25, dword ptr [r13]
        .set    i, 0
        .rept   9
        weight  %(16 + i), %i
        .set    i, i + 1
        .endr
        vmovups zmm0, [r10 - 64]
        vmovups zmm1, [rbx - 64]
        vmovups zmm2, [r11 - 64]
        vmovups zmm3, [r10]
        vmovups zmm4, [rbx]
        vmovups zmm5, [r11]
0:      vector  0
        vector  1
        vector  2
        vector  3
        add     r8, 8
        add     r9, 8
        add     r10, 256
        add     rbx, 256
        add     r11, 256
        add     r14, r15
        jmp     0b
L(three_end):
        end
endfn qn_dwconv_f32_plane64_k3_avx512

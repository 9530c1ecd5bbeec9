// C[p] = clamp(bias + sum over taps t of A(p, t) * W[t]), the pixels of one channel in blocks of 48.
// Contract: src/kernel/dwconv.h
//
//   args   rdi pixels left  rsi kernel_h  rdx kernel_w  rcx offsets  r8 masks  r9 mask_stride
//          [rsp+8] a  w  c  c_stride  p, then  r12 a  r13 from an offset to its weight  r14 c  r15 c_stride
//   column rax its masks  ebx columns left     ymm6-ymm11 which of its taps count
//   tap    r11 its offset  ebp rows left  r10 A
//   acc    ymm0-ymm5     load  ymm12 W  ymm13 A     clamp  ymm14 min  ymm15 max
//
// V = 1 to 6 vectors of pixels at a time.  A tap is 6 FMAs (3 cycles) and 6 loads, half of which cross a cache line
// (4.5 cycles).
#include "asm.h"

#define ARGS rsp + 56                   // a  w  c  c_stride  p

        .altmacro

.macro start v
        vmovaps ymm\v, ymm0
.endm

// One bit per lane in each of the bytes.
.macro column_mask mask, v
        vpbroadcastb ymm\mask, byte ptr [rax + \v]
        vpand   ymm\mask, ymm\mask, ymm13
        vpcmpeqd ymm\mask, ymm\mask, ymm13
.endm

.macro product acc, mask, v
        vmaskmovps ymm13, ymm\mask, [r10 + 32 * \v]
        vfmadd231ps ymm\acc, ymm12, ymm13
.endm

.macro store v
        vmaxps  ymm\v, ymm14, ymm\v     // a NaN in the second operand is the result
        vminps  ymm\v, ymm15, ymm\v
        vmovups [r14 + 32 * \v], ymm\v
.endm

.macro pixels V
L(any\V):
        mov     r11, rcx
        vbroadcastss ymm0, dword ptr [r11 + r13 - 4]
        .set    v, 1
        .rept   \V - 1
        start   %v
        .set    v, v + 1
        .endr
        mov     rax, r8
        mov     ebx, edx
1:      vmovaps ymm13, [rip + L(lane_bits)]
        .set    v, 0
        .rept   \V
        column_mask %(v + 6), %v
        .set    v, v + 1
        .endr
        add     rax, r9
        mov     ebp, esi
2:      movsxd  r10, dword ptr [r11]
        vbroadcastss ymm12, dword ptr [r11 + r13]
        add     r11, 4
        add     r10, r12
        .set    v, 0
        .rept   \V
        product %v, %(v + 6), %v
        .set    v, v + 1
        .endr
        dec     ebp
        jnz     2b
        dec     ebx
        jnz     1b
        .set    v, 0
        .rept   \V
        store   %v
        .set    v, v + 1
        .endr
.endm

        rodata
L(lane_bits):
        .long   1, 2, 4, 8, 16, 32, 64, 128
        places  any, 1, 2, 3, 4, 5

fn qn_dwconv_f32_plane48_avx2
        save    rbx, rbp, r12, r13, r14, r15
        mov     r12, [ARGS]
        mov     r13, [ARGS + 8]
        mov     r14, [ARGS + 16]
        mov     r15, [ARGS + 24]
        mov     rax, [ARGS + 32]
        vbroadcastss ymm14, dword ptr [rax + MINMAX_MIN]
        vbroadcastss ymm15, dword ptr [rax + MINMAX_MAX]
        add     r13, 4                  // behind the bias
        sub     r13, rcx
0:      cmp     rdi, 40
        jbe     3f
        pixels  6
        add     r8, 6
        add     r12, 192
        add     r14, r15
        sub     rdi, 48
        ja      0b
        jmp     L(any_end)
3:      lea     eax, [rdi + 7]
        shr     eax, 3
        entry   rax, rax, any, rbx
        enter   rax
        .irp    vectors, 5, 4, 3, 2
        pixels  \vectors
        jmp     L(any_end)
        .endr
        pixels  1
L(any_end):
        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_dwconv_f32_plane48_avx2

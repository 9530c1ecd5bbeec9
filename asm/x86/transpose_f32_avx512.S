// C[j][i] = A[i][j], 16 rows x 8 columns at a time.  Contract: src/kernel/transpose.h
//
//   args   rdi rows left  rsi columns  rdx a  rcx c  r8 c_stride
//   A      r9 addresses of 16 rows  rax bytes of columns done     k2 columns  (of a last row, again and again, if there
//          are fewer: their addresses are copied to the stack)
//   C      r10 its row     k1 rows
//   left   r11 columns
//   A      zmm0-zmm7: rows i and i + 4, i = 0 .. 3 and 8 .. 11, halves of a vector
//
// 128 elements are 24 shuffles (12 cycles), 16 loads and their 16 addresses, 8 stores.
#include "asm.h"

.macro pair to, i
        mov     rbx, [r9 + 8 * \i]
        mov     rbp, [r9 + 8 * \i + 32]
        vmovups ymm\to{k2}{z}, [rbx + rax]
        vmovups ymm8{k2}{z}, [rbp + rax]
        vinsertf64x4 zmm\to, zmm\to, ymm8, 1
.endm

// 4 x 4 elements in each quarter of the four vectors: afterwards a has column 0 in even quarters and 4 in odd ones,
// b 1 and 5, c 2 and 6, d 3 and 7.
.macro quarters a, b, c, d
        vunpcklps zmm8, zmm\a, zmm\b
        vunpckhps zmm9, zmm\a, zmm\b
        vunpcklps zmm10, zmm\c, zmm\d
        vunpckhps zmm11, zmm\c, zmm\d
        vunpcklpd zmm\a, zmm8, zmm10
        vunpckhpd zmm\b, zmm8, zmm10
        vunpcklpd zmm\c, zmm9, zmm11
        vunpckhpd zmm\d, zmm9, zmm11
.endm

.macro transpose
        .irp    i, 0, 1, 2, 3
        pair    \i, \i
        .endr
        pair    4, 8
        pair    5, 9
        pair    6, 10
        pair    7, 11
        quarters 0, 1, 2, 3
        quarters 4, 5, 6, 7
.endm

.macro put a, b, order
        vshuff32x4 zmm8, zmm\a, zmm\b, \order
        vmovups [r10]{k1}, zmm8
.endm

.macro store a, b, order
        put     \a, \b, \order
        add     r10, r8
.endm

.macro store_last a, b, order
        store   \a, \b, \order
        dec     r11
        jz      4f
.endm

// Columns 0 to 6, which are all that a rest can have.
.macro columns do
        \do     0, 4, 0x88
        \do     1, 5, 0x88
        \do     2, 6, 0x88
        \do     3, 7, 0x88
        \do     0, 4, 0xdd
        \do     1, 5, 0xdd
        put     2, 6, 0xdd
.endm

fn qn_transpose_f32_16x16_avx512
        save    rbx, rbp
        frame   128

0:      mov     r9, rdx                 // up to 16 rows
        mov     eax, 0xffff
        cmp     rdi, 16
        jae     2f
        lea     r9, [rdi - 1]           // fewer
        xor     eax, eax
1:      mov     rbx, rax
        cmp     rbx, r9
        cmova   rbx, r9
        mov     rbx, [rdx + rbx * 8]
        mov     [rsp + rax * 8], rbx
        inc     eax
        cmp     eax, 16
        jne     1b
        mov     r9, rsp
        xor     eax, eax
        bts     eax, edi
        dec     eax
2:      kmovw   k1, eax

        mov     eax, 0xff               // 8 columns
        kmovw   k2, eax
        mov     r10, rcx
        xor     eax, eax
        mov     r11, rsi
        sub     r11, 8
        jb      3f
1:      transpose
        columns store
        add     r10, r8
        store   3, 7, 0xdd
        add     rax, 32
        sub     r11, 8
        jae     1b

3:      add     r11, 8                  // what is left of them
        jz      4f
        xor     ebx, ebx
        bts     ebx, r11d
        dec     ebx
        kmovw   k2, ebx
        transpose
        columns store_last
4:      add     rcx, 64
        sub     rdx, -128
        sub     rdi, 16
        ja      0b

        vzeroupper
        unframe 128
        restore rbx, rbp
        ret
endfn qn_transpose_f32_16x16_avx512

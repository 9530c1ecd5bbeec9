// C[4 r + j] = bytes j of A[r], in the order that interleaving undoes, 64 pixels at a time.
// Contract: src/kernel/deal.h
//
//   args   rdi rows left  rsi groups  rdx a  rcx a_stride  r8 c  r9 c_stride
//   A      r10 its group     C  r11 its group  rax the same two rows on     left  rbx groups
//   A      zmm0-zmm3: pixels 16 v ..  in each quarter four of them, byte by byte     zmm16 the order of bytes
//
// A group is 12 shuffles for 4 loads and 4 stores.
#include "asm.h"

        rodata
PLACES(order):                          // the same byte of four pixels together
        .byte   0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15

fn qn_deal_qs8_16_avx512
        save    rbx
        vbroadcasti32x4 zmm16, [rip + PLACES(order)]
0:      mov     r10, rdx
        mov     r11, r8
        lea     rax, [r8 + r9 * 2]
        mov     rbx, rsi
1:      vmovdqu64 zmm0, [r10]
        vmovdqu64 zmm1, [r10 + 64]
        vmovdqu64 zmm2, [r10 + 128]
        vmovdqu64 zmm3, [r10 + 192]
        add     r10, 256
        vpshufb zmm0, zmm0, zmm16
        vpshufb zmm1, zmm1, zmm16
        vpshufb zmm2, zmm2, zmm16
        vpshufb zmm3, zmm3, zmm16
        vpunpckldq zmm4, zmm0, zmm1
        vpunpckhdq zmm5, zmm0, zmm1
        vpunpckldq zmm6, zmm2, zmm3
        vpunpckhdq zmm7, zmm2, zmm3
        vpunpcklqdq zmm0, zmm4, zmm6
        vpunpckhqdq zmm1, zmm4, zmm6
        vpunpcklqdq zmm2, zmm5, zmm7
        vpunpckhqdq zmm3, zmm5, zmm7
        vmovdqu64 [r11], zmm0
        vmovdqu64 [r11 + r9], zmm1
        vmovdqu64 [rax], zmm2
        vmovdqu64 [rax + r9], zmm3
        add     r11, 64
        add     rax, 64
        dec     rbx
        jnz     1b
        add     rdx, rcx
        lea     r8, [r8 + r9 * 4]
        dec     rdi
        jnz     0b
        vzeroupper
        restore rbx
        ret
endfn qn_deal_qs8_16_avx512

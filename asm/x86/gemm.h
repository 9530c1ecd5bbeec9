// What the gemm kernels of AVX-512 and AVX2 share.
#ifndef QN_ASM_X86_GEMM_H
#define QN_ASM_X86_GEMM_H

#include "asm.h"
#include "../offset.h"

// What the next call is likely to need.  A step fetches as many bytes of the rows of A below as it reads, and each
// of the last steps (rax bytes are left) a row of C, to be written, at stride r11.  Part of the step of a row halfway
// down, so that a call with few rows, which has none below, does without.
.macro fetch_below a, c, rows, bytes
        prefetcht0 [\a]
        add     \a, 4 * \rows
        .ifnb   \c
        cmp     rax, 4 * \rows
        jg      9f                      // rax is below 2^63; no other jump of gemm is a jg, see survivors.txt
        prefetchw [\c]
        .if     \bytes > 64
        prefetchw [\c + 64]
        .endif
        add     \c, r11
9:
        .endif
.endm

// One row times panels of two vectors; a level says how it stores.
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      rcx its end, rdx from -k up to 0
//   W      r9 r8 r10 r11 four panels, rax the place in each
//   C      rdi
//   left   rsi channels, edx panels to store     rbx k
//   acc    4-11: panel i holds 4+2i, 5+2i
//   load   0 one A everywhere     then 0 min  1 max
//
// Nothing is used twice, so this is as fast as the weights arrive.  Four panels are read side by side: so much more is
// under way at a time, and eight chains of FMAs hide their latency.  Where fewer panels are left, the others alias the
// last one.

// Bytes of every other panel that are fetched ahead: where the processor fetches the last cache's data too late, a
// fifth faster than nothing, and nearly as fast as all panels.
#define NEAR 1024

// Accumulators i and i+1 of the panel at `w`: their biases, or their products of one k.
.macro row_biases v, bytes, i, j, w
        vmovaps \v\i, [\w]
        vmovaps \v\j, [\w + \bytes]
.endm

.macro row_products v, bytes, i, j, w
        vfmadd231ps \v\i, \v\()0, [\w + rax]
        vfmadd231ps \v\j, \v\()0, [\w + rax + \bytes]
.endm

.macro row_panels do, v, bytes
        \do     \v, \bytes, 4, 5, r9
        \do     \v, \bytes, 6, 7, r8
        \do     \v, \bytes, 8, 9, r10
        \do     \v, \bytes, 10, 11, r11
.endm

.macro one_row v, bytes
        save    rbx
        mov     rbx, rdx
        add     rcx, rdx
        mov     rdi, [rsp + 16]
        .set    nr, \bytes / 2

0:      lea     rax, [rbx + 4]          // bytes of a panel
        imul    rax, rax, nr
        lea     r8, [r9 + rax]
        cmp     rsi, nr
        cmovbe  r8, r9
        lea     r10, [r8 + rax]
        cmp     rsi, 2 * nr
        cmovbe  r10, r8
        lea     r11, [r10 + rax]
        cmp     rsi, 3 * nr
        cmovbe  r11, r10

        row_panels row_biases, \v, \bytes
        mov     eax, 2 * \bytes
        mov     rdx, rbx
        neg     rdx
1:      vbroadcastss \v\()0, dword ptr [rcx + rdx]
        row_panels row_products, \v, \bytes
        .irp    w, r9, r10
        prefetcht0 [\w + rax + NEAR]
        .if     \bytes == 64
        prefetcht0 [\w + rax + NEAR + 64]
        .endif
        .endr
        add     rax, 2 * \bytes
        add     rdx, 4
        jnz     1b

        lea     r9, [r11 + rax]
        mov     rdx, [rsp + 32]         // p
        vbroadcastss \v\()0, dword ptr [rdx + MINMAX_MIN]
        vbroadcastss \v\()1, dword ptr [rdx + MINMAX_MAX]
        mov     edx, 4
2:      vmaxps  \v\()4, \v\()0, \v\()4  // a NaN in the second operand is the result
        vmaxps  \v\()5, \v\()0, \v\()5
        vminps  \v\()4, \v\()1, \v\()4
        vminps  \v\()5, \v\()1, \v\()5
.endm

// After a panel is stored: the next one, as many as are left of the four, then the next four.
.macro row_next v, bytes
        add     rdi, 2 * \bytes
        sub     rsi, nr
        jbe     4f
        vmovaps \v\()4, \v\()6
        vmovaps \v\()5, \v\()7
        vmovaps \v\()6, \v\()8
        vmovaps \v\()7, \v\()9
        vmovaps \v\()8, \v\()10
        vmovaps \v\()9, \v\()11
        dec     edx
        jnz     2b
        jmp     0b
.endm

.macro end_row
4:      vzeroupper
        restore rbx
        ret
.endm

#endif

// What the sparse kernels of AVX-512 and AVX2 share.
#ifndef QN_ASM_X86_SPMM_H
#define QN_ASM_X86_SPMM_H

#include "asm.h"
#include "../offset.h"

// csr: the places of the next step, four bytes of the index at rcx; then place i of them becomes a row of A, at r9
// with r12 bytes between rows. `low` is the lower half of `row`.
.macro csr_places
        mov     r10d, [rcx]
        add     rcx, 4
.endm

.macro csr_find i, low, row
        .if     \i == 3
        mov     \low, r10d
        .else
        movzx   \low, r10b
        shr     r10d, 8
        .endif
        imul    \row, r12
        add     \row, r9
.endm

// csr: the entries of four channels, a loop for each pattern that has some.  rcx leads to the numbers of entries,
// then to the next set; eax entries left, rbp index, r8 W.  A kernel says by macros what it does: `begin_pattern`,
// `find_entry` with the row of A at r11, and `entry_products` of a channel and the number of its weight in the entry.
// `weights` is how many of these there are.
.macro csr_patterns
        lea     rbp, [rcx + 2 * 15]
        .irp    bits, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        csr_pattern \bits
        .endr
        mov     rcx, rbp
.endm

.macro csr_pattern bits
        movzx   eax, word ptr [rcx + 2 * (\bits - 1)]
        test    eax, eax
        jz      7f
        .set    weights, \bits - \bits / 2 - \bits / 4 - \bits / 8
        begin_pattern \bits
6:      movzx   r11d, word ptr [rbp]
        add     rbp, 2
        imul    r11, r12
        add     r11, r9
        find_entry
        .set    m, 0
        .set    rest, \bits
        .irp    channel, 0, 1, 2, 3
        .if     rest - rest / 2 * 2
        entry_products \channel, %m
        .set    m, m + 1
        .endif
        .set    rest, rest / 2
        .endr
        add     r8, 4 * weights
        dec     eax
        jnz     6b
7:
.endm

#endif

// Macros for every x86-64 .S file.  ELF and Mach-O; gas and clang; Intel syntax.
#ifndef QN_ASM_X86_ASM_H
#define QN_ASM_X86_ASM_H

#include "../offset.h"

#ifdef __APPLE__
#define SYM(s) _##s
#define L(s) L##s
#define PLACES(s) l##s          // a symbol in the object: Mach-O subtracts no other one of another section
#else
#define SYM(s) s
#define L(s) .L##s
#define PLACES(s) .L##s
#endif

// Bytes of weights that gemm and igemm fetch ahead of what they multiply.  Far enough for weights that come from memory,
// as those of most layers do in a model: measured, 4 KiB is too late by a tenth of the whole time, 8 to 24 KiB are alike.
#define AHEAD 12288

#ifdef QN_SMALL
        .cfi_sections .debug_frame      // for debuggers, gone when stripped
#endif

        .intel_syntax noprefix

// Every object carries both notes: one without them turns CET off, or makes the stack executable, for the whole image.
#ifdef __ELF__
        .pushsection .note.gnu.property, "a"
        .balign 8
        .long 4, 16, 5
        .asciz "GNU"
        .long 0xc0000002, 4, 3, 0       // FEATURE_1_AND = IBT | SHSTK
        .popsection
        .section .note.GNU-stack, "", %progbits
#endif

// Each function has a section of its own, so that no filler between two of them lies behind its end.
.macro fn name
#ifdef __ELF__
        .section .text.\name, "ax", %progbits
#else
        .text
#endif
        .p2align 6
        .globl SYM(\name)
#ifdef __ELF__
        .type \name, %function
        .hidden \name
#else
        .private_extern SYM(\name)
#endif
SYM(\name):
        .cfi_startproc
#ifdef __ELF__
        endbr64
#endif
.endm

.macro endfn name
        .cfi_endproc
#ifdef __ELF__
        .size \name, . - \name
#endif
        int3                    // nothing runs past the end, not even speculatively
.endm

// Read-only data, aligned for any vector; `fn` leads back to the text.
.macro rodata
#ifdef __ELF__
        .section .rodata
#else
        .section __TEXT, __const
#endif
        .p2align 6
.endm

// Push registers, and tell the unwinder, in one word; pop them in reverse order.
.macro save regs:vararg
        .irp    r, \regs
        push    \r
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset \r, 0
        .endr
.endm

.macro restore first, rest:vararg
        .ifnb   \rest
        restore \rest
        .endif
        pop     \first
        .cfi_adjust_cfa_offset -8
        .cfi_restore \first
.endm

// Room for what the registers cannot hold.
.macro frame bytes
        sub     rsp, \bytes
        .cfi_adjust_cfa_offset \bytes
.endm

.macro unframe bytes
        add     rsp, \bytes
        .cfi_adjust_cfa_offset -\bytes
.endm

// Rows are handled from the last to the first in straight code; a call with fewer rows enters further down.
// `places` makes the table of distances to the places NAME0, NAME1, ... (in read-only data), `entry` reads from it
// where row mr-1 begins, `enter` jumps there (notrack: these are no functions and have no endbr64).
.macro places name, rows:vararg
PLACES(\name\()s):
        .irp    m, \rows
        .long   L(\name\m) - PLACES(\name\()s)
        .endr
.endm

.macro entry to, mr, name, scratch
        lea     \scratch, [rip + PLACES(\name\()s)]
        movsxd  \to, dword ptr [\scratch + \mr * 4 - 4]
        add     \to, \scratch
.endm

.macro enter to:vararg
        notrack jmp \to
.endm

// gemm: what the next call is likely to need.  A step fetches as many bytes of the rows of A below as it reads, and each
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

// SSE: store the first n channels (1 .. 7, in a 32-bit register) of lo and hi at [at]; `next` and lo are scratch.
.macro store_first next, at, n, lo, hi
        mov     \next, \at
        test    \n, 4
        jz      7f
        movups  [\next], \lo
        movaps  \lo, \hi
        add     \next, 16
7:      test    \n, 2
        jz      8f
        movlps  [\next], \lo
        movhlps \lo, \lo
        add     \next, 8
8:      test    \n, 1
        jz      9f
        movss   dword ptr [\next], \lo
9:
.endm

// AVX-512: a mask with one bit for each of the first 32 of n channels (1 or more; n32 is the lower half of n).
.macro lanes mask, n, n32, scratch
        mov     \scratch, -1
        cmp     \n, 32
        jae     9f
        xor     \scratch, \scratch
        bts     \scratch, \n32
        dec     \scratch
9:      kmovd   \mask, \scratch
.endm

// spmm, csr: the places of the next step, four bytes of the index at rcx; then place i of them becomes a row of A, at r9
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

// spmm, csr: the entries of four channels, a loop for each pattern that has some.  rcx leads to the numbers of entries,
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

// Depthwise tiles of any level: the walk over the columns of the input.  A kernel says what a vector is, by macros load,
// products, copy and bias.

.macro next_column bytes
        add     rdx, \bytes
.endm

// Column d of a step: kernel column d of the youngest pixel, d + S of the next one ...
.macro column d
        .set    i, 0
        .rept   (R - 1) * S + K
        load    %(OPEN * R + i), %i
        .set    i, i + 1
        .endr
        next_column %(4 * ((ROWS - 1) * S + K))
        mov     eax, r10d
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        products %g, %(g * S + \d)
        .endif
        .set    g, g + 1
        .endr
.endm

// Every open pixel grows older, and the next one, if there is one, opens.
.macro age
        .set    i, (OPEN - 1) * R
        .rept   i
        .set    i, i - 1
        copy    %(i + R), %i
        .endr
        .rept   R
        bias    %i
        .set    i, i + 1
        .endr
        xor     eax, eax
        test    rbx, rbx
        setnz   al
        lea     r10d, [rax + r10 * 2]
        sub     rbx, rax
.endm

.macro skip_unless bits, to
        test    r10d, \bits
        jz      \to
.endm

.macro again_if bits, to
        test    r10d, \bits
        jnz     \to
.endm

// gemm: one row times panels of two vectors; a level says how it stores.
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

// Bytes of every other panel that are fetched ahead: where the processor fetches the last cache's data too late, a fifth
// faster than nothing, and nearly as fast as all panels.
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

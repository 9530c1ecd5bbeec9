// Macros for every x86-64 .S file.  ELF and Mach-O; gas and clang; Intel syntax.
#ifndef QN_ASM_X86_ASM_H
#define QN_ASM_X86_ASM_H

#ifdef __APPLE__
#define SYM(s) _##s
#define L(s) L##s
#else
#define SYM(s) s
#define L(s) .L##s
#endif

// Bytes of weights that gemm and igemm fetch ahead of what they multiply.  Far enough for weights that come from memory,
// as those of most layers do in a model: measured, 4 KiB is too late by a tenth of the whole time, 8 to 24 KiB are alike.
#define AHEAD 12288

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

// Each function has a section of its own: what a program does not need, the linker drops.
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
L(\name\()s):
        .irp    m, \rows
        .long   L(\name\m) - L(\name\()s)
        .endr
.endm

.macro entry to, mr, name, scratch
        lea     \scratch, [rip + L(\name\()s)]
        movsxd  \to, dword ptr [\scratch + \mr * 4 - 4]
        add     \to, \scratch
.endm

.macro enter to:vararg
        notrack jmp \to
.endm

// gemm: what the next call is likely to need.  A step fetches as many bytes of the rows of A below as it reads, and each of
// the last steps (rax bytes are left) a row of C, to be written, at stride r11.  Part of the step of a row halfway down, so
// that a call with few rows, which has none below, does without.
.macro fetch_below a, c, rows, bytes
        prefetcht0 [\a]
        add     \a, 4 * \rows
        .ifnb   \c
        cmp     rax, 4 * \rows
        ja      9f
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

#endif

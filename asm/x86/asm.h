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

// Bytes of weights that gemm, igemm and spmm fetch ahead of what they multiply.  Far enough for weights that come from
// memory, as those of most layers do in a model: measured, 4 KiB is too late by a tenth of the whole time, 8 to 24 KiB
// are alike.
#define AHEAD 12288
// The same for kernels of bytes.  A fetch whose address has the lowest 12 bits of those of loads at hand delays these:
// measured on a Zen 4, weights in L2, with a multiple of 4 KiB products take up to a seventh longer.
#define AHEAD_OF_BYTES (AHEAD + 512)

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

#endif

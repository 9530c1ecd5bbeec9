// Macros for every arm64 .S file.  ELF and Mach-O; gas and clang.
#ifndef QN_ASM_ARM64_ASM_H
#define QN_ASM_ARM64_ASM_H

#ifdef __APPLE__
#define SYM(s) _##s
#define L(s) L##s
#else
#define SYM(s) s
#define L(s) .L##s
#endif

#ifdef QN_SMALL
        .cfi_sections .debug_frame      // for debuggers, gone when stripped
#endif

// The platform's register: using it is an error of the assembler.
#define x18 the_platform_owns_x18
#define w18 the_platform_owns_w18

// Every object carries both notes: one without them turns BTI off, or makes the stack executable, for the whole image.
#ifdef __ELF__
        .pushsection .note.gnu.property, "a"
        .balign 8
        .long 4, 16, 5
        .asciz "GNU"
        .long 0xc0000000, 4, 3, 0       // FEATURE_1_AND = BTI | PAC
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
        .globl  SYM(\name)
#ifdef __ELF__
        .type   \name, %function
        .hidden \name
#else
        .private_extern SYM(\name)
#endif
SYM(\name):
        .cfi_startproc
        hint    #34                     // bti c
.endm

.macro endfn name
        .cfi_endproc
#ifdef __ELF__
        .size   \name, . - \name
#endif
.endm

// Push a pair of registers, and tell the unwinder, in one word; pop it.
.macro save a, b
        stp     \a, \b, [sp, #-16]!
        .cfi_adjust_cfa_offset 16
        .cfi_rel_offset \a, 0
        .cfi_rel_offset \b, 8
.endm

.macro restore a, b
        ldp     \a, \b, [sp], #16
        .cfi_adjust_cfa_offset -16
        .cfi_restore \a
        .cfi_restore \b
.endm

// Around a return address on the stack: processors with pointer authentication sign it, for others these are no-ops.
.macro sign
        hint    #25                     // paciasp
        .cfi_negate_ra_state
.endm

.macro authenticate
        hint    #29                     // autiasp
        .cfi_negate_ra_state
.endm

// The return address from here on: in the register `to`.
.macro keep_return to
        mov     \to, x30
        .cfi_register x30, \to
.endm

.macro return_from kept
        mov     x30, \kept
        .cfi_restore x30
.endm

// What a clamp of dwconv does with a vector of sums, where v30 is min and v31 max; clamp_f32.h says why so.
.macro below_min acc, mask
        fcmgt   v\mask\().4s, v30.4s, v\acc\().4s
.endm

.macro put_min acc, mask
        bit     v\acc\().16b, v30.16b, v\mask\().16b
.endm

.macro above_max acc, mask
        fcmgt   v\mask\().4s, v\acc\().4s, v31.4s
.endm

.macro put_max acc, mask
        bit     v\acc\().16b, v31.16b, v\mask\().16b
.endm

// Both at once, unless max is -0: it would replace +0.
.macro lower_to_max acc, none
        fmin    v\acc\().4s, v\acc\().4s, v31.4s
.endm

// Stores the first n (1 .. 7, in a register) of the floats in lo and hi at [at], which moves on; lo is scratch.
.macro store_first at, n, lo, hi
        tbz     \n, #2, L(first\@_two)
        str     q\lo, [\at], #16
        mov     v\lo\().16b, v\hi\().16b
L(first\@_two):
        store_below_4 \at, \n, \lo
.endm

// Fewer than four.
.macro store_below_4 at, n, lo
        tbz     \n, #1, L(below\@_one)
        str     d\lo, [\at], #8
        dup     v\lo\().2d, v\lo\().d[1]
L(below\@_one):
        tbz     \n, #0, L(below\@_done)
        str     s\lo, [\at]
L(below\@_done):
.endm

#endif

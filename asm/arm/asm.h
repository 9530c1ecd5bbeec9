// Macros for every 32-bit ARM .S file.  ELF, gas; A32, never Thumb.
#ifndef QN_ASM_ARM_ASM_H
#define QN_ASM_ARM_ASM_H

#include "../offset.h"

#define SYM(s) s

        .syntax unified
        .arch   armv7-a
        .fpu    neon                    // a kernel with FMA raises it
        .arm

// An object without it makes the stack executable, for the whole image.
        .section .note.GNU-stack, "", %progbits

// The unwinder's tables, which small builds do without: the assembler would have them call the C++ runtime.
#ifdef QN_SMALL
.macro unwind_begin
.endm
.macro unwind_end
.endm
.macro unwind_save directive, regs:vararg
.endm
.macro unwind_pad bytes
.endm
#else
.macro unwind_begin
        .fnstart
.endm
.macro unwind_end
        .fnend
.endm
.macro unwind_save directive, regs:vararg
        \directive {\regs}
.endm
.macro unwind_pad bytes
        .pad    #\bytes
.endm
#endif

// Each function has a section of its own, so that no filler between two of them lies behind its end. The unwinder's
// tables are made from .save and .vsave, which stand beside what they describe.
.macro fn name
        .section .text.\name, "ax", %progbits
        .p2align 6
        .globl  SYM(\name)
        .type   \name, %function
        .hidden \name
SYM(\name):
        unwind_begin
.endm

.macro endfn name
        unwind_end
        .size   \name, . - \name
.endm

// Push registers, and tell the unwinder, in one word.
.macro save regs:vararg
        push    {\regs}
        unwind_save .save, \regs
.endm

.macro vsave regs:vararg
        vpush   {\regs}
        unwind_save .vsave, \regs
.endm

// Takes bytes of the stack, likewise.
.macro take_room bytes
        sub     sp, sp, #\bytes
        unwind_pad \bytes
.endm

// Names the halves of q<number> low<number> and high<number>.
.macro halves number, low, high
low\number  .req d\low
high\number .req d\high
.endm

        halves  0, 0, 1
        halves  1, 2, 3
        halves  2, 4, 5
        halves  3, 6, 7
        halves  4, 8, 9
        halves  6, 12, 13
        halves  8, 16, 17
        halves  10, 20, 21
        halves  12, 24, 25
        halves  14, 28, 29

// One of the two differences between the levels: neon rounds products. The other: vfma has no form that takes an element
// from its lane.
.macro multiply_add_neon sum, a, b
        vmla.f32 \sum, \a, \b
.endm
.macro multiply_add_neonfma sum, a, b
        vfma.f32 \sum, \a, \b
.endm

// min (and max = min + 4 bytes) of *p, which is an argument on the stack, to all lanes of q0 and q1.
.macro load_limits p
        ldr     r12, [sp, #\p]
        .if     MINMAX_MAX != MINMAX_MIN + 4
        .error  "min and max are not neighbours"
        .endif
        vld1.32 {low0[], high0[]}, [r12]!
        vld1.32 {low1[], high1[]}, [r12]
.endm

// Rows of A from their offsets, in registers. Where one is negative, the subroutine at `zeros` has its turn.
.macro find_rows zeros, a, first, second, others:vararg
        orrs    lr, \first, \second
        .irp    offset, \others
        .ifnb   \offset                // there may be none
        orrs    lr, lr, \offset
        .endif
        .endr
        blmi    \zeros
        .irp    offset, \first, \second, \others
        add     \offset, \offset, \a
        .endr
.endm

// That subroutine: the offset of zeros, which is on the stack, in place of negative ones.
.macro choose_zeros place, offsets:vararg
        .irp    offset, \offsets
        cmp     \offset, #0
        ldrlt   \offset, [sp, #\place]
        .endr
        bx      lr
.endm

// ---- What gemm and igemm share, and dwconv in part: tiles of 4 rows x 8 channels, for both levels.
//
//   r0 mr   r1 nc   r2 bytes of a row of A   r7 w   r10 c   r11 c_stride   r12 bytes that are left of a row
//   rows    r3 r4 r5 r6, of A and then of C
//   acc     q8-q15: row m holds q(8+2m), q(9+2m)
//   load    q0-q3 four k of each row of A    q4 q5 a row of W    q6 q7 elements of A, each in all lanes
//   then    q0 min  q1 max  q2 q3 masks
//
// The levels differ in one macro: vmla takes an element of A from its lane, vfma wants it in all lanes of a vector.
// Four k are 32 multiply-adds, and 16 copies of an element more with vfma.
//
// Rows past mr are rows mr-1 again: the same sums, stored twice.

// What r3 and the stack hold after this, from TILE_R3 on: r3 itself, saved registers, the arguments on the stack.
.macro save_registers
        save    r3, r4, r5, r6, r7, r8, r9, r10, r11, lr
        vsave   d8, d9, d10, d11, d12, d13, d14, d15
.endm
.macro leave
        vpop    {d8-d15}
        pop     {r3-r11, pc}
.endm
#define TILE_R3 64
#define TILE_STACK 104

// Every row: its number, its address, its accumulators; and the rows two at a time.
.macro rows do, arg:vararg
        \do     0, r3, 8, 9, \arg
        \do     1, r4, 10, 11, \arg
        \do     2, r5, 12, 13, \arg
        \do     3, r6, 14, 15, \arg
.endm
.macro pairs do, arg:vararg
        \do     0, 8, 9, 1, 10, 11, \arg
        \do     2, 12, 13, 3, 14, 15, \arg
.endm

// The other addresses from that of row 0 in r3.
.macro locate stride
        cmp     r0, #2
        addhs   r4, r3, \stride
        movlo   r4, r3
        addhi   r5, r4, \stride
        movls   r5, r4
        cmp     r0, #3
        addhi   r6, r5, \stride
        movls   r6, r5
.endm

// An offset of a tap, whose offsets are at r8.  Those of rows past mr are not read: such a row is the one before it.
#define TAP 16                          // their bytes
.macro load_offset m, row, before
        cmp     r0, #\m
        ldrhi   \row, [r8, #\m * 4]
        movls   \row, \before
.endm

// The sums of a panel begin with its bias.
.macro start m, address, lo, hi, none
        .if     \m > 0                  // row 0 was loaded
        vmov    q\lo, q8
        vmov    q\hi, q9
        .endif
.endm
.macro begin_panel
        vld1.32 {q8, q9}, [r7:256]!
        rows    start
.endm

// half[lane] of q<m> is A of row m.
.macro step_neon m, lo, hi, n, lo2, hi2, half, lane
        vmla.f32 q\lo, q4, \half\m[\lane]
        vmla.f32 q\hi, q5, \half\m[\lane]
        vmla.f32 q\lo2, q4, \half\n[\lane]
        vmla.f32 q\hi2, q5, \half\n[\lane]
.endm
.macro step_neonfma m, lo, hi, n, lo2, hi2, half, lane
        vdup.32 q6, \half\m[\lane]
        vdup.32 q7, \half\n[\lane]
        vfma.f32 q\lo, q4, q6
        vfma.f32 q\hi, q5, q6
        vfma.f32 q\lo2, q4, q7
        vfma.f32 q\hi2, q5, q7
.endm

.macro load4 m, address, lo, hi, none
        vld1.32 {q\m}, [\address]!
.endm
.macro load1 m, address, lo, hi, none
        vld1.32 {low\m[]}, [\address]!
.endm

// acc += A * W over r2 bytes of each row.
.macro multiply level
        subs    r12, r2, #16
        blo     2f
1:      rows    load4
        .irp    half, low, high
        .irp    lane, 0, 1
        vld1.32 {q4, q5}, [r7:256]!
        pairs   step_\level, \half, \lane
        .endr
        .endr
        subs    r12, r12, #16
        bhs     1b
2:      adds    r12, r12, #16           // k mod 4
        beq     4f
3:      rows    load1
        vld1.32 {q4, q5}, [r7:256]!
        pairs   step_\level, low, 0
        subs    r12, r12, #4
        bne     3b
4:
.endm

// Comparisons with NaN are false, so a NaN stays; and -0 is not below 0. (vmax would make it +0.)
.macro raise m, address, lo, hi, none
        vcgt.f32 q2, q0, q\lo
        vcgt.f32 q3, q0, q\hi
        vbit    q\lo, q0, q2
        vbit    q\hi, q0, q3
.endm
.macro lower m, address, lo, hi, none
        vcgt.f32 q2, q\lo, q1
        vcgt.f32 q3, q\hi, q1
        vbit    q\lo, q1, q2
        vbit    q\hi, q1, q3
.endm
.macro clamp m, address, lo, hi, none
        raise   \m, \address, \lo, \hi
        lower   \m, \address, \lo, \hi
.endm

.macro store8 m, address, lo, hi, none
        vst1.32 {q\lo, q\hi}, [\address]
.endm
.macro store4 m, address, lo, hi, none
        vst1.32 {q\lo}, [\address]!
        vmov    q\lo, q\hi
.endm
.macro store2 m, address, lo, hi, none
        vst1.32 {low\lo}, [\address]!
        vmov    low\lo, high\lo
.endm
.macro store1 m, address, lo, hi, none
        vst1.32 {low\lo[0]}, [\address]
.endm

// Clamps with *p, which is an argument on the stack, stores, and goes on with the next panel at 0 or returns.
.macro end_panel p
        load_limits \p
        rows    clamp
        mov     r3, r10
        locate  r11
        cmp     r1, #8
        blo     5f
        rows    store8
        add     r10, r10, #32
        subs    r1, r1, #8
        bne     0b
        b       8f
5:      tst     r1, #4                  // nc mod 8 channels: four, two and one of them
        beq     6f
        rows    store4
6:      tst     r1, #2
        beq     7f
        rows    store2
7:      tst     r1, #1
        beq     8f
        rows    store1
8:      leave
.endm

#endif

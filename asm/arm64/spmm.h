// What the sparse kernels of arm64 share: a variant for each width, V vectors of four pixels or one pixel, and the sets
// of blocks of channels.  Contract: src/kernel/spmm.h
//
//   args   x0 pixels  x1 sets  x2 set  x3 index  x4 w  x5 a  x6 a_stride  x7 c  [sp] c_stride  bias  p
//   keep   x8 c_stride  x9 biases or 0  x11 p  x19 return address
//   acc    v16-v31, APART of them for each channel
//
// One pixel is a vector of which one lane is loaded and stored.  Jumps at the start choose a variant for all sets.  V,
// ONE, APART, and for blocks R are assembly variables.
//
// A file says by macros what its numbers need:
//
//   add_product  acc, vector, weights, lane: v\acc += v\vector * a word of v\weights
//   found_set    may look at w12, the first channel of the set that begins
//   resume       channel: loads its sums from x17, which moves on to the next channel
//   end_set      ends the sums of R channels and stores them at x12; of four channels x12 moves on
//
//   KIND_loads   the loads of the first step of a set, before v9 is free; here is row_loads, for steps of one row of A
//   KIND_steps   all w0 steps; here is row_steps
#ifndef QN_ASM_ARM64_SPMM_H
#define QN_ASM_ARM64_SPMM_H

#include "asm.h"
#include "../offset.h"

        .altmacro

// The return address waits in a register while `clamp` is called, so it needs no signature.
.macro begin
        ldp     x8, x9, [sp]
        ldr     x11, [sp, #16]
        save    x19, x20
        save    d8, d9
        mov     x19, x30
        .cfi_register x30, x19
.endm

// A macro may restore what the file has saved in addition.
.macro end name, more
L(\name\()_end):
        .cfi_remember_state
        mov     x30, x19
        .cfi_restore x30
        \more
        restore d8, d9
        restore x19, x20
        ret
        .cfi_restore_state
.endm

// A jump to each variant but NAME0 for one pixel, which comes next.
.macro choose name, most
        .set    v, \most
        .rept   \most - 1
        choose_above \name, %(4 * v - 4), %v
        .set    v, v - 1
        .endr
        choose_above \name, 1, 1
.endm

.macro choose_above name, pixels, variant
        cmp     x0, #\pixels
        b.hi    L(\name\variant)
.endm

// Variants 0, for one pixel, to `most`; then the end.
.macro variants do, most
        .set    MOST, \most
        .set    V, 1
        .set    ONE, 1
        \do     0
        .set    ONE, 0
        .rept   \most
        \do     %V
        .set    V, V + 1
        .endr
.endm

// After a set: the next one, or the end.
.macro next_set name
        subs    x1, x1, #1
        b.ne    0b
        .if     V - MOST
        b       L(\name\()_end)
        .endif
.endm

// A macro for the accumulators first .. first+V-1 of one channel and the numbers 0 .. V-1 of their vectors.
.macro vectors do, first, rest:vararg
        .set    v, 0
        .rept   V
        \do     %(\first + v), %v, \rest
        .set    v, v + 1
        .endr
.endm

.macro fetch to, vector, at
        .if     ONE
        ldr     s\to, [\at]
        .else
        ldr     q\to, [\at, #16 * \vector]
        .endif
.endm

.macro store acc, vector, at
        .if     ONE
        str     s\acc, [\at]
        .else
        str     q\acc, [\at, #16 * \vector]
        .endif
.endm

// Channels begin with their biases, which are lanes of v9.
.macro from_bias acc, vector, lane
        dup     v\acc\().4s, v9.s[\lane]
.endm

// ---- b1xN: R = 2 or 4 channels at a time, N / R times with the same index.
//
//   set    w0 steps  x10 bytes of W of a step  x12 C of the channels  x13 their biases  x14 times left
//          x3 index and x4 W of the channels when a set begins
//   step   w20 steps left  x15 index  x16 W  x17 row of A of the next step
//   acc    channel r: v(16 + APART r) ..     load  v0 .. A  v8 W of the first half of the channels  v9 of the second
//
// A step with R = 4 and V = 4, or R = 2 and V = 8, is 16 products and 6 or 10 loads.  All channels of a half multiply a
// vector before the next one does; the second half is the last to need it.

// The weights of a half of the channels.
.macro fetch_weights to, number
        .if     R == 4
        ldr     d\to, [x16, #8 * \number]
        .else
        ldr     s\to, [x16, #4 * \number]
        .endif
.endm

// A macro for each channel.
.macro channels do
        .set    r, 0
        .rept   R
        \do     %r
        .set    r, r + 1
        .endr
.endm

.macro start channel
        vectors from_bias, %(16 + APART * \channel), \channel
.endm

// The products of one vector with R / 2 channels, of which `weights` holds the weights.
.macro products_of vector, first, weights
        .set    lane, 0
        .rept   R / 2
        add_product %(16 + APART * (\first + lane) + \vector), \vector, \weights, %lane
        .set    lane, lane + 1
        .endr
.endm

.macro first_half number, vector, next
        products_of \vector, 0, 8
        .if     \next
        .if     \vector == 0
        ldrh    w17, [x15], #2
        .endif
        .if     \vector == V / 2
        madd    x17, x17, x6, x5
        .endif
        .endif
.endm

.macro second_half number, vector, next
        products_of \vector, %(R / 2), 9
        .if     \next
        fetch   \vector, \vector, x17
        .endif
.endm

// Also the loads of the next step, if there is one.
.macro row_step next
        add     x16, x16, x10
        vectors first_half, 0, \next
        .if     \next
        fetch_weights 8, 0
        subs    w20, w20, #1
        .endif
        vectors second_half, 0, \next
        .if     \next
        fetch_weights 9, 1
        .endif
.endm

// Before the first step, v9 is not free yet.
.macro row_loads
        ldrh    w17, [x15], #2
        madd    x17, x17, x6, x5
        vectors fetch, 0, x17
        fetch_weights 8, 0
.endm

.macro row_steps
        subs    w20, w0, #1
        b.lo    7f
        fetch_weights 9, 1
        b.eq    6f
5:      row_step 1
        b.ne    5b
6:      row_step 0
7:
.endm

// The biases of R channels.
.macro biases
        .if     R == 4
        ldr     q9, [x13], #16
        .else
        ldr     d9, [x13]
        .endif
.endm

.macro blocks name, variant, kind
L(\name\variant):
0:      ldrh    w0, [x2, #SPMM_SET_STEPS]
        ldrh    w12, [x2, #SPMM_SET_FIRST]
        add     x2, x2, #SPMM_SET_BYTES
        add     x13, x9, x12, lsl #2
        found_set
        madd    x12, x12, x8, x7
        .if     R == 4
        lsr     x14, x10, #4
        .endif
1:      mov     x15, x3
        mov     x16, x4
        cbz     w0, 2f
        \kind\()_loads
2:      cbz     x9, 3f
        biases
        channels start
        b       4f
3:      mov     x17, x12
        channels resume
4:      \kind\()_steps
        end_set
        .if     R == 4
        add     x4, x4, #16
        subs    x14, x14, #1
        b.ne    1b
        sub     x16, x16, x10
        add     x16, x16, #16
        .endif
        mov     x3, x15
        mov     x4, x16
        next_set \name
.endm

#endif

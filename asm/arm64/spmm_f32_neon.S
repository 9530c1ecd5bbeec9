// C[n][p] = clamp(start[n][p] + sum over the stored k of W[n][k] * A[k][p]), 32 or 16 pixels.
// Contract: src/kernel/spmm.h
//
//   args   x0 pixels  x1 sets  x2 set  x3 index  x4 w  x5 a  x6 a_stride  x7 c  [sp] c_stride  bias  p
//   keep   x8 c_stride  x9 biases or 0  x11 p  x19 return address
//   step   v0-v7 A  v8 v9 W     acc  v16-v31, APART of them for each channel
//
// There is a variant for each width: V vectors, or one pixel, which is a vector of which one lane is loaded and stored.
// Jumps at the start choose it for all sets.  V, ONE, APART, and for blocks R are assembly variables.
//
// Instructions stand where they suit cores that run in order: a load of A overwrites the vector that the product before it
// was the last to need, and is needed itself many products later; others pair with products.
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

.macro end name
L(\name\()_end):
        .cfi_remember_state
        mov     x30, x19
        .cfi_restore x30
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

.macro add_product acc, vector, weights, lane
        fmla    v\acc\().4s, v\vector\().4s, v\weights\().s[\lane]
.endm

// Four accumulators and a bound in v0.  Comparisons with NaN are false, so a NaN stays; and -0 is not below 0. (fmax would
// make it +0.)
.macro raise one, two, three, four
        fcmgt   v1.4s, v0.4s, v\one\().4s
        fcmgt   v2.4s, v0.4s, v\two\().4s
        fcmgt   v3.4s, v0.4s, v\three\().4s
        fcmgt   v4.4s, v0.4s, v\four\().4s
        put_bound \one, \two, \three, \four
.endm

.macro lower one, two, three, four
        fcmgt   v1.4s, v\one\().4s, v0.4s
        fcmgt   v2.4s, v\two\().4s, v0.4s
        fcmgt   v3.4s, v\three\().4s, v0.4s
        fcmgt   v4.4s, v\four\().4s, v0.4s
        put_bound \one, \two, \three, \four
.endm

.macro put_bound one, two, three, four
        bit     v\one\().16b, v0.16b, v1.16b
        bit     v\two\().16b, v0.16b, v2.16b
        bit     v\three\().16b, v0.16b, v3.16b
        bit     v\four\().16b, v0.16b, v4.16b
.endm

.macro all_accumulators do
        \do     16, 17, 18, 19
        \do     20, 21, 22, 23
        \do     24, 25, 26, 27
        \do     28, 29, 30, 31
.endm

// ---- csr: two channels.
//
//   set    x10 C of f  x16 C of s  w0 steps left
//   step   w17 places  x12 x13 x14 x15 rows of A
//   acc    f: v16 ..  s: v24 ..     load  v0 .. A  v8 four W
//
// A step with V = 8 is 32 FMAs and 34 loads: one for its four weights, one for their places.  The rows of a step are
// found in the one before it, be it of another set; hence the places that are read beyond the last.

        .set    APART, 8

.macro find_place entry, row
        .if     \entry == 3
        lsr     w\row, w17, #24
        .else
        ubfx    w\row, w17, #8 * \entry, #8
        .endif
.endm

.macro find_row row
        madd    x\row, x\row, x6, x5
.endm

.macro find entry, row
        find_place \entry, \row
        find_row \row
.endm

// The products of an entry, whose row then becomes that of the next step, and the loads of the entry behind it.
.macro multiply acc, vector, entry, row, next
        add_product \acc, \vector, 8, \entry
        .ifnb   \next
        fetch   \vector, \vector, x\next
        .endif
        .if     \vector == 0
        find_place \entry, \row
        .endif
        .if     \vector == V / 2
        find_row \row
        .endif
.endm

.macro csr_step
        ldr     q8, [x4], #16
        ldr     w17, [x3], #4
        vectors fetch, 0, x12
        vectors multiply, 16, 0, 12, 13
        vectors multiply, 24, 1, 13, 14
        vectors multiply, 16, 2, 14, 15
        vectors multiply, 24, 3, 15
.endm

.macro csr variant
L(csr\variant):
0:      ldrh    w0, [x2, #SPMM_SET_STEPS]
        ldrh    w10, [x2, #SPMM_SET_FIRST]
        ldrh    w16, [x2, #SPMM_SET_SECOND]
        add     x2, x2, #SPMM_SET_BYTES
        add     x17, x9, x10, lsl #2
        add     x20, x9, x16, lsl #2
        madd    x10, x10, x8, x7
        madd    x16, x16, x8, x7
        cbz     x9, 1f
        ldr     s9, [x17]
        vectors from_bias, 16, 0
        ldr     s9, [x20]
        vectors from_bias, 24, 0
        b       2f
1:      vectors fetch, 16, x10
        vectors fetch, 24, x16
2:      cbz     w0, 4f
3:      csr_step
        subs    w0, w0, #1
        b.ne    3b
4:      bl      L(clamp)
        vectors store, 24, x16
        vectors store, 16, x10
        next_set csr
.endm

fn qn_spmm_f32_csr_32x2_neon
        begin
        ldr     w17, [x3], #4
        find    0, 12
        find    1, 13
        find    2, 14
        find    3, 15
        choose  csr, 8
        variants csr, 8
        end     csr

// All accumulators, of any variant; w17 and w20 are scratch.  A bound that is infinite takes no instructions.
L(clamp):
        ldr     w17, [x11, #MINMAX_MIN]
        eor     w20, w17, #0xff800000
        cbz     w20, 1f
        dup     v0.4s, w17
        all_accumulators raise
1:      ldr     w17, [x11, #MINMAX_MAX]
        eor     w20, w17, #0x7f800000
        cbz     w20, 2f
        dup     v0.4s, w17
        all_accumulators lower
2:      ret
endfn qn_spmm_f32_csr_32x2_neon

// ---- b1xN: R = 2 or 4 channels at a time, N / R times with the same index.
//
//   set    w0 steps  x10 bytes of W of a step  x12 C of the channels  x13 their biases  x14 times left
//          x3 index and x4 W of the channels when a set begins
//   step   w20 steps left  x15 index  x16 W  x17 row of A of the next step
//   acc    channel r: v(16 + APART r) ..     load  v0 .. A  v8 W of the first half of the channels  v9 of the second
//
// A step with R = 4 and V = 4, or R = 2 and V = 8, is 16 FMAs and 6 or 10 loads.  All channels of a half multiply a
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

.macro resume channel
        vectors fetch, %(16 + APART * \channel), x17
        .if     \channel + 1 - R
        add     x17, x17, x8
        .endif
.endm

.macro finish channel
        vectors store, %(16 + APART * \channel), x12
        .if     R == 4 || \channel == 0 // four more channels may follow
        add     x12, x12, x8
        .endif
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
.macro step next
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

.macro first_loads
        ldrh    w17, [x15], #2
        madd    x17, x17, x6, x5
        vectors fetch, 0, x17
        fetch_weights 8, 0
.endm

// The biases of R channels.
.macro biases
        .if     R == 4
        ldr     q9, [x13], #16
        .else
        ldr     d9, [x13]
        .endif
.endm

.macro blocks name, variant
L(\name\variant):
0:      ldrh    w0, [x2, #SPMM_SET_STEPS]
        ldrh    w12, [x2, #SPMM_SET_FIRST]
        add     x2, x2, #SPMM_SET_BYTES
        add     x13, x9, x12, lsl #2
        madd    x12, x12, x8, x7
        .if     R == 4
        lsr     x14, x10, #4
        .endif
1:      mov     x15, x3
        mov     x16, x4
        cbz     w0, 2f
        first_loads
2:      cbz     x9, 3f
        biases
        channels start
        b       4f
3:      mov     x17, x12
        channels resume
4:      subs    w20, w0, #1
        b.lo    7f
        fetch_weights 9, 1
        b.eq    6f
5:      step    1
        b.ne    5b
6:      step    0
7:      bl      L(clamp)
        channels finish
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

.macro by_two variant
        blocks  two, \variant
.endm

.macro by_four variant
        blocks  four, \variant
.endm

        .set    R, 2
        .set    APART, 8

fn qn_spmm_f32_b1x2_32x2_neon
        begin
        mov     x10, #8
        choose  two, 8
        variants by_two, 8
        end     two
endfn qn_spmm_f32_b1x2_32x2_neon

        .set    R, 4
        .set    APART, 4

fn qn_spmm_f32_b1x16_16x16_neon
        mov     x10, #64
L(four):
        begin
        choose  four, 4
        variants by_four, 4
        end     four
endfn qn_spmm_f32_b1x16_16x16_neon

fn qn_spmm_f32_b1x8_16x8_neon
        mov     x10, #32
        b       L(four)
endfn qn_spmm_f32_b1x8_16x8_neon

fn qn_spmm_f32_b1x4_16x4_neon
        mov     x10, #16
        b       L(four)
endfn qn_spmm_f32_b1x4_16x4_neon

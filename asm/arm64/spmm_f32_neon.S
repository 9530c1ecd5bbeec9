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
#include "spmm.h"

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

// ---- b1xN: spmm.h

.macro found_set
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

.macro end_set
        bl      L(clamp)
        channels finish
.endm

.macro by_two variant
        blocks  two, \variant, row
.endm

.macro by_four variant
        blocks  four, \variant, row
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

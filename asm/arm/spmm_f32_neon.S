// C[n][p] = clamp(start[n][p] + sum over the stored k of W[n][k] * A[k][p]), 16 or 8 pixels, for both levels.
// Contract: src/kernel/spmm.h
//
//   args   r0 pixels  r1 sets  r2 set  r3 index  stack: w  a  a_stride  c  c_stride  bias  p
//   keep   r5 a  r6 a_stride
//   acc    q8-q15, APART of them for each channel     load  q0-q3 A
//   weight number n (0 .. 3) of those that products take: lane n of q7; with FMA all lanes of q(4+n)
//
// There is a variant for each width: V vectors, or one pixel, which is a vector of which one lane is loaded and stored.
// Jumps at the start choose it for all sets.  V, ONE, APART, FUSED, and for blocks R are assembly variables.
//
// Instructions stand where they suit cores that run in order: a load of A overwrites vectors that the products before
// it were the last to need, and is needed itself some products later.
#include "asm.h"
#include "../offset.h"

#define W (TILE_STACK + 0)
#define A (TILE_STACK + 4)
#define A_STRIDE (TILE_STACK + 8)
#define C (TILE_STACK + 12)
#define C_STRIDE (TILE_STACK + 16)
#define BIAS (TILE_STACK + 20)
#define P (TILE_STACK + 24)

        .altmacro

.macro begin
        save_registers
        ldr     r4, [sp, #W]
        ldr     r5, [sp, #A]
        ldr     r6, [sp, #A_STRIDE]
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
        cmp     r0, #\pixels
        bhi     .L\name\variant
.endm

// Variants 0, for one pixel, to `most`.
.macro variants do, level, most
        .set    V, 1
        .set    ONE, 1
        \do     \level, 0
        .set    ONE, 0
        .rept   \most
        \do     \level, %V
        .set    V, V + 1
        .endr
.endm

// After a set: the next one, or the end.
.macro next_set
        subs    r1, r1, #1
        bne     0b
        leave
.endm

// A macro for the vectors of a row, two at a time: their numbers behind `first`, and how many are left.
.macro twos do, first, rest:vararg
        .set    v, 0
        .rept   (V + 1) / 2
        \do     %(\first + v), %(\first + v + 1), %(V - v), \rest
        .set    v, v + 2
        .endr
.endm

.macro fetch one, two, left, at
        .if     ONE
        vld1.32 {low\one[]}, [\at]!
        .elseif \left == 1
        vld1.32 {q\one}, [\at]!
        .else
        vld1.32 {q\one, q\two}, [\at]!
        .endif
.endm

.macro store one, two, left, at
        .if     ONE
        vst1.32 {low\one[0]}, [\at]!
        .elseif \left == 1
        vst1.32 {q\one}, [\at]!
        .else
        vst1.32 {q\one, q\two}, [\at]!
        .endif
.endm

// A channel begins with its bias.
.macro fetch_bias first, at
        fetch_all_lanes %(2 * \first), %(2 * \first + 1), \at
        .set    v, 1
        .rept   V - 1
        copy    %(\first + v), \first
        .set    v, v + 1
        .endr
.endm

.macro fetch_all_lanes low, high, at
        vld1.32 {d\low[], d\high[]}, [\at]!
.endm

.macro copy to, from
        vmov    q\to, q\from
.endm

// Weights for products: four or two, of the lanes of q<from>.
.macro take count, from
        .if     FUSED
        .set    n, 0
        .rept   \count
        spread  %(4 + n), %(2 * \from + n / 2), %(n - n / 2 * 2)
        .set    n, n + 1
        .endr
        .elseif \from - 7
        copy    7, \from
        .endif
.endm

.macro spread to, half, lane
        vdup.32 q\to, d\half[\lane]
.endm

.macro add_product acc, vector, weight
        .if     FUSED
        vfma_   \acc, \vector, %(4 + \weight)
        .else
        vmla_   \acc, \vector, %(14 + \weight / 2), %(\weight - \weight / 2 * 2)
        .endif
.endm

.macro vfma_ acc, vector, weight
        vfma.f32 q\acc, q\vector, q\weight
.endm

.macro vmla_ acc, vector, half, lane
        vmla.f32 q\acc, q\vector, d\half[\lane]
.endm

// All accumulators, of any variant; r0 is scratch.  A bound that is infinite takes no instructions.
.macro clamp_all level
.Lclamp_\level:
        ldr     r0, [sp, #P]
        ldr     r0, [r0, #MINMAX_MIN]
        cmn     r0, #0x00800000         // -infinity?
        beq     1f
        vdup.32 q0, r0
        rows    raise
1:      ldr     r0, [sp, #P]
        ldr     r0, [r0, #MINMAX_MAX]
        vdup.32 q1, r0
        eor     r0, r0, #0x80000000
        cmn     r0, #0x00800000
        beq     2f
        rows    lower
2:      bx      lr
.endm

// ---- csr: two channels.
//
//   set    r11 C of f  r12 C of s  r0 steps left
//   step   r4 w  lr places  r7 r8 r9 r10 rows of A
//   acc    f: q8 ..  s: q12 ..     load  q0 .. A  q7 four W
//
// A step with V = 4 is 16 products and 10 loads: 8 of two vectors of A, one of its four weights, one of their places.
// The rows of a step are found in the one before it, be it of another set; hence the places that are read beyond the
// last.

.macro find entry, row
        uxtb    \row, lr, ror #8 * \entry
        mla     \row, \row, r6, r5
.endm

// The products of an entry, whose row then becomes that of the next step, and the loads of the entry behind it.
.macro entry number, acc, row, next
        uxtb    \row, lr, ror #8 * \number
        twos    products, 0, \acc, \number, \next
        mla     \row, \row, r6, r5
.endm

.macro products one, two, left, acc, number, next
        add_product %(\acc + \one), \one, \number
        .if     \left > 1
        add_product %(\acc + \two), \two, \number
        .endif
        .ifnb   \next
        fetch   \one, \two, \left, \next
        .endif
.endm

.macro csr_step
        vld1.32 {q7}, [r4]!
        ldr     lr, [r3], #4
        twos    fetch, 0, r7
        take    4, 7
        entry   0, 8, r7, r8
        entry   1, 12, r8, r9
        entry   2, 8, r9, r10
        entry   3, 12, r10
.endm

.macro csr level, variant
.Lcsr_\level\variant:
0:      ldrh    r11, [r2, #SPMM_SET_FIRST]
        ldrh    r12, [r2, #SPMM_SET_SECOND]
        ldr     r0, [sp, #BIAS]
        cmp     r0, #0
        beq     1f
        add     lr, r0, r11, lsl #2
        fetch_bias 8, lr
        add     lr, r0, r12, lsl #2
        fetch_bias 12, lr
1:      ldr     r0, [sp, #C]
        ldr     lr, [sp, #C_STRIDE]
        mla     r11, r11, lr, r0
        mla     r12, r12, lr, r0
        bne     2f                      // there were biases
        mov     r0, r11
        twos    fetch, 8, r0
        mov     r0, r12
        twos    fetch, 12, r0
2:      ldrh    r0, [r2, #SPMM_SET_STEPS]
        add     r2, r2, #SPMM_SET_BYTES
        cmp     r0, #0
        beq     4f
3:      csr_step
        subs    r0, r0, #1
        bne     3b
4:      bl      .Lclamp_\level
        twos    store, 12, r12
        twos    store, 8, r11
        next_set
.endm

.macro csr_16x2 level
fn qn_spmm_f32_csr_16x2_\level
        begin
        ldr     lr, [r3], #4
        find    0, r7
        find    1, r8
        find    2, r9
        find    3, r10
        choose  csr_\level, 4
        variants csr, \level, 4
        clamp_all \level
endfn qn_spmm_f32_csr_16x2_\level
.endm

// ---- b1xN: R = 2 or 4 channels at a time, N / R times with the same index.
//
//   set    r7 bytes of W of a step  r8 C of the channels  r9 their biases  r10 times left
//          r3 index and r4 W of the channels when a set begins
//   step   r0 steps left  r11 index  r12 W  lr row of A of the next step
//   acc    channel r: q(8 + APART r) ..     load  q0 .. A  q2 or q6 (R = 2) W of the next step
//
// A step with R = 4 and V = 2, or R = 2 and V = 4, is 8 products and 4 loads: 2 of A, one of its weights, one of its
// place.

// A macro for each channel: its first accumulator and its number.
.macro channels do, rest:vararg
        .set    r, 0
        .rept   R
        \do     %(8 + APART * r), %r, \rest
        .set    r, r + 1
        .endr
.endm

.macro from_bias acc, channel, none
        fetch_bias \acc, r9
.endm

// At `at` lies C; r0 is the distance from the end of a row to the next, to which the last row goes on if `more`.
.macro move acc, channel, do, at, more
        twos    \do, \acc, \at
        .if     \more || \channel < R - 1
        add     \at, \at, r0
        .endif
.endm

.macro find_distance
        ldr     r0, [sp, #C_STRIDE]
        .if     ONE
        sub     r0, r0, #4
        .else
        sub     r0, r0, #16 * V
        .endif
.endm

.macro fetch_weights
        .if     R == 4
        vld1.32 {q2}, [r12], r7
        .else
        vld1.32 {d12}, [r12], r7
        .endif
.endm

.macro find_row
        mla     lr, lr, r6, r5
.endm

// The products of one vector.
.macro column vector
        .set    r, 0
        .rept   R
        add_product %(8 + APART * r + \vector), \vector, %r
        .set    r, r + 1
        .endr
.endm

// A vector's load in the next step stands behind its products in this one: with R = 2 two vectors share a load.
.macro two_columns one, two, left, next
        column  \one
        .if     \left == 1 || R == 4
        fetch_next \one, \two, 1, \next
        .endif
        .if     \left > 1
        column  \two
        .if     R == 4
        fetch_next \two, \one, 1, \next
        .else
        fetch_next \one, \two, 2, \next
        .endif
        .endif
.endm

.macro fetch_next one, two, left, next
        .if     \next
        fetch   \one, \two, \left, lr
        .endif
.endm

// Also the loads of the next step, if there is one, and the place of that behind it.
.macro step next
        .if     R == 4
        take    4, 2
        .else
        take    2, 6
        .endif
        .if     \next
        fetch_weights
        find_row
        .endif
        twos    two_columns, 0, \next
        .if     \next
        ldrh    lr, [r11], #2
        subs    r0, r0, #1
        .endif
.endm

.macro blocks name, level, variant
.L\name\()_\level\variant:
0:      ldrh    lr, [r2, #SPMM_SET_FIRST]
        ldr     r0, [sp, #C_STRIDE]
        ldr     r8, [sp, #C]
        ldr     r9, [sp, #BIAS]
        mla     r8, lr, r0, r8
        add     r9, r9, lr, lsl #2
        .if     R == 4
        lsr     r10, r7, #4
        .endif
1:      mov     r11, r3
        mov     r12, r4
        ldr     r0, [sp, #BIAS]
        cmp     r0, #0
        beq     2f
        channels from_bias
        b       3f
2:      find_distance
        mov     lr, r8
        channels move, fetch, lr, 0
3:      ldrh    r0, [r2, #SPMM_SET_STEPS]
        cmp     r0, #0
        beq     7f
        ldrh    lr, [r11], #2
        fetch_weights
        find_row
        twos    fetch, 0, lr
        ldrh    lr, [r11], #2
        subs    r0, r0, #1
        beq     6f
5:      step    1
        bne     5b
6:      step    0
        sub     r11, r11, #2            // what was read ahead
7:      bl      .Lclamp_\level
        find_distance
        channels move, store, r8, %(R - 2)
        .if     R == 4
        add     r4, r4, #16
        subs    r10, r10, #1
        bne     1b
        sub     r4, r12, r7
        add     r4, r4, #16
        .else
        mov     r4, r12
        .endif
        mov     r3, r11
        add     r2, r2, #SPMM_SET_BYTES
        next_set
.endm

.macro by_two level, variant
        blocks  two, \level, \variant
.endm

.macro by_four level, variant
        blocks  four, \level, \variant
.endm

.macro blocks_16x2 level
fn qn_spmm_f32_b1x2_16x2_\level
        begin
        mov     r7, #8
        choose  two_\level, 4
        variants by_two, \level, 4
endfn qn_spmm_f32_b1x2_16x2_\level
.endm

.macro blocks_8x4 level
fn qn_spmm_f32_b1x16_8x16_\level
        mov     r12, #64
.Lfour_\level:
        begin
        mov     r7, r12
        choose  four_\level, 2
        variants by_four, \level, 2
endfn qn_spmm_f32_b1x16_8x16_\level

fn qn_spmm_f32_b1x8_8x8_\level
        mov     r12, #32
        b       .Lfour_\level
endfn qn_spmm_f32_b1x8_8x8_\level

fn qn_spmm_f32_b1x4_8x4_\level
        mov     r12, #16
        b       .Lfour_\level
endfn qn_spmm_f32_b1x4_8x4_\level
.endm

// ---- The rows.

.macro all level
        .set    APART, 4
        csr_16x2 \level
        .set    R, 2
        blocks_16x2 \level
        .set    R, 4
        .set    APART, 2
        blocks_8x4 \level
.endm

        .set    FUSED, 0
        all     neon
        .set    FUSED, 1
        .fpu    neon-vfpv4
        all     neonfma

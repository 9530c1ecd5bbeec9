// C[n][p] = requantize(start[n][p] + sum over the stored k of W[n][k] * A[k][p]) of bytes, 16 pixels, or the bare sums,
// with dot products.  Contract: src/kernel/spmm.h
//
//   args   x0 pixels  x1 sets  x2 set  x3 index  x4 w  x5 a  x6 a_stride  x7 c  [sp] c_stride  bias  p
//   code   spmm.h     keep  x8 c_stride  x9 biases or 0  x11 p or 0  x19 return address  x25 scales
//   set    x21 its scales
//   ends   v10 what to subtract  v11 min  v12 max, as bytes  v13 1.5 * 2^23: requantize.h     v14 the order of bytes
//   acc    channel r: v(16 + 4 r) ..
//
// Sets are computed four channels at a time, N / 4 times with the same index.  Blocks of four inputs differ from those
// of floats in the product alone: a word is four bytes.
#include "dot.h"
#include "requantize.h"
#include "spmm.h"

        .set    R, 4
        .set    APART, 4

.macro add_product acc, vector, weights, lane
        mac     \acc, \vector, \weights, \lane
.endm

.macro begin_bytes
        begin
        save    x21, x22
        save    x23, x24
        save    x25, x26
        save    d10, d11
        save    d12, d13
        save    d14, d15
        add     x25, x11, #REQUANTIZE_SCALES
        cbz     x11, 1f
        load_zero_and_bounds 10, 11, 12, 13, x11
        mov     x16, #0x0400            // 0 4 8 12, 1 5 9 13, 2 6 10 14, 3 7 11 15
        movk    x16, #0x0c08, lsl #16
        movk    x16, #0x0501, lsl #32
        movk    x16, #0x0d09, lsl #48
        mov     x17, #0x0202020202020202
        add     x17, x17, x16
        fmov    d14, x16
        mov     v14.d[1], x17
1:
.endm

.macro restore_bytes
        restore d14, d15
        restore d12, d13
        restore d10, d11
        restore x25, x26
        restore x23, x24
        restore x21, x22
.endm

.macro found_set
        add     x21, x25, x12, lsl #2
.endm

// Loads or stores the sums of a channel, of which there are V vectors.
.macro move do, at, a, b, c, d
        .if     ONE
        \do     {v\a\().s}[0], [\at], x8
        .elseif V == 1
        \do     {v\a\().4s}, [\at], x8
        .elseif V == 2
        \do     {v\a\().4s, v\b\().4s}, [\at], x8
        .elseif V == 3
        \do     {v\a\().4s, v\b\().4s, v\c\().4s}, [\at], x8
        .else
        \do     {v\a\().4s, v\b\().4s, v\c\().4s, v\d\().4s}, [\at], x8
        .endif
.endm

.macro move_channel do, at, channel
        move    \do, \at, %(16 + 4 * \channel), %(17 + 4 * \channel), %(18 + 4 * \channel), %(19 + 4 * \channel)
.endm

.macro resume channel
        move_channel ld1, x17, \channel
.endm

.macro put channel
        move_channel st1, x12, \channel
.endm

.macro end_set
        cbnz    x11, 8f
        channels put
        b       9f
8:      bl      L(bytes)
        vectors store, 16, x12
        add     x12, x12, x8, lsl #2
9:
.endm

// The vectors of all channels, of any variant.
.macro each_channel do, vector
        \do     %(16 + \vector), 0
        \do     %(20 + \vector), 1
        \do     %(24 + \vector), 2
        \do     %(28 + \vector), 3
.endm

.macro each_sum do
        .irp    vector, 0, 1, 2, 3
        each_channel \do, \vector
        .endr
.endm

.macro to_float acc, channel
        scvtf   v\acc\().4s, v\acc\().4s
.endm

.macro scale acc, channel
        fmul    v\acc\().4s, v\acc\().4s, v0.s[\channel]
.endm

.macro round acc, channel
        fadd    v\acc\().4s, v\acc\().4s, v13.4s
.endm

.macro to_integer acc, channel
        sqsub   v\acc\().4s, v\acc\().4s, v10.4s
.endm

// A vector of each channel: the channels of a pixel together.
.macro to_bytes a, b, c, d
        sqxtn   v\a\().4h, v\a\().4s
        sqxtn   v\c\().4h, v\c\().4s
        sqxtn2  v\a\().8h, v\b\().4s
        sqxtn2  v\c\().8h, v\d\().4s
        sqxtn   v\a\().8b, v\a\().8h
        sqxtn2  v\a\().16b, v\c\().8h
        smax    v\a\().16b, v\a\().16b, v11.16b
        smin    v\a\().16b, v\a\().16b, v12.16b
        tbl     v\a\().16b, {v\a\().16b}, v14.16b
.endm

// ---- b4xN: spmm.h

.macro rows variant
        blocks  rows, \variant, row
.endm

fn qn_spmm_qs8c_b4x16_16x16_dotprod
        mov     x10, #64
L(rows):
        begin_bytes
        choose  rows, 4
        variants rows, 4
        end     rows, restore_bytes

// Ends all accumulators: v16-v19 are bytes then.
L(bytes):
        ldr     q0, [x21], #16
        each_sum to_float
        each_sum scale
        each_sum round
        each_sum to_integer
        .irp    vector, 0, 1, 2, 3
        to_bytes %(16 + \vector), %(20 + \vector), %(24 + \vector), %(28 + \vector)
        .endr
        ret
endfn qn_spmm_qs8c_b4x16_16x16_dotprod

fn qn_spmm_qs8c_b4x8_16x8_dotprod
        mov     x10, #32
        b       L(rows)
endfn qn_spmm_qs8c_b4x8_16x8_dotprod

fn qn_spmm_qs8c_b4x4_16x4_dotprod
        mov     x10, #16
        b       L(rows)
endfn qn_spmm_qs8c_b4x4_16x4_dotprod

// ---- b1xN: a step is four rows of 16 bytes, or of one.
//
//   step   x17 x22 x23 x24 rows of A of the next step
//   load   v4-v7 rows  v8 W     joined: v0-v3 four bytes of each pixel  v9 v15 pairs of bytes of the first two rows
//
// A step with V = 4 is 16 dot products, 8 that join and 9 loads.  The rows of the next step are found between products.

// Finds one of the four rows: part 0 reads the index, part 1 computes the address, part 2 loads.
.macro find part, entry, row, to
        .if     \part == 0
        ldrh    w\row, [x15], #2
        .elseif \part == 1
        madd    x\row, x\row, x6, x5
        .elseif ONE
        ldr     b\to, [x\row]
        .else
        ldr     q\to, [x\row]
        .endif
.endm

.macro find_rows part
        find    \part, 0, 17, 4
        find    \part, 1, 22, 5
        find    \part, 2, 23, 6
        find    \part, 3, 24, 7
.endm

// Number 0 .. 11 of these twelve instructions, in the same order.
.macro find_next number
        .if     \number % 4
        find    %(\number / 4), %(\number % 4), %(21 + \number % 4), %(4 + \number % 4)
        .else
        find    %(\number / 4), 0, 17, 4
        .endif
.endm

.macro joined_loads
        find_rows 0
        find_rows 1
        find_rows 2
        ldr     q8, [x16]
.endm

.macro join
        zip1    v9.16b, v4.16b, v5.16b
        zip1    v1.16b, v6.16b, v7.16b
        .if     V > 2
        zip2    v15.16b, v4.16b, v5.16b
        zip2    v3.16b, v6.16b, v7.16b
        .endif
        zip1    v0.8h, v9.8h, v1.8h
        .if     V > 1
        zip2    v1.8h, v9.8h, v1.8h
        .endif
        .if     V > 2
        zip1    v2.8h, v15.8h, v3.8h
        .endif
        .if     V > 3
        zip2    v3.8h, v15.8h, v3.8h
        .endif
.endm

.macro find_some next
        .if     \next
        .if     number < 12
        find_next %number
        .endif
        .endif
        .set    number, number + 1
.endm

.macro joined_step next
        join
        add     x16, x16, x10
        .set    number, 0
        .rept   4 * V
        add_product %(16 + 4 * (number % 4) + number / 4), %(number / 4), 8, %(number % 4)
        find_some \next
        .endr
        .if     \next
        .rept   12
        find_some 1
        .endr
        ldr     q8, [x16]
        subs    w20, w20, #1
        .endif
.endm

.macro joined_steps
        subs    w20, w0, #1
        b.lo    7f
        b.eq    6f
5:      joined_step 1
        b.ne    5b
6:      joined_step 0
7:
.endm

.macro joined variant
        blocks  joined, \variant, joined
.endm

fn qn_spmm_qs8c_b1x16_16x16_dotprod
        mov     x10, #64
L(joined):
        begin_bytes
        choose  joined, 4
        variants joined, 4
        end     joined, restore_bytes
endfn qn_spmm_qs8c_b1x16_16x16_dotprod

fn qn_spmm_qs8c_b1x8_16x8_dotprod
        mov     x10, #32
        b       L(joined)
endfn qn_spmm_qs8c_b1x8_16x8_dotprod

fn qn_spmm_qs8c_b1x4_16x4_dotprod
        mov     x10, #16
        b       L(joined)
endfn qn_spmm_qs8c_b1x4_16x4_dotprod

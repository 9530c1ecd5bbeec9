// C[x][c] = requantize(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]) of bytes, 2 pixels x 16 channels.
// Contract: src/kernel/dwconv.h
//
//   args   r0 channels  r1 pixels  r2 taps  r3 offsets  stack: step a zero w c c_stride p
//   panel  r8 a at its channels  r5 taps that go alone  r6 pairs of taps, after them
//          channels left, W, C, p and zero - a on the stack
//   part   of a panel: r5 the first of its channels; all taps go alone
//   tile   r0 pixels left  r1 C of the next one  r7 W  r2 taps or pairs left  lr scratch
//   pixels r3 r4, of offsets    r9-r12 offsets and rows of A, then r9 of C
//   acc    q8-q11 one pixel, q12-q15 the other
//   load   q0 q1 of A  q2 q3 of W    prod  q4 q5 one pixel, q6 q7 the other, 16 bits each
//   then   see requantize.h, and q4-q7 scales
//
// Two products fit 16 bits if no weight is -128.  So two taps are 8 products, of which vmlal adds the second half to
// the first, and 8 sums, with 5 loads of vectors and 2 of offsets.  A tap that is left over goes alone, and all of them
// do if a weight of the panel is -128: 4 products and 8 sums each.
//
// The sums of a step are made while the next one loads, because a core that executes in order would wait for these
// loads.  A pixel behind the last one is that one again.  Of a panel with fewer than 16 channels 8 go together, then
// one at a time.
#include "requantize.h"

// What the stack holds.
#define CHANNELS 64
#define PIXELS 68
#define TAPS 72
#define OFFSETS 76
#define TABLE 112                       // offsets of the tile's first pixel
#define STEP 120
#define A 124
#define ZERO 128                        // then zero - a
#define W 132
#define C 136
#define C_STRIDE 140
#define P 144

#define NR 16

// Bytes of one row, 16, 8 or 1.
.macro load_bytes q, d, address
        .if     AT_ONCE == 16
        vld1.8  {q\q}, [\address]
        .elseif AT_ONCE == 8
        vld1.8  {d\d}, [\address]
        .else
        vld1.8  {d\d[]}, [\address]
        .endif
.endm

// As many words, biases or scales.  Eight are the first of a panel, a single one may be any.
.macro load_words first, second, third, fourth, low, high, address
        .if     AT_ONCE == 16
        vld1.32 {q\first, q\second}, [\address]!
        vld1.32 {q\third, q\fourth}, [\address]!
        .elseif AT_ONCE == 8
        vld1.32 {q\first, q\second}, [\address]
        .else
        add     \address, \address, r5, lsl #2
        vld1.32 {d\low[], d\high[]}, [\address]
        .endif
.endm

// The sums that AT_ONCE channels have, those of one pixel and of the other at a time, as requantize.h takes rows.
.macro each_sum do
        \do     0, none, 8, 12
        .if     AT_ONCE >= 8
        \do     0, none, 9, 13
        .endif
        .if     AT_ONCE == 16
        \do     0, none, 10, 14
        \do     0, none, 11, 15
        .endif
.endm
.macro begin m, address, one, other
        vmov    q\other, q\one
.endm

// A tap.  \meanwhile and \then are what to do until its vectors have come.
.macro tap meanwhile, then
        ldr     r9, [r3], #4
        ldr     r10, [r4], #4
        load_bytes 2, 4, r7
        add     r7, r7, #NR
        \meanwhile
        find_rows 7f, r8, r9, r10
        load_bytes 0, 0, r9
        load_bytes 1, 2, r10
        \then
        vmull.s8 q4, d0, d4
        vmull.s8 q6, d2, d4
        .if     AT_ONCE == 16
        vmull.s8 q5, d1, d5
        vmull.s8 q7, d3, d5
        .endif
.endm
.macro nothing
.endm

// Two taps, 16 channels.
.macro two_taps
        ldm     r3!, {r9, r10}
        ldm     r4!, {r11, r12}
        vld1.8  {q2, q3}, [r7:128]!
        find_rows 7f, r8, r9, r10, r11, r12
        vld1.8  {q0}, [r9]
        vld1.8  {q1}, [r10]
        add_first
        vmull.s8 q4, d0, d4
        vmull.s8 q5, d1, d5
        vld1.8  {q0}, [r11]
        vmlal.s8 q4, d2, d6
        vmlal.s8 q5, d3, d7
        vld1.8  {q1}, [r12]
        add_second
        vmull.s8 q6, d0, d4
        vmull.s8 q7, d1, d5
        vmlal.s8 q6, d2, d6
        vmlal.s8 q7, d3, d7
.endm

// The products of a pixel to its sums.
.macro add_first
        vaddw.s16 q8, q8, d8
        .if     AT_ONCE >= 8
        vaddw.s16 q9, q9, d9
        .endif
        .if     AT_ONCE == 16
        vaddw.s16 q10, q10, d10
        vaddw.s16 q11, q11, d11
        .endif
.endm
.macro add_second
        vaddw.s16 q12, q12, d12
        .if     AT_ONCE >= 8
        vaddw.s16 q13, q13, d13
        .endif
        .if     AT_ONCE == 16
        vaddw.s16 q14, q14, d14
        vaddw.s16 q15, q15, d15
        .endif
.endm

.macro scale one, other, by
        vmul.f32 q\one, q\one, q\by
        vmul.f32 q\other, q\other, q\by
.endm

.macro to_bytes
        each_sum convert
        scale   8, 12, 4
        .if     AT_ONCE >= 8
        scale   9, 13, 5
        .endif
        .if     AT_ONCE == 16
        scale   10, 14, 6
        scale   11, 15, 7
        .endif
        each_sum round
        each_sum add_zero
        .if     AT_ONCE == 16
        rows    narrow
        pairs   narrow_more
        .else
        vqmovn.s32 d16, q8
        vqmovn.s32 d24, q12
        .if     AT_ONCE == 8
        vqmovn.s32 d17, q9
        vqmovn.s32 d25, q13
        .endif
        vqmovn.s16 d16, q8
        vqmovn.s16 d24, q12
        .endif
        pairs   clamp_qs8c
.endm

.macro store q, d, address
        .if     AT_ONCE == 16
        vst1.8  {q\q}, [\address]
        .elseif AT_ONCE == 8
        vst1.8  {d\d}, [\address]
        .else
        vst1.8  {d\d[0]}, [\address]
        .endif
.endm

// Finds out how the taps of a panel go, from the least of the weights.
.macro count_pairs
        ldr     r7, [sp, #W]
        ldr     r5, [sp, #TAPS]
        add     r7, r7, #(4 * NR)
        mov     r2, r5
        vmov.i8 q0, #0
        vmov.i8 q2, #0x80
1:      vld1.8  {q1}, [r7:128]!
        subs    r2, r2, #1
        vmin.s8 q0, q0, q1
        bne     1b
        vceq.i8 q0, q0, q2
        vorr    d0, d0, d1
        vmov    r9, r10, d0
        orrs    r9, r9, r10
        movne   r6, #0
        lsreq   r6, r5, #1
        andeq   r5, r5, #1
.endm

// All pixels of some channels, two pixels at a time.
.macro tiles channels
        .set    AT_ONCE, \channels
        ldr     r0, [sp, #PIXELS]
        ldr     r1, [sp, #C]
        ldr     r3, [sp, #OFFSETS]
1:      str     r3, [sp, #TABLE]
        ldr     r12, [sp, #STEP]
        mov     r4, r3
        cmp     r0, #2
        addhs   r4, r3, r12
        ldr     r7, [sp, #W]
        .if     AT_ONCE == 16
        load_words 8, 9, 10, 11, 16, 17, r7
        .else
        mov     lr, r7
        load_words 8, 9, 10, 11, 16, 17, lr
        add     r7, r7, #(4 * NR)
        .if     AT_ONCE == 1
        add     r7, r7, r5
        .endif
        .endif
        each_sum begin

        .if     AT_ONCE == 16
        movs    r2, r5
        beq     4f                      // all taps go in pairs
        .else
        ldr     r2, [sp, #TAPS]
        .endif
        tap     nothing, nothing
        subs    r2, r2, #1
        beq     3f
2:      tap     add_first, add_second
        subs    r2, r2, #1
        bne     2b
3:      .if     AT_ONCE == 16
        movs    r2, r6
        beq     6f
        b       5f
4:      mov     r2, r6
        .irp    product, 4, 5, 6, 7
        vmov.i32 q\product, #0
        .endr
5:      two_taps
        subs    r2, r2, #1
        bne     5b
        .endif
6:      add_first
        add_second

        ldr     lr, [sp, #P]
        load_requantize lr
        load_words 4, 5, 6, 7, 8, 9, lr
        to_bytes
        ldr     r11, [sp, #C_STRIDE]
        mov     r9, r1
        cmp     r0, #2
        addhs   r9, r9, r11
        store   8, 16, r1
        store   12, 24, r9
        add     r1, r1, r11, lsl #1
        ldr     r3, [sp, #TABLE]
        .if     AT_ONCE == 16           // pairs of taps need its register
        ldr     r12, [sp, #STEP]
        .endif
        add     r3, r3, r12, lsl #1
        subs    r0, r0, #2
        bhi     1b
.endm

// On to other channels.
.macro next channels
        ldr     r10, [sp, #C]
        ldr     r9, [sp, #CHANNELS]
        add     r8, r8, #\channels
        add     r10, r10, #\channels
        str     r10, [sp, #C]
        subs    r9, r9, #\channels
        str     r9, [sp, #CHANNELS]
.endm

fn qn_dwconv_qs8c_np16_neon
        save    r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr
        vsave   d8, d9, d10, d11, d12, d13, d14, d15
        ldr     r8, [sp, #A]
        ldr     lr, [sp, #ZERO]
        sub     lr, lr, r8
        str     lr, [sp, #ZERO]
        mov     r9, r0

0:      cmp     r9, #16
        blo     8f
        count_pairs
        tiles   16
        str     r7, [sp, #W]            // behind the panel
        str     lr, [sp, #P]            // and its scales
        next    16
        bne     0b
        b       10f
8:      mov     r5, #0
        cmp     r9, #8
        blo     9f
        tiles   8
        mov     r5, #8
        next    8
        beq     10f
9:      tiles   1
        add     r5, r5, #1
        next    1
        bne     9b
10:     vpop    {d8-d15}
        add     sp, sp, #16
        pop     {r4-r12, pc}
7:      choose_zeros ZERO, r9, r10, r11, r12
endfn qn_dwconv_qs8c_np16_neon

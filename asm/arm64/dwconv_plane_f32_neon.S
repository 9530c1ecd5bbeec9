// C[p] = clamp(bias + sum over taps t of A(p, t) * W[t]), the pixels of one channel in blocks of 32.
// Contract: src/kernel/dwconv.h
#include "asm.h"
#include "../offset.h"

        .altmacro

// v30 min, v31 max; low, high: 0 where nothing is below min, above max.
.macro limits at, low, high
        ldp     \low, \high, [\at]
        dup     v30.4s, \low
        dup     v31.4s, \high
        eor     \low, \low, #0xff800000 // -infinity
        eor     \high, \high, #0x7f800000
.endm

// V vectors from v(first) on.  v26-v29 masks
.macro clamp first, V, low, high
        cbz     \low, 7f
        each    \first, \V, below_min
        each    \first, \V, put_min
7:      cbz     \high, 7f
        each    \first, \V, above_max
        each    \first, \V, put_max
7:
.endm

.macro each first, V, do
        .set    v, 0
        .rept   \V
        \do     %(v + \first), %(v + 26)
        .set    v, v + 1
        .endr
.endm

// Vectors start from the bias.
.macro start acc, none
        mov     v\acc\().16b, v25.16b
.endm

.macro product acc, in, w, lane
        fmla    v\acc\().4s, v\in\().4s, v\w\().s[\lane]
.endm

// ---- 3x3, columns one pixel apart: four vectors of pixels at a time
//
//   args   x0 pixels left  x4 masks of column 0  x5 of column 2  x7 w
//   A      x9 x10 x11: three rows, at column 1     w16 w17 w12 which taps of columns 0, 2 and both count  w1 all
//   C      x8  x13 to the next four vectors  x14 c_stride
//   acc    v0-v3     load  v4-v7, v16-v19 of the next tap     W  v20 v21 v22, tap by tap  v25 bias
//   taps   v26-v29 which of a column count  v23 v24 their bits     clamp  v26-v31 w2 w15
//
// 36 FMAs and 36 loads, of which 24 are not aligned; shifting columns into place instead would occupy the units that
// multiply.  At the edges of the image another 36 instructions clear what does not count.

// The vectors of tap t, in v(to) ..
.macro place_tap t
        .set    to, 4 + (\t - \t / 2 * 2) * 12
.endm

.macro load_tap V, t
        .if     \t < 9
        place_tap \t
        .set    v, 0
        .rept   \V
        load_row %(9 + \t - \t / 3 * 3), %(to + v), %(4 * (\t / 3) - 4 + 16 * v)
        .set    v, v + 1
        .endr
        .endif
.endm

.macro load_row row, to, at
        ldur    q\to, [x\row, #\at]
.endm

.macro keep in, mask
        and     v\in\().16b, v\in\().16b, v\mask\().16b
.endm

// Before column 0 or 2: its masks.
.macro masks V, w
        dup     v26.4s, \w
        .if     \V > 1
        ushr    v28.4s, v26.4s, #8
        cmtst   v27.4s, v26.4s, v24.4s
        cmtst   v29.4s, v28.4s, v24.4s
        cmtst   v28.4s, v28.4s, v23.4s
        .endif
        cmtst   v26.4s, v26.4s, v23.4s
.endm

.macro tap V, masked, t
        .if     \masked * (\t == 0)
        masks   \V, w16
        .elseif \masked * (\t == 6)
        masks   \V, w17
        .endif
        place_tap \t
        .set    v, 0
        .rept   \V
        .if     \masked * (\t / 3 - 1)
        keep    %(to + v), %(26 + v)
        .endif
        product %v, %(to + v), %(20 + \t / 4), %(\t - \t / 4 * 4)
        .set    v, v + 1
        .endr
        load_tap \V, %(\t + 2)
.endm

.macro sum V, masked
        load_tap \V, 0
        load_tap \V, 1
        each    0, \V, start
        .set    t, 0
        .rept   9
        tap     \V, \masked, %t
        .set    t, t + 1
        .endr
.endm

.macro next vectors
        add     x9, x9, #(16 * \vectors)
        add     x10, x10, #(16 * \vectors)
        add     x11, x11, #(16 * \vectors)
.endm

fn qn_dwconv_f32_plane32_k3_neon
        add     x5, x4, x5, lsl #1
        ldp     x8, x14, [sp]
        ldr     x16, [sp, #16]
        limits  x16, w2, w15
        ldp     w9, w10, [x3, #12]
        ldr     w11, [x3, #20]
        add     x9, x6, w9, sxtw
        add     x10, x6, w10, sxtw
        add     x11, x6, w11, sxtw
        ld1r    {v25.4s}, [x7]
        ldur    q20, [x7, #4]
        ldur    q21, [x7, #20]
        ldr     s22, [x7, #36]
        mov     w16, #0x0201
        movk    w16, #0x0804, lsl #16
        fmov    s23, w16                // 1, 2, 4, 8
        ushll   v23.8h, v23.8b, #0
        ushll   v23.4s, v23.4h, #0
        shl     v24.4s, v23.4s, #4
        mov     w1, #0xffff
        mov     x13, #64

0:      ldrh    w16, [x4], #2
        ldrh    w17, [x5], #2
        cmp     x0, #12
        b.ls    3f
        and     w12, w16, w17
        cmp     w12, w1
        b.ne    2f
        sum     4, 0
1:      clamp   0, 4, w2, w15
        stp     q0, q1, [x8]
        stp     q2, q3, [x8, #32]
        subs    x0, x0, #16
        b.ls    4f
        next    4
        add     x8, x8, x13             // in the block, or to another one
        sub     x13, x14, x13
        b       0b
2:      sum     4, 1
        b       1b
3:      sum     1, 1                    // the last vectors, one by one
        clamp   0, 1, w2, w15
        str     q0, [x8], #16
        next    1
        lsr     w16, w16, #4
        lsr     w17, w17, #4
        subs    x0, x0, #4
        b.hi    3b
4:      ret
endfn qn_dwconv_f32_plane32_k3_neon

// ---- any kernel: V = 8 vectors of pixels at a time, or the last 4
//
//   args   x0 pixels left  x1 kernel_h  x2 kernel_w  x3 offsets  x4 masks  x5 mask_stride  x6 a  x7 w, behind the bias
//   column x9 its masks  w10 columns left     w11 which pixels count  w12 bit 4v: all of vector v
//   tap    x13 its offset  x14 its weight  w15 rows left  x16 A     x17 scratch     C  x8  x19 c_stride
//   acc    v0-v7     load  v16-v23 A  v24 W  v25 bias     clamp  v26-v31 w20 w21
//
// A tap of a column in which all pixels count is 8 FMAs and 10 loads.

.macro next_tap
        ldrsw   x16, [x13], #4
        ldr     s24, [x14], #4
        add     x16, x6, x16
.endm

.macro load in, none
        ldr     q\in, [x16, #(16 * (\in - 16))]
.endm

.macro multiply acc, none
        product \acc, %(\acc + 16), 24, 0
.endm

// Vector v, of which no pixel is read that does not count.
.macro multiply_some v, none
        tbnz    w12, #(4 * \v), 8f
        movi    v16.4s, #0
        .set    i, 0
        .rept   4
        lane    %(4 * \v + i), %i
        .set    i, i + 1
        .endr
        b       9f
8:      ldr     q16, [x16, #(16 * \v)]
9:      product \v, 16, 24, 0
.endm

.macro lane pixel, i
        tbz     w11, #\pixel, 7f
        add     x17, x16, #(4 * \pixel)
        ld1     {v16.s}[\i], [x17]
7:
.endm

.macro store_vector acc, none
        .if     \acc > VECTORS - 4
        cmp     x0, #(4 * \acc)
        b.ls    L(any_end)
        .endif
        str     q\acc, [x8, #(16 * \acc)]
.endm

.macro pixels V, mask
        .set    VECTORS, \V
        each    0, \V, start
        mov     x9, x4
        mov     w10, w2
        mov     x13, x3
        mov     x14, x7
1:      ldr\mask w11, [x9]
        add     x9, x9, x5
        mov     w15, w1
        and     w12, w11, w11, lsr #1
        and     w12, w12, w12, lsr #2
        mov     w17, #(0xffffffff >> (32 - 4 * \V))
        cmp     w11, w17
        b.ne    3f
2:      next_tap                        // all pixels of the column count
        each    16, \V, load
        each    0, \V, multiply
        subs    w15, w15, #1
        b.ne    2b
        b       4f
3:      next_tap                        // not all
        each    0, \V, multiply_some
        subs    w15, w15, #1
        b.ne    3b
4:      subs    w10, w10, #1
        b.ne    1b
        clamp   0, 4, w20, w21
        .if     \V > 4
        clamp   4, 4, w20, w21
        .endif
        each    0, \V, store_vector
.endm

fn qn_dwconv_f32_plane32_neon
        ldp     x8, x16, [sp]
        ldr     x17, [sp, #16]
        save    x19, x20
        save    x21, x22
        mov     x19, x16
        limits  x17, w20, w21
        ld1r    {v25.4s}, [x7], #4
0:      cmp     x0, #16
        b.ls    5f
        pixels  8
        subs    x0, x0, #32
        b.ls    L(any_end)
        add     x4, x4, #4
        add     x6, x6, #128
        add     x8, x8, x19
        b       0b
5:      pixels  4, h
L(any_end):
        restore x21, x22
        restore x19, x20
        ret
endfn qn_dwconv_f32_plane32_neon

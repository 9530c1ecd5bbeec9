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

// V vectors from v(first) on; masks from v(masks) on.
.macro clamp first, V, low, high, masks
        raise   \first, \V, \low, \masks
        cbz     \high, 7f
        each    \first, \V, above_max, \masks
        each    \first, \V, put_max, \masks
7:
.endm

.macro raise first, V, low, masks
        cbz     \low, 7f
        each    \first, \V, below_min, \masks
        each    \first, \V, put_min, \masks
7:
.endm

.macro each first, V, do, others=0
        .set    v, 0
        .rept   \V
        \do     %(v + \first), %(v + \others)
        .set    v, v + 1
        .endr
.endm

.macro product acc, in, w, lane
        fmla    v\acc\().4s, v\in\().4s, v\w\().s[\lane]
.endm

// ---- 3x3, columns one pixel apart: 8 or 4 vectors of pixels at a time, the last ones one by one
//
//   args   x0 pixels left  x4 masks of column 0  x5 of column 2
//   A      x9 x10 x11: three rows, at column 1     w16 w17 which taps of columns 0 and 2 count
//   C      x8  x13 to the next four vectors  x14 c_stride
//   acc    v0-v7     load  v16-v23 in turn     W  v24 v25 v26, which ends with the bias
//   taps   v4-v7 which of a column count  v28 v29 their bits     clamp  v30 v31 w7 w15, masks v16-v23
//   many   x6: where more pixels are left and all taps count, eight vectors are taken
//
// A vector of pixels is 9 products and as many loads, of which 6 are not aligned; shifting columns into place instead
// would occupy the units that multiply.  At the edges of the image more instructions clear what does not count.
//
// For cores that issue in order inputs come in halves, as in dwconv_tile_inorder.h: ldr x beside a product; behind it
// ldr d and, of the vector before the last one, ins, which share a cycle.  The last vectors they share with other cores.

// Product number i is that of a tap and a vector, the vectors of a tap one after the other.
.macro find_product i
        .set    tap, (\i) / VECTORS
        .set    vector, (\i) - tap * VECTORS
        .set    row, 9 + tap - tap / 3 * 3
        .set    at, 4 * (tap / 3) - 4 + 16 * vector
        .set    in, 16 + (\i) - (\i) / 8 * 8
        .set    high, 1 + (\i) - (\i) / 3 * 3
.endm

.macro load_whole in, row, at
        ldur    q\in, [x\row, #\at]
.endm

.macro load_halves in, row, at, high
        ldur    x\high, [x\row, #(\at + 8)]
        ldur    d\in, [x\row, #\at]
.endm

.macro insert in, high
        ins     v\in\().d[1], x\high
.endm

// Vectors start from the bias; a load of it leaves the units that multiply alone.
.macro start acc
        .if     IN_ORDER
        dup     v\acc\().4s, v26.s[1]
        .else
        ldr     q\acc, [sp]
        .endif
.endm

// What follows product i, which may be -8; when all is loaded, the next pixels are looked for.
.macro load_ahead i
        .set    coming, \i + 8
        .if     coming < VECTORS
        start   %coming
        .endif
        .if     coming < 9 * VECTORS
        find_product %coming
        .if     IN_ORDER
        load_halves %in, %row, %at, %high
        .else
        load_whole %in, %row, %at
        .endif
        .elseif coming < 9 * VECTORS + 3
        next_row %(9 + coming - 9 * VECTORS)
        .endif
        .if     IN_ORDER * (coming >= 2) * (coming < 9 * VECTORS + 2)
        find_product %(coming - 2)
        insert  %in, %high
        .endif
.endm

.macro next_row row
        add     x\row, x\row, #(16 * VECTORS)
.endm

// Step k of the masks of a column.
.macro find_masks k, w
        .if     \k == 0
        dup     v4.4s, \w
        .elseif \k == VECTORS + 1
        cmtst   v4.4s, v4.4s, v28.4s
        .elseif VECTORS == 4
        .if     \k == 1
        ushr    v6.4s, v4.4s, #8
        .elseif \k == 2
        cmtst   v5.4s, v4.4s, v29.4s
        .elseif \k == 3
        cmtst   v7.4s, v6.4s, v29.4s
        .elseif \k == 4
        cmtst   v6.4s, v6.4s, v28.4s
        .endif
        .endif
.endm

// Behind product i the inputs of product i + 2 become 0 where they do not count.  The masks of a column are found before,
// those of column 2 as soon as column 0 is done.
.macro keep_ahead i
        .if     \i < 3 * VECTORS - 2
        find_masks %(\i + 8), w16
        .else
        find_masks %(\i + 2 - 3 * VECTORS), w17
        .endif
        .if     (\i >= -2) * (\i + 2 < 9 * VECTORS)
        find_product %(\i + 2)
        .if     tap / 3 - 1
        keep    %in, %(4 + vector)
        .endif
        .endif
.endm

.macro keep in, mask
        and     v\in\().16b, v\in\().16b, v\mask\().16b
.endm

.macro multiply i
        find_product \i
        product %vector, %in, %(24 + tap / 4), %(tap - tap / 4 * 4)
.endm

.macro step i, masked
        .if     \i >= 0
        multiply \i
        .endif
        .if     \masked
        keep_ahead \i
        .endif
        load_ahead \i
.endm

.macro sum V, masked
        .set    VECTORS, \V
        .set    i, -8
        .rept   8 + 9 * VECTORS
        step    %i, \masked
        .set    i, i + 1
        .endr
.endm

.macro three_by_three name
fn \name
        add     x5, x4, x5, lsl #1
        ldp     x8, x14, [sp]
        ldr     x16, [sp, #16]
        ldp     w9, w10, [x3, #12]
        ldr     w11, [x3, #20]
        add     x9, x6, w9, sxtw
        add     x10, x6, w10, sxtw
        add     x11, x6, w11, sxtw
        ldur    q24, [x7, #4]
        ldur    q25, [x7, #20]
        ldr     s26, [x7, #36]
        ld1r    {v27.4s}, [x7]
        .if     IN_ORDER
        ins     v26.s[1], v27.s[0]
        .endif
        str     q27, [sp, #-16]!
        .cfi_adjust_cfa_offset 16
        limits  x16, w7, w15
        mov     w16, #0x0201
        movk    w16, #0x0804, lsl #16
        fmov    s28, w16                // 1, 2, 4, 8
        ushll   v28.8h, v28.8b, #0
        ushll   v28.4s, v28.4h, #0
        shl     v29.4s, v28.4s, #4
        mov     x13, #64
        mov     x6, #28
        cmn     w15, #0x800, lsl #12    // max is -0, and fmin would lower +0
        csel    x6, x6, x0, ne

8:      cmp     x0, x6
        b.le    1f
0:      ldr     w16, [x4]
        ldr     w17, [x5]
        and     w16, w16, w17
        cmn     w16, #1
        b.ne    1f
        sum     8, 0
        add     x4, x4, #4
        add     x5, x5, #4
        add     x16, x8, x13
        sub     x0, x0, #32
        raise   0, 8, w7, 16
        cbz     w15, 7f
        each    0, 8, lower_to_max
7:      stp     q0, q1, [x8]
        stp     q2, q3, [x8, #32]
        add     x8, x8, x14
        cmp     x0, x6
        stp     q4, q5, [x16]
        stp     q6, q7, [x16, #32]
        b.gt    0b
        cmp     x0, #0
        b.gt    1f
        b       4f

1:      cmp     x0, #12
        b.ls    3f
        ldrh    w16, [x4], #2
        ldrh    w17, [x5], #2
        and     w12, w16, w17
        eor     w12, w12, #0xffff
        cbnz    w12, 2f
        sum     4, 0
5:      clamp   0, 4, w7, w15, 16
        stp     q0, q1, [x8]
        stp     q2, q3, [x8, #32]
        add     x8, x8, x13             // in the block, or to another one
        sub     x13, x14, x13
        subs    x0, x0, #16
        b.hi    8b
        b       4f
2:      sum     4, 1
        b       5b

        .if     IN_ORDER
3:      b       L(k3_last)
4:      b       L(k3_end)
        .else
L(k3_last):
3:      ldrh    w16, [x4]
        ldrh    w17, [x5]
6:      sum     1, 1                    // the last vectors, one by one
        clamp   0, 1, w7, w15, 16
        str     q0, [x8], #16
        lsr     w16, w16, #4
        lsr     w17, w17, #4
        subs    x0, x0, #4
        b.hi    6b
L(k3_end):
4:      add     sp, sp, #16
        .cfi_adjust_cfa_offset -16
        ret
        .endif
endfn \name
.endm

        .set    IN_ORDER, 0
        three_by_three qn_dwconv_f32_plane32_k3_neon

        .set    IN_ORDER, 1
        three_by_three qn_dwconv_f32_plane32_k3_neon_inorder

// ---- any kernel: 8 vectors of pixels at a time
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

.macro from_bias acc, none
        mov     v\acc\().16b, v25.16b
.endm

.macro load in, none
        ldr     q\in, [x16, #(16 * (\in - 16))]
.endm

.macro multiply_all acc, none
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
        .if     \acc
        cmp     x0, #(4 * \acc)
        b.ls    5f
        .endif
        str     q\acc, [x8, #(16 * \acc)]
.endm

fn qn_dwconv_f32_plane32_neon
        ldp     x8, x16, [sp]
        ldr     x17, [sp, #16]
        save    x19, x20
        save    x21, x22
        mov     x19, x16
        limits  x17, w20, w21
        ld1r    {v25.4s}, [x7], #4
0:      each    0, 8, from_bias
        mov     x9, x4
        mov     w10, w2
        mov     x13, x3
        mov     x14, x7
1:      ldrh    w11, [x9]
        cmp     x0, #16
        b.ls    7f
        ldr     w11, [x9]
7:      add     x9, x9, x5
        mov     w15, w1
        and     w12, w11, w11, lsr #1
        and     w12, w12, w12, lsr #2
        cmn     w11, #1
        b.ne    3f
2:      next_tap                        // all pixels of the column count
        each    16, 8, load
        each    0, 8, multiply_all
        subs    w15, w15, #1
        b.ne    2b
        b       4f
3:      next_tap                        // not all
        each    0, 4, multiply_some
        cmp     x0, #16
        b.ls    6f
        each    4, 4, multiply_some
6:      subs    w15, w15, #1
        b.ne    3b
4:      subs    w10, w10, #1
        b.ne    1b
        clamp   0, 4, w20, w21, 26
        clamp   4, 4, w20, w21, 26
        each    0, 8, store_vector
        add     x4, x4, #4
        add     x6, x6, #128
        add     x8, x8, x19
        subs    x0, x0, #32
        b.hi    0b
5:      restore x21, x22
        restore x19, x20
        ret
endfn qn_dwconv_f32_plane32_neon

// What depthwise kernels of bytes share: how sums become bytes, rows with few channels, and the walk of tiles over
// panels of 8 channels and, in each, over passes of two rows of C.
//
//   args   x0 channels  x1 pixels  x2 rows  x3 offsets  x4 a  x5 w  x6 c  x7 row_stride  [sp] c_stride  p  zero
//   panel  x0 channels left  x4 a, x5 W and x6 C at its channels  x8 p  x16 zero - a, the same for every panel
//          w2 0 if sums end the exact way
//   pass   x9 rows left  x10 offsets  x11 C  x17 from a row of C to the next  x24 where a column has the last rows of A
//   pixel  x12 the column that is loaded next  x13 C  x14 pixels left     x15 c_stride
//   rows   x19-x23 of A, from a on     free  x1 x3 x26 x27     return address  x25, of an inner call x28
//   acc    v0 v1 the upper row of C, v2 v3 the lower one
//   fixed  v26 v27 scales  v28 1.5 * 2^23  v29 zero point, as halves  v30 min  v31 max, as bytes
//
// A pass of one row computes a lower row, too, from rows of A that exist. It stores this where the upper row comes to
// lie a moment later.
//
// Sums begin with the bits of 1.5 * 2^23 added to the bias. So they are floats already, 1.5 * 2^23 plus the sum, if
// sums are below 2^22.  scvtf takes twice as long as other arithmetic, in one unit alone.  And if no product with a
// scale exceeds 16 bits, the lower half of the float alone is the rounded number (see requantize.h).  Both hold for
// nearly all panels; their biases and scales say whether they do.  Sums of other panels end the exact way.
#ifndef QN_ASM_ARM64_DWCONV_QS8C_H
#define QN_ASM_ARM64_DWCONV_QS8C_H

#include "asm.h"
#include "../offset.h"

// What the stack holds.
#define BIASES sp, #0                   // 8 words, plus 1.5 * 2^23
#define PIXELS sp, #32                  // then rows
#define OFFSETS sp, #48
#define SOME sp, #64                    // rows of A with fewer than 8 channels
#define FRAME 112

.macro begin_tile
        ldp     x15, x8, [sp]
        ldr     x16, [sp, #16]
        enter
        sub     x16, x16, x4
.endm

.macro enter
        save    x19, x20
        save    x21, x22
        save    x23, x24
        save    x25, x26
        save    x27, x28
        save    d8, d9
        save    d10, d11
        save    d12, d13
        save    d14, d15
        sub     sp, sp, #FRAME
        .cfi_adjust_cfa_offset FRAME
        stp     x1, x2, [PIXELS]
        str     x3, [OFFSETS]
        keep_return x25
.endm

.macro leave
        return_from x25
        add     sp, sp, #FRAME
        .cfi_adjust_cfa_offset -FRAME
        restore d14, d15
        restore d12, d13
        restore d10, d11
        restore d8, d9
        restore x27, x28
        restore x25, x26
        restore x23, x24
        restore x21, x22
        restore x19, x20
        ret
.endm

// A panel, and its first pass.
.macro begin_panel
        mov     w1, #9
        bl      L(panel)
        ldr     x9, [PIXELS + 8]
        ldr     x10, [OFFSETS]
        mov     x11, x6
.endm

// Entries of a column for which there is a lower row begin at \two, otherwise at \one.
.macro begin_pass two, one
        mov     x12, x10
        mov     x13, x11
        ldr     x14, [PIXELS]
        cmp     x9, #2
        csel    x17, x7, xzr, hs
        mov     x24, #\two
        mov     x26, #\one
        csel    x24, x24, x26, hs
.endm

.macro next_pass stride, again
        add     x10, x10, #(8 * \stride)
        add     x11, x11, x7, lsl #1
        subs    x9, x9, #2
        b.hi    \again
.endm

.macro next_panel bytes, again
        add     x4, x4, #8
        add     x5, x5, #\bytes
        add     x6, x6, #8
        add     x8, x8, #(REQUANTIZE_SCALES + 32)
        subs    x0, x0, #8
        b.hi    \again
.endm

// x(offset), of 32 bits, becomes that of the pixel `zero` where it is negative.
.macro or_zero offset
        sign_of \offset
        choose  \offset
.endm

.macro sign_of offset
        cmp     w\offset, #0
.endm

.macro choose offset
        csel    x\offset, x\offset, x16, ge
.endm

.macro biases
        ldp     q0, q1, [BIASES]
        ldp     q2, q3, [BIASES]
.endm

.macro sums do, others:vararg
        \do     0, \others
        \do     1, \others
        \do     2, \others
        \do     3, \others
.endm

.macro less_magic acc, none
        fsub    v\acc\().4s, v\acc\().4s, v28.4s
.endm

.macro to_float acc, none
        scvtf   v\acc\().4s, v\acc\().4s
.endm

.macro plus_magic acc, none
        fadd    v\acc\().4s, v\acc\().4s, v28.4s
.endm

.macro less_bits acc, none
        sqsub   v\acc\().4s, v\acc\().4s, v28.4s
.endm

.macro scale
        fmul    v0.4s, v0.4s, v26.4s
        fmul    v1.4s, v1.4s, v27.4s
        fmul    v2.4s, v2.4s, v26.4s
        fmul    v3.4s, v3.4s, v27.4s
.endm

// The sums become bytes, upper and lower row in v0, and are stored.  `name` and p tell this place from others: what is
// rare stands behind the loop, see store_rarely.  i0 .. are instructions of the next pixel, for cores that issue in
// order.
.macro end_sums name, p, i0, i1, i2, i3, i4, i5, i6, i7
        cbz     w2, L(\name\()_exact\p)
        sums    less_magic
        scale
        sums    plus_magic
        uzp1    v0.8h, v0.8h, v1.8h
        uzp1    v2.8h, v2.8h, v3.8h
L(\name\()_halves\p):
        \i0
        sqadd   v0.8h, v0.8h, v29.8h
        \i1
        sqadd   v2.8h, v2.8h, v29.8h
        \i2
        sqxtn   v0.8b, v0.8h
        \i3
        sqxtn2  v0.16b, v2.8h
        \i4
        \i5
        smax    v0.16b, v0.16b, v30.16b
        \i6
        smin    v0.16b, v0.16b, v31.16b
        \i7
        add     x27, x13, x17
        b.lo    L(\name\()_store_some\p) // see check_rows
        st1     {v0.d}[1], [x27]
        str     d0, [x13]
L(\name\()_stored\p):
        add     x13, x13, x15
.endm

// The rare cases.  Those that return furthest back come last, so that the loop is an innermost one for predict.py.
.macro store_rarely name, p
L(\name\()_store_some\p):
        bl      L(store_some)
        b       L(\name\()_stored\p)
.endm

.macro end_rarely name, p
L(\name\()_exact\p):
        bl      L(exact)
        b       L(\name\()_halves\p)
.endm

// Before the rows x19 .. are loaded: do they have 8 channels?  end_sums needs the flags, too.
.macro check_rows name, p
        cmp     x0, #8
        b.lo    L(\name\()_some\p)
L(\name\()_found\p):
.endm

.macro copy_rarely name, p, rows
L(\name\()_some\p):
        bl      L(copy_\rows)
        b       L(\name\()_found\p)
.endm

.macro load to, row
        ldr     d\to, [x4, x\row]
.endm

// The rows of A of the column at x12, for stride 1 and 2.
.macro find_k3s1
        ldp     w19, w20, [x12]
        ldr     w21, [x12, #8]
        ldr     w22, [x12, x24]
        or_zero 19
        or_zero 20
        or_zero 21
        or_zero 22
.endm

.macro find_k3s2
        add     x26, x12, x24
        ldp     w19, w20, [x12]
        ldr     w21, [x12, #8]
        ldp     w22, w23, [x26]
        or_zero 19
        or_zero 20
        or_zero 21
        or_zero 22
        or_zero 23
.endm

// The column that is loaded next; when there is no other pixel, the last one again.
.macro count_pixel
        subs    x14, x14, #1
.endm

.macro try_column bytes
        add     x26, x12, #\bytes
.endm

.macro next_column
        csel    x12, x26, x12, ne
.endm

// What the functions call, behind one of them.
.macro parts
L(panel):                               // begins a panel; w1 taps
        lsl     w1, w1, #14             // the largest sum of products
        ldp     q0, q1, [x5]
        ldp     q26, q27, [x8, #REQUANTIZE_SCALES]
        add     x26, x8, #REQUANTIZE_MIN
        add     x27, x8, #REQUANTIZE_MAX
        ld1r    {v29.8h}, [x8]
        ld1r    {v30.16b}, [x26]
        ld1r    {v31.16b}, [x27]
        movi    v28.4s, #0x4b, lsl #24
        orr     v28.4s, #0x40, lsl #16
        dup     v4.4s, w1
        movi    v5.4s, #0x40, lsl #16   // 2^22
        movi    v6.4s, #0x46, lsl #24
        orr     v6.4s, #0xff, lsl #16   // somewhat less than 2^15, as a float: here numbers are rounded, too
        sqabs   v2.4s, v0.4s
        sqabs   v3.4s, v1.4s
        sqadd   v2.4s, v2.4s, v4.4s
        sqadd   v3.4s, v3.4s, v4.4s
        cmgt    v4.4s, v5.4s, v2.4s
        cmgt    v5.4s, v5.4s, v3.4s
        scvtf   v2.4s, v2.4s
        scvtf   v3.4s, v3.4s
        fmul    v2.4s, v26.4s, v2.4s
        fmul    v3.4s, v27.4s, v3.4s
        facgt   v2.4s, v6.4s, v2.4s
        facgt   v3.4s, v6.4s, v3.4s
        and     v4.16b, v4.16b, v5.16b
        and     v2.16b, v2.16b, v3.16b
        and     v2.16b, v2.16b, v4.16b
        uminv   s2, v2.4s
        fmov    w2, s2
        dup     v2.4s, v2.s[0]
        and     v2.16b, v2.16b, v28.16b
        add     v0.4s, v0.4s, v2.4s
        add     v1.4s, v1.4s, v2.4s
        stp     q0, q1, [BIASES]
        ret

L(copy_4):                              // rows of A with fewer than 8 channels: x19-x22 become those of their copies
        mov     x28, x30
L(copy_others):
        copy_row 19, 0
        copy_row 20, 1
        copy_row 21, 2
        copy_row 22, 3
        ret     x28

L(copy_row):                            // x3: the bytes of the row x26, and others above
        add     x26, x26, x4
        mov     x27, x0
8:      sub     x27, x27, #1
        ldrb    w1, [x26, x27]
        orr     x3, x1, x3, lsl #8
        cbnz    x27, 8b
        ret

L(exact):                               // sums become rounded products of 16 bits, whatever they are
        sums    to_float
        scale
        sums    plus_magic
        sums    less_bits
        sqxtn   v0.4h, v0.4s
        sqxtn   v2.4h, v2.4s
        sqxtn2  v0.8h, v1.4s
        sqxtn2  v2.8h, v3.4s
        ret

L(store_some):                          // fewer than 8 channels: first the lower row
        mov     x26, v0.d[1]
        mov     x1, x0
6:      strb    w26, [x27], #1
        lsr     x26, x26, #8
        subs    x1, x1, #1
        b.ne    6b
        mov     x26, v0.d[0]
        mov     x27, x13
        mov     x1, x0
7:      strb    w26, [x27], #1
        lsr     x26, x26, #8
        subs    x1, x1, #1
        b.ne    7b
        ret
.endm

.macro copy_row row, i
        mov     x26, x\row
        bl      L(copy_row)
        str     x3, [SOME + 8 * \i]
        add     x\row, sp, #(64 + 8 * \i)
        sub     x\row, x\row, x4
.endm

// The same of five rows.
.macro copy_5
L(copy_5):
        mov     x28, x30
        copy_row 23, 4
        b       L(copy_others)
.endm

#endif

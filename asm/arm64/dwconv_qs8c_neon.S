// C[x][c] = requantize(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]) of bytes, 2 pixels x 8 channels.
// Contract: src/kernel/dwconv.h; tiles: dwconv_tile_qs8c_neon.h and dwconv_tile_qs8c_dotprod.h
//
//   args   x0 channels  x1 pixels  x2 taps  x3 offsets  x4 step  x5 a  x6 zero  x7 w  [sp] c  c_stride  p
//   panel  x0 channels left  x4 a, x5 W and x6 C at its channels  x8 p  x16 zero - a     x7 step  x15 c_stride
//          x9 the weights that go in pairs, x10 their end
//   tile   x14 pixels left  x12 offsets of the first one  x13 C of it  x17 from there to the other one
//          x11 x24 their offsets  x23 W  x19 x20 rows of A, x21 x22 of a second tap
//   acc    v0 v1 one pixel, v2 v3 the other one     prod  v6, v7
//   load   v16 v18 A, v17 v19 of a second tap  v4 v5 W
//
// Two taps go together where no weight of a panel is -128, otherwise all go alone; so does the first of an odd number.
// A pair is 4 multiplications and 4 additions, 4 loads of A, 1 of W and 2 of offsets.  Products are added while the
// next rows load.  The pixel behind the last one is the last one again, stored in the same place a moment earlier.
#include "dwconv_qs8c.h"
#include "dwconv_tile_qs8c_neon.h"
#include "dwconv_tile_qs8c_dotprod.h"

.macro add_products
        upper_low 6
        upper_high 6
        lower_low 7
        lower_high 7
.endm

// Finds out where pairs begin.
.macro find_pairs
        ldr     x2, [PIXELS + 8]
        add     x9, x5, #32
        add     x10, x9, x2, lsl #3
        movi    v0.8b, #0
        mov     x23, x9
1:      ldr     d1, [x23], #8
        smin    v0.8b, v0.8b, v1.8b
        cmp     x23, x10
        b.ne    1b
        sminv   b0, v0.8b
        smov    w1, v0.b[0]
        and     x2, x2, #1
        add     x9, x9, x2, lsl #3
        cmn     w1, #128
        csel    x9, x9, x10, ne
.endm

fn qn_dwconv_qs8c_np8_neon
        ldr     x8, [sp, #16]
        sub     x16, x6, x5
        ldp     x6, x15, [sp]
        enter
        mov     x9, x4
        mov     x4, x5
        mov     x5, x7
        mov     x7, x9
0:      find_pairs
        ldr     w1, [PIXELS + 8]
        bl      L(panel)
        ldr     x14, [PIXELS]
        ldr     x12, [OFFSETS]
        mov     x13, x6

2:      mov     x11, x12                // a tile
        add     x24, x12, x7
        subs    x14, x14, #1
        csel    x24, x24, x12, ne
        csel    x17, x15, xzr, ne
        add     x23, x5, #32
        movi    v6.16b, #0
        movi    v7.16b, #0
        biases
        cmp     x23, x9
        b.eq    4f
3:      ldr     w19, [x11], #4          // a tap
        ldr     w20, [x24], #4
        ldr     d4, [x23], #8
        or_zero 19
        or_zero 20
        mov     x21, x19
        mov     x22, x20
        check_rows np8, 0
        load    16, 19
        load    18, 20
        add_products
        multiply 6, 16, 4
        multiply 7, 18, 4
        cmp     x23, x9
        b.ne    3b
4:      cmp     x23, x10
        b.eq    6f
5:      ldp     w19, w21, [x11], #8     // two taps
        ldp     w20, w22, [x24], #8
        ldp     d4, d5, [x23], #16
        or_zero 19
        or_zero 20
        or_zero 21
        or_zero 22
        check_rows np8, 1
        load    16, 19
        load    18, 20
        load    17, 21
        load    19, 22
        add_products
        multiply 6, 16, 4
        multiply 7, 18, 4
        and_low 6, 17, 5
        and_low 7, 19, 5
        cmp     x23, x10
        b.ne    5b
6:      add_products
        cmp     x0, #8
        end_sums np8, 0
        add     x13, x13, x15
        add     x12, x12, x7, lsl #1
        subs    x14, x14, #1
        b.gt    2b
        sub     x10, x10, x5            // bytes of the panel
        add     x5, x5, x10
        add     x4, x4, #8
        add     x6, x6, #8
        add     x8, x8, #(REQUANTIZE_SCALES + 32)
        subs    x0, x0, #8
        b.hi    0b
        leave

        store_rarely np8, 0
        end_rarely np8, 0
        copy_rarely np8, 1, 4
        copy_rarely np8, 0, 4

        parts
endfn qn_dwconv_qs8c_np8_neon

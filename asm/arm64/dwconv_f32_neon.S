// C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 4 pixels x 16 channels.
// Contract: src/kernel/dwconv.h
//
//   args   x0 channels  x1 pixels  x2 taps  x3 offsets  x4 step  x5 a  x6 zero  x7 w  [sp] c  c_stride  p
//   panel  x0 channels left  x5 A, x7 W and x8 C at its channels  x6 zeros, the same for every panel
//   tile   x19 pixels left  x20 offsets of the next one  x21 C of it     x16 c_stride  x17 p
//   tap    x15 bytes of offsets before it, x2 of all     its offset of pixels 0-3 at x10 x11 x12 x13     x14 W
//   row    x9 x22 of A
//   acc    v16-v31: pixel m holds v(16+4m) ..
//   load   v0-v3 one row of W  v4-v7 of A     then v0 min  v1 max  v2 v3 masks
//
// One row of W serves four pixels: a step is 16 FMAs and 24 loads of 4 to 16 bytes.  Pixels behind the last one are
// computed as its copies and not stored.  Of a panel with fewer than 16 channels four go together, then one at a time.
#include "asm.h"
#include "../offset.h"

        .altmacro

// Every pixel: its number, its table.
.macro pixels do
        \do     0, x10
        \do     1, x11
        \do     2, x12
        \do     3, x13
.endm

// Every accumulator of pixel m.
.macro vectors do, m
        .set    i, 0
        .rept   VECTORS
        \do     %(16 + 4 * \m + i), %i
        .set    i, i + 1
        .endr
.endm

// Pixel m is one step after the one before, or the same when there is no pixel m.
.macro locate m, table, before
        add     \table, \before, x4
        cmp     x19, #\m
        csel    \table, \table, \before, hi
.endm

// A row of 16, 4 or 1 channels from `address` on to v(a) ..
.macro load a, b, c, d, address
        .if     CHANNELS == 16
        ldp     q\a, q\b, [\address]
        ldp     q\c, q\d, [\address, #32]
        .elseif CHANNELS == 4
        ldr     q\a, [\address]
        .else
        ldr     s\a, [\address]
        .endif
.endm

.macro start m, table
        .if     \m > 0                  // pixel 0 was loaded
        vectors copy, \m
        .endif
.endm

.macro copy acc, i
        copy_vector \acc, %(16 + \i)
.endm

.macro copy_vector to, from
        mov     v\to\().16b, v\from\().16b
.endm

.macro find_offset row, table
        ldrsw   \row, [\table, x15]
.endm

.macro find_row row
        cmp     \row, #0
        add     \row, x5, \row
        csel    \row, \row, x6, ge
.endm

// Meanwhile the row of the pixel after the next one is found.
.macro step m, row, table
        load    4, 5, 6, 7, \row
        .ifnb   \table
        find_offset \row, \table
        .endif
        vectors multiply, \m
        .ifnb   \table
        find_row \row
        .endif
.endm

.macro multiply acc, i
        multiply_vectors \acc, \i, %(4 + \i)
.endm

.macro multiply_vectors acc, w, in
        fmla    v\acc\().4s, v\w\().4s, v\in\().4s
.endm

// See gemm_f32_neon.S.
.macro clamp m, table
        vectors limit, \m
.endm

.macro limit acc, i
        fcmgt   v2.4s, v0.4s, v\acc\().4s
        bit     v\acc\().16b, v0.16b, v2.16b
        fcmgt   v3.4s, v\acc\().4s, v1.4s
        bit     v\acc\().16b, v1.16b, v3.16b
.endm

.macro store m, table
        .if     \m > 0
        cmp     x19, #\m
        b.ls    3f
        add     x9, x9, x16
        .endif
        vectors store_vector, \m
.endm

.macro store_vector acc, i
        .if     CHANNELS == 1
        str     s\acc, [x9]
        .else
        str     q\acc, [x9, #(16 * \i)]
        .endif
.endm

// All pixels of some channels, four pixels at a time.
.macro tiles channels
        .set    CHANNELS, \channels
        .set    VECTORS, (CHANNELS + 3) / 4
        mov     x19, x1
        mov     x20, x3
        mov     x21, x8
1:      mov     x10, x20                // a tile
        locate  1, x11, x10
        locate  2, x12, x11
        locate  3, x13, x12
        load    16, 17, 18, 19, x7      // start from the bias
        pixels  start
        mov     x14, x7
        mov     x15, #0

2:      find_offset x9, x10
        add     x14, x14, #64
        find_offset x22, x11
        find_row x9
        load    0, 1, 2, 3, x14
        find_row x22
        step    0, x9, x12
        step    1, x22, x13
        step    2, x9
        step    3, x22
        add     x15, x15, #4
        cmp     x15, x2
        b.lo    2b

        add     x14, x17, #MINMAX_MIN
        ld1r    {v0.4s}, [x14]
        add     x14, x17, #MINMAX_MAX
        ld1r    {v1.4s}, [x14]
        pixels  clamp
        mov     x9, x21
        pixels  store
        add     x20, x20, x4, lsl #2
        add     x21, x9, x16
        subs    x19, x19, #4
        b.hi    1b
3:
.endm

.macro next channels
        add     x5, x5, #(4 * \channels)
        add     x7, x7, #(4 * \channels)
        add     x8, x8, #(4 * \channels)
        sub     x0, x0, #\channels
.endm

fn qn_dwconv_f32_np16_neon
        ldp     x8, x16, [sp]
        ldr     x17, [sp, #16]
        save    x19, x20
        save    x21, x22
        lsl     x2, x2, #2

0:      cmp     x0, #16
        b.lo    4f
        tiles   16
        next    16
        add     x7, x7, x2, lsl #4      // behind the bias, 64 bytes for each tap
        cbnz    x0, 0b
4:      cmp     x0, #4
        b.lo    5f
        tiles   4
        next    4
        b       4b
5:      cbz     x0, 6f
        tiles   1
        next    1
        b       5b
6:      restore x21, x22
        restore x19, x20
        ret
endfn qn_dwconv_f32_np16_neon

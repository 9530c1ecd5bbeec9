// The tile of 8 rows x 8 channels of bytes with smmla, which multiplies 8 k of two rows with those of two channels.
// Panels have 8 k together.
//
//   args   x0 mr     x1 channels left   x2 k(bytes)   x5 w   x6 last row of C in the tile   x7 c_stride   x8 p
//   A      rows 0-7 at x3 x9 x10 x11 x12 x13 x14 x15
//   acc    v16-v31: pair p of rows, pair c of channels in v(16+4p+c).  Pairs are rows 0 2, 1 3, 4 6, 5 7, for finish
//   free   v0-v7 x16 x17 x26
//
// smmla wants 8 k of two rows in one register, but rows lie apart.  To join them takes an instruction for a pair and 8
// k, one for every four smmla, and both kinds share their units.  So a tile joins its rows once for all panels, into
// memory that the kernel has on the stack, and then the loop does nothing but load and multiply.  `packed`: groups of 8
// k, in each of them the four pairs.
//
// If all k of the tile, taps included, are too many for that memory, each panel joins them again, a part at a time.
//
// Besides the parts of tile_8x8.h that have the same names:
//
//   multiply  x16 groups, more than none, at x17; x17 and x5 move on
//   pack      x16 bytes of k of all rows to x17; both, and the rows, move on; the last group may have less than 8 bytes
#ifndef QN_ASM_ARM64_TILE_8X8_I8MM_H
#define QN_ASM_ARM64_TILE_8X8_I8MM_H

#include "requantize_8x8.h"

// Groups that a tile's memory has: 36 KiB, enough for the 3x3 taps of 512 channels.  And k of a part, if it is too
// small.
#define PACKED_GROUPS 576
#define PART 512

// smmla acc.4s, a.16b, w.16b.  As a number, because no directive makes clang 14 take its name for every system.
.macro smmla_ acc, a, w
        .inst   0x4e80a400 + (\w) * 0x10000 + (\a) * 32 + (\acc)
.endm

// 8 k of all rows and channels.  v0-v3 A  v4-v7 W: 16 smmla and 4 loads of 32 bytes.
.macro group at
        ldp     q0, q1, [x17, #(\at)]
        ldp     q4, q5, [x5, #(\at)]
        ldp     q2, q3, [x17, #(\at + 32)]
        ldp     q6, q7, [x5, #(\at + 32)]
        pair    4, 16, 20, 24, 28
        pair    5, 17, 21, 25, 29
        pair    6, 18, 22, 26, 30
        pair    7, 19, 23, 27, 31
.endm

.macro pair w, p0, p1, p2, p3
        smmla_  \p0, 0, \w
        smmla_  \p1, 1, \w
        smmla_  \p2, 2, \w
        smmla_  \p3, 3, \w
.endm

// 16 k of four rows, two pairs, to x17 + at.
.macro join16 r0, r1, r2, r3, at
        ldr     q0, [\r0], #16
        ldr     q1, [\r1], #16
        ldr     q2, [\r2], #16
        ldr     q3, [\r3], #16
        zip1    v4.2d, v0.2d, v2.2d
        zip1    v5.2d, v1.2d, v3.2d
        zip2    v6.2d, v0.2d, v2.2d
        zip2    v7.2d, v1.2d, v3.2d
        stp     q4, q5, [x17, #\at]
        stp     q6, q7, [x17, #(64 + \at)]
.endm

.macro load8 m, a, lo, hi, none
        ldr     d\m, [\a], #8
.endm

.macro last_byte m, a, lo, hi, none
        add     x26, \a, x16
        shl     v\m\().2d, v\m\().2d, #8
        ld1     {v\m\().b}[0], [x26]
.endm

.macro start_pair p0, p1, p2, p3
        mov     v\p0\().16b, v16.16b
        mov     v\p1\().16b, v17.16b
        mov     v\p2\().16b, v18.16b
        mov     v\p3\().16b, v19.16b
.endm

// Of requantize_8x8.h: a register has two pairs of rows, two channels of each in turn.  It becomes two rows, and the
// other one the other two.
.macro part_rows
        uzp1    v0.8h, v16.8h, v20.8h
        uzp1    v1.8h, v24.8h, v28.8h
        uzp2    v20.8h, v16.8h, v20.8h
        uzp2    v28.8h, v24.8h, v28.8h
        mov     v16.16b, v0.16b
        mov     v24.16b, v1.16b
.endm

.macro parts
L(start):
        ldp     q0, q1, [x5], #32
        dup     v16.2d, v0.d[0]
        dup     v17.2d, v0.d[1]
        dup     v18.2d, v1.d[0]
        dup     v19.2d, v1.d[1]
        start_pair 20, 21, 22, 23
        start_pair 24, 25, 26, 27
        start_pair 28, 29, 30, 31
        ret

L(pack):
        subs    x16, x16, #16
        b.lo    2f
1:      join16  x3, x9, x10, x11, 0
        join16  x12, x13, x14, x15, 32
        add     x17, x17, #128
        subs    x16, x16, #16
        b.hs    1b
2:      tbz     x16, #3, 3f             // less 16, which bits 0 to 3 do not show
        rows    load8
        join8
3:      ands    x16, x16, #7
        b.eq    5f
4:      sub     x16, x16, #1            // the last 1 .. 7 bytes, from behind; what is above them meets weights of 0
        rows    last_byte
        cbnz    x16, 4b
        join8
5:      ret

L(multiply):
        subs    x16, x16, #2
        b.lo    2f
1:      group   0
        group   64
        add     x17, x17, #128
        add     x5, x5, #128
        subs    x16, x16, #2
        b.hs    1b
2:      tbz     x16, #0, 3f
        group   0
        add     x5, x5, #64
3:      ret

        finish_qs8c 2
.endm

// 8 k of all rows.
.macro join8
        zip1    v0.2d, v0.2d, v2.2d
        zip1    v1.2d, v1.2d, v3.2d
        zip1    v4.2d, v4.2d, v6.2d
        zip1    v5.2d, v5.2d, v7.2d
        stp     q0, q1, [x17], #32
        stp     q4, q5, [x17], #32
.endm

// All panels of a tile: x23 groups of its k.  Three macros say what to do with taps: first_tap (again), locate_tap, and
// more_taps, which branches if there is another one.  x24 keeps the stack pointer.
.macro products
        mov     x24, sp
        .cfi_def_cfa_register x24
        cmp     x23, #PACKED_GROUPS
        b.le    4f

        sub     sp, sp, #(8 * PART)
5:      first_tap                       // a panel
6:      locate_tap
        mov     x25, x2                 // bytes left of the tap
7:      mov     x16, #PART
        cmp     x25, x16
        csel    x16, x25, x16, lo
        sub     x25, x25, x16
        add     x23, x16, #7
        lsr     x23, x23, #3
        mov     x17, sp
        bl      L(pack)
        mov     x16, x23
        mov     x17, sp
        bl      L(multiply)
        cbnz    x25, 7b
        more_taps 6b
        bl      L(finish)
        cbnz    x1, 5b
        b       8f

4:      lsl     x16, x23, #6
        sub     sp, sp, x16
        mov     x17, sp
5:      locate_tap
        mov     x16, x2
        bl      L(pack)
        more_taps 5b
6:      mov     x16, x23                // a panel
        mov     x17, sp
        bl      L(multiply)
        bl      L(finish)
        cbnz    x1, 6b
8:      mov     sp, x24
        .cfi_def_cfa_register sp
.endm

.macro save_products
        save    x19, x20
        save    x21, x22
        save    x23, x24
        save    x25, x26
        save    x27, x28
.endm

.macro restore_products
        restore x27, x28
        restore x25, x26
        restore x23, x24
        restore x21, x22
        restore x19, x20
.endm

#endif

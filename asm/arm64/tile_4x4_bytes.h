// The tile of 4 rows x 4 channels of bytes for cores without dot products, which gemm_tile.h and igemm_tile.h take like
// that of tile_8x8.h.  Panels have 16 k together; no weight is -128.
//
//   args   x0 mr     x1 channels left   x2 k(bytes)   x5 w   x6 last row of C in the tile   x7 c_stride   x8 p
//   A      rows 0-3 at x3 x9 x10 x11
//   acc    v16-v31: row m, channel n in v(16+4m+n), four sums of it that finish adds up
//   free   v0-v15 x12-x17
//
// Of 16 k of a row and a channel, smull multiplies the first eight and smlal adds the products of the others: two
// products fit 16 bits, as 2 * 128 * 127 < 2^15.  sadalp adds them to four sums of 32 bits.  So 16 k of the tile, 256
// products, are 48 such instructions.
//
// Rows past the last one are computed as its copies and not stored.  Who includes this file adds `parts`, which is what
// tile_8x8.h says.
#ifndef QN_ASM_ARM64_TILE_4X4_BYTES_H
#define QN_ASM_ARM64_TILE_4X4_BYTES_H

#include "asm.h"
#include "inorder.h"
#include "../offset.h"

#define TILE_ROWS 4

// Bytes of W that are fetched ahead.
#define AHEAD 512

// Every row: its number, its A, its accumulators.
.macro rows do, arg:vararg
        \do     0, x3,  16, 17, 18, 19, \arg
        \do     1, x9,  20, 21, 22, 23, \arg
        \do     2, x10, 24, 25, 26, 27, \arg
        \do     3, x11, 28, 29, 30, 31, \arg
.endm

.macro load16 m, a, c0, c1, c2, c3, none
        ldr     q\m, [\a], #16
.endm

// 16 k of a channel: v0-v3 A  w W  v8-v11 sums of two products
.macro channel w, r0, r1, r2, r3
        smull   v8.8h, v0.8b, v\w\().8b
        smull   v9.8h, v1.8b, v\w\().8b
        smull   v10.8h, v2.8b, v\w\().8b
        smull   v11.8h, v3.8b, v\w\().8b
        smlal2  v8.8h, v0.16b, v\w\().16b
        smlal2  v9.8h, v1.16b, v\w\().16b
        smlal2  v10.8h, v2.16b, v\w\().16b
        smlal2  v11.8h, v3.16b, v\w\().16b
        sadalp  v\r0\().4s, v8.8h
        sadalp  v\r1\().4s, v9.8h
        sadalp  v\r2\().4s, v10.8h
        sadalp  v\r3\().4s, v11.8h
.endm

.macro channels
        channel 4, 16, 20, 24, 28
        channel 5, 17, 21, 25, 29
        channel 6, 18, 22, 26, 30
        channel 7, 19, 23, 27, 31
.endm

// All k for cores that look ahead.  v0-v3 A  v4-v7 W: 16 k are 48 instructions that multiply or add, and 6 loads (of 16
// or 32 bytes).
.macro sum
        subs    x16, x2, #16
        b.lo    2f
1:      rows    load16
        ldp     q4, q5, [x5]
        ldp     q6, q7, [x5, #32]
        add     x5, x5, #64
        subs    x16, x16, #16
        channels
        b.hs    1b
2:      adds    x16, x16, #16           // the last bytes, fewer than 16
        b.eq    3f
        mov     x17, #0
        bl      L(singly)
3:
.endm

// All k for cores that issue in order: loads, of 64 bits, stand between the instructions of the channel before.
//
//   place  x16 in the rows of A, and x17 of the upper half: of the loop's next 16 k     x25 in W: the same
//   left   x26 bytes of k
//   A      v0-v7: row m in v(2m), and its upper eight k in v(2m+1)
//   W      v8 v9, v10 v11 in turn
//   sums   v12-v15 of two products
//   high   x12-x15 of A, x23 of W: on their way to a register of vectors
//
// Of two halves one is loaded by ldr d, the other one by ldr x and fmov.
//
// Cortex-A53: ldr x goes beside a multiplication, and ldr d beside fmov, in a cycle of their own.  So 16 k, 48
// instructions that multiply or add, take 56 cycles.  (With 16 ldr d they would take 64.)
// Cortex-A55: any of them goes beside a multiplication: 50 cycles.
// 16 k of a channel.  The next channel's W comes into v\next v\then from [at]; what else there is to do stands between.
.macro channel_inorder w, upper, next, then, at, offset, r0, r1, r2, r3, i0, i1, i2, j0, j1, j2, j3, j4
        smull   v12.8h, v0.8b, v\w\().8b
        \i0
        smull   v13.8h, v2.8b, v\w\().8b
        ldr     x23, [\at, #(\offset + 8)]
        smull   v14.8h, v4.8b, v\w\().8b
        \i1
        smull   v15.8h, v6.8b, v\w\().8b
        \i2
        smlal   v12.8h, v1.8b, v\upper\().8b
        ldr     d\next, [\at, #\offset]
        fmov    d\then, x23
        smlal   v13.8h, v3.8b, v\upper\().8b
        \j0
        smlal   v14.8h, v5.8b, v\upper\().8b
        \j1
        smlal   v15.8h, v7.8b, v\upper\().8b
        \j2
        sadalp  v\r0\().4s, v12.8h
        \j3
        sadalp  v\r1\().4s, v13.8h
        \j4
        sadalp  v\r2\().4s, v14.8h
        sadalp  v\r3\().4s, v15.8h
.endm

// The next 16 k of a row, whose upper half has come.
.macro next_row lo, hi, a, upper
        ldr     d\lo, [\a, x16]
        fmov    d\hi, \upper
.endm

.macro fetch_weights
        prfm    pldl1keep, [x5, #AHEAD]
.endm

.macro sum_inorder core
        mov     x16, #0
        ands    x26, x2, #-16
        b.eq    2f
        ldp     d0, d1, [x3]
        ldp     d2, d3, [x9]
        ldp     d4, d5, [x10]
        ldp     d6, d7, [x11]
        ldp     d8, d9, [x5]
1:      channel_inorder 8, 9, 10, 11, x5, 16, 16, 20, 24, 28, "subs x26, x26, #16", "add x25, x16, #16", \
                "csel x16, x25, x16, ne", , "add x25, x5, #64", "csel x25, x25, x5, ne" // the last time these again
        channel_inorder 10, 11, 8, 9, x5, 32, 17, 21, 25, 29, "add x17, x16, #8", fetch_weights
        channel_inorder 8, 9, 10, 11, x5, 48, 18, 22, 26, 30, , , , , , , "ldr x12, [x3, x17]"
        channel_inorder 10, 11, 8, 9, x25, 0, 19, 23, 27, 31, \
                "ldr x13, [x9, x17]", "ldr x14, [x10, x17]", "ldr x15, [x11, x17]", "next_row 0, 1, x3, x12", \
                "next_row 2, 3, x9, x13", "next_row 4, 5, x10, x14", "next_row 6, 7, x11, x15", "mov x5, x25"
        b.ne    1b
        add     x16, x16, #16
        add     x5, x5, #64
2:      mov     x17, x16
        ands    x16, x2, #15            // the last bytes
        b.eq    4f
        bl      L(singly)
4:
.endm

// Of the last bytes, a piece that lies before those that a register has: they move up, and it comes in below.
.macro last_byte m, a, c0, c1, c2, c3, none
        ldr     b\m, [\a, x17]
.endm

.macro last_two m, a, c0, c1, c2, c3, none
        add     x12, \a, x17
        shl     v\m\().2d, v\m\().2d, #16
        ld1     {v\m\().h}[0], [x12]
.endm

.macro last_four m, a, c0, c1, c2, c3, none
        add     x12, \a, x17
        shl     v\m\().2d, v\m\().2d, #32
        ld1     {v\m\().s}[0], [x12]
.endm

.macro last_eight m, a, c0, c1, c2, c3, none
        add     x12, \a, x17
        ins     v\m\().d[1], v\m\().d[0]
        ld1     {v\m\().d}[0], [x12]
.endm

.macro add_fours m, a, c0, c1, c2, c3, none
        addp    v\c0\().4s, v\c0\().4s, v\c1\().4s
        addp    v\c2\().4s, v\c2\().4s, v\c3\().4s
.endm

.macro add_twos m, a, c0, c1, c2, c3, none
        addp    v\c0\().4s, v\c0\().4s, v\c2\().4s
.endm

// The part `singly`.
// The last x16 bytes of k, fewer than 16, at x17 in the rows of A.  None beyond them is read; of those, registers have
// anything, and weights are 0.
.macro singly_bytes
L(singly):                              // v0-v3 A  v4-v7 W
        add     x17, x17, x16
        tbz     x16, #0, 1f
        sub     x17, x17, #1
        rows    last_byte
1:      tbz     x16, #1, 1f
        sub     x17, x17, #2
        rows    last_two
1:      tbz     x16, #2, 1f
        sub     x17, x17, #4
        rows    last_four
1:      tbz     x16, #3, 1f
        sub     x17, x17, #8
        rows    last_eight
1:      ldp     q4, q5, [x5], #32
        ldp     q6, q7, [x5], #32
        channels
        ret
.endm

#endif

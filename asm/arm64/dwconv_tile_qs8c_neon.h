// C[y][x][c] = requantize(bias[c] + sum over 3x3 taps of A * W) of bytes, tiles of 1 to 4 rows x 8 channels.
// Contract: src/kernel/dwconv.h; no weight is -128
//
//   args, panel, pass, pixel, acc, fixed   dwconv_qs8c.h
//   prod   v4-v6, of 16 bits     v23 v24 biases, plus 1.5 * 2^23 as there
//   stride 1   A  v17-v22: a column in two, [r0 r1] and [r2 r3], three columns in turn
//              W  v8-v16: column i in three from v(8+3i) on, [w0 w1] [w2 w0] [w1 w2]
//   stride 2   A  v17-v19 left or right column, v20-v22 middle one: [r0 r1] [r2 r3] [r4 -]
//              W  v8-v13: column i in two from v(8+2i) on, [w0 w1] [w2 -]
//
// Two products fit 16 bits, as 2 * 128 * 127 < 2^15: smull and smlal make eight sums of two, which saddw adds to sums
// of 32 bits.  Registers hold two rows of A, or of W, so that smlal2 has its factors there, too.  Nine products of two
// rows x 8 channels are 18 multiplications and 20 additions; 20 instructions end their sums, and 4 or 10 rows of A are
// loaded.  Sums of two are added two steps later, when they are complete in cores that issue in order.  For these, too,
// instructions that load the next column stand between those that multiply.  Of two halves of a register, one is loaded
// by ldr d, the other one by ldr x and ins, see tile_4x4_bytes.h.
#ifndef QN_ASM_ARM64_DWCONV_TILE_QS8C_NEON_H
#define QN_ASM_ARM64_DWCONV_TILE_QS8C_NEON_H

.macro multiply to, a, w
        smull   v\to\().8h, v\a\().8b, v\w\().8b
.endm

.macro multiply_high to, a, w
        smull2  v\to\().8h, v\a\().16b, v\w\().16b
.endm

.macro and_low to, a, w
        smlal   v\to\().8h, v\a\().8b, v\w\().8b
.endm

.macro and_high to, a, w
        smlal2  v\to\().8h, v\a\().16b, v\w\().16b
.endm

// Adds products to the sums of the upper or of the lower row.
.macro upper_low prod, from=0
        saddw   v0.4s, v\from\().4s, v\prod\().4h
.endm

.macro upper_high prod, from=1
        saddw2  v1.4s, v\from\().4s, v\prod\().8h
.endm

.macro lower_low prod, from=2
        saddw   v2.4s, v\from\().4s, v\prod\().4h
.endm

.macro lower_high prod, from=3
        saddw2  v3.4s, v\from\().4s, v\prod\().8h
.endm

.macro load_x row
        ldr     x\row, [x4, x\row]
.endm

.macro insert to, row
        ins     v\to\().d[1], x\row
.endm

// ---- stride 1

// .. come to a and b.
.macro load_k3s1 a, b
        load    \a, 19
        load_x  20
        load    \b, 21
        load_x  22
        insert  \a, 20
        insert  \b, 22
.endm

// The first products of a pixel, whose columns are in a0 a1, b0 ..
.macro begin_k3s1 a0, a1, b0
        multiply 4, \a0, 8
        and_high 4, \a0, 8
        multiply 5, \a1, 10
        and_high 5, \a1, 10
        multiply 6, \a1, 9
        and_low 6, \b0, 11
.endm

// A pixel, whose columns are in a0 a1, b0 b1, c0 c1.  The next one comes to a0 a1.  The first products are there, and
// those of the next pixel are begun while sums end.
.macro step_k3s1 p, a0, a1, b0, b1, c0, c1
        upper_low 4, 23
        count_pixel
        upper_high 4, 24
        try_column 24
        multiply_high 4, \a0, 9
        next_column
        and_high 4, \b0, 12
        lower_low 5, 23
        lower_high 5, 24
        ldp     w19, w20, [x12]
        multiply_high 5, \b0, 11
        ldr     w21, [x12, #8]
        and_low 5, \b1, 12
        ldr     w22, [x12, x24]
        upper_low 6
        sign_of 19
        upper_high 6
        choose  19
        multiply 6, \b1, 13
        sign_of 20
        and_high 6, \b1, 13
        choose  20
        lower_low 4
        sign_of 21
        lower_high 4
        choose  21
        multiply 4, \c0, 14
        sign_of 22
        and_high 4, \c0, 14
        choose  22
        upper_low 5
        check_rows k3s1, \p
        upper_high 5
        load    \a0, 19
        multiply 5, \c1, 16
        load_x  20
        and_high 5, \c1, 16
        load_x  22
        lower_low 6
        lower_high 6
        load    \a1, 21
        insert  \a0, 20
        multiply 6, \c1, 15
        upper_low 4
        upper_high 4
        multiply_high 4, \c0, 15
        insert  \a1, 22
        lower_low 5
        lower_high 5
        upper_low 6
        upper_high 6
        lower_low 4
        lower_high 4
        end_sums k3s1, \p, "multiply 4, \b0, 8", "and_high 4, \b0, 8", "multiply 5, \b1, 10", "and_high 5, \b1, 10", \
                "multiply 6, \b1, 9", , "and_low 6, \c0, 11"
.endm

fn qn_dwconv_qs8c_k3s1_4x8_neon
        begin_tile
0:      begin_panel
        ldp     q23, q24, [BIASES]
        ldr     q8, [x5, #32]
        ldur    q10, [x5, #40]
        ldur    q11, [x5, #56]
        ldr     q13, [x5, #64]
        ldr     q14, [x5, #80]
        ldur    q16, [x5, #88]
        ext     v9.16b, v10.16b, v8.16b, #8
        ext     v12.16b, v13.16b, v11.16b, #8
        ext     v15.16b, v16.16b, v14.16b, #8
1:      begin_pass 12, 8
        bl      L(column_s1)
        load_k3s1 17, 18
        add     x12, x12, #24
        bl      L(column_s1)
        load_k3s1 19, 20
        add     x12, x12, #24
        bl      L(column_s1)
        load_k3s1 21, 22
        begin_k3s1 17, 18, 19
2:      step_k3s1 0, 17, 18, 19, 20, 21, 22
        cbz     x14, 3f
        step_k3s1 1, 19, 20, 21, 22, 17, 18
        cbz     x14, 3f
        step_k3s1 2, 21, 22, 17, 18, 19, 20
        cbnz    x14, 2b
3:      next_pass 1, 1b
        next_panel 104, 0b
        leave

        .irp    p, 2, 1, 0
        store_rarely k3s1, \p
        end_rarely k3s1, \p
        copy_rarely k3s1, \p, 4
        .endr
endfn qn_dwconv_qs8c_k3s1_4x8_neon

// ---- stride 2

// .. come to a, b and c.
.macro load_k3s2 a, b, c
        load    \a, 19
        load_x  20
        load    \b, 21
        load_x  22
        load    \c, 23
        insert  \a, 20
        insert  \b, 22
.endm

// Products of the next pixel, and the rows of its right column.
.macro end_0
        multiply 4, 17, 8
        choose  19
.endm

.macro end_1
        and_high 4, 17, 8
        sign_of 20
.endm

.macro end_2
        multiply 5, 18, 8
        choose  20
.endm

.macro end_3
        and_high 5, 18, 8
        sign_of 21
.endm

.macro end_4
        multiply 6, 18, 9
        choose  21
        or_zero 22
.endm

.macro end_5
        and_low 6, 21, 11
        or_zero 23
        check_rows k3s2, 1
.endm

fn qn_dwconv_qs8c_k3s2_4x8_neon
        begin_tile
0:      begin_panel
        ldp     q23, q24, [BIASES]
        ldr     q8, [x5, #32]
        ldr     d9, [x5, #48]
        ldur    q10, [x5, #56]
        ldr     d11, [x5, #72]
        ldr     q12, [x5, #80]
        ldr     d13, [x5, #96]
1:      begin_pass 12, 4
        bl      L(column_s2)
        load_k3s2 17, 18, 19
        add     x12, x12, #36
        bl      L(column_s2)
        load_k3s2 20, 21, 22
        add     x12, x12, #36
        bl      L(column_s2)
        multiply 4, 17, 8
        and_high 4, 17, 8
        multiply 5, 18, 8
        and_high 5, 18, 8
        multiply 6, 18, 9
        and_low 6, 21, 11
2:                                      // a pixel: where its left column is comes the right one
        upper_low 4, 23
        count_pixel
        upper_high 4, 24
        try_column 72
        multiply 4, 19, 9
        next_column
        and_low 4, 22, 11
        load    17, 19
        lower_low 5, 23
        load_x  20
        lower_high 5, 24
        load_x  22
        multiply 5, 20, 10
        load    18, 21
        insert  17, 20
        and_high 5, 20, 10
        load    19, 23
        insert  18, 22
        upper_low 6
        ldp     w19, w20, [x12, #-36]
        upper_high 6
        add     x26, x12, x24
        multiply 6, 21, 10
        ldr     w21, [x12, #-28]
        and_high 6, 21, 10
        sign_of 19
        lower_low 4
        choose  19
        lower_high 4
        ldp     w22, w23, [x26, #-36]
        multiply 4, 17, 12
        sign_of 20
        and_high 4, 17, 12
        choose  20
        upper_low 5
        sign_of 21
        upper_high 5
        choose  21
        multiply 5, 18, 12
        sign_of 22
        and_high 5, 18, 12
        choose  22
        lower_low 6
        or_zero 23
        lower_high 6
        check_rows k3s2, 0
        multiply 6, 18, 13
        load    20, 19
        upper_low 4
        load_x  20
        upper_high 4
        load_x  22
        multiply 4, 19, 13
        load    21, 21
        insert  20, 20
        lower_low 5
        load    22, 23
        insert  21, 22
        lower_high 5
        add     x26, x12, x24
        upper_low 6
        ldp     w19, w20, [x12]
        upper_high 6
        ldr     w21, [x12, #8]
        lower_low 4
        ldp     w22, w23, [x26]
        lower_high 4
        sign_of 19
        end_sums k3s2, 0, end_0, end_1, end_2, end_3, end_4, , end_5
        cbnz    x14, 2b
        next_pass 2, 1b
        next_panel 104, 0b
        leave

        store_rarely k3s2, 0
        copy_rarely k3s2, 1, 5
        end_rarely k3s2, 0
        copy_rarely k3s2, 0, 5
endfn qn_dwconv_qs8c_k3s2_4x8_neon

#endif

// C[y][x][c] = requantize(bias[c] + sum over 3x3 taps of A * W) of bytes, tiles of 1 to 4 rows x 8 channels.
// Contract: src/kernel/dwconv.h; panels have the format k4
//
//   args, panel, pass, pixel, acc, fixed   dwconv_qs8c.h
//   stride 1   W      v8-v19: column i in v(8+2i) and the next, for the lower row in v(14+2i) and the next
//              quads  v20-v25: a column in two, three columns in turn
//              load   v4-v7
//   stride 2   W      v8-v13: column i in v(8+2i) and the next, for both rows
//              quads  v15-v18 left or right column, v4-v7 middle one: two for the upper row, two for the lower one
//              load   the same registers, and v19 or v14
//
// The bytes of a channel in four rows of A become a dword, by four interleavings for 8 channels.  Such quads serve two
// rows of windows of stride 1: the weights of the upper one are [w0 w1 w2 0], those of the lower one [0 w0 w1 w2].  So
// three dot products make four sums of nine products, and a quad serves three pixels side by side.
// For two rows x 8 channels: 4 operations with A, or 14 with stride 2, 12 dot products, 20 to end the sums; 4 or 10
// loads of A, 2 of biases, 3 or 6 of offsets.  Instructions that load for the next pixel stand between the others, for
// cores that issue in order.
#ifndef QN_ASM_ARM64_DWCONV_TILE_QS8C_DOTPROD_H
#define QN_ASM_ARM64_DWCONV_TILE_QS8C_DOTPROD_H

// sdot acc.4s, quad.16b, w.16b.  As a number, see dot.h.
.macro dot acc, quad, w
        .inst   0x4e809400 + \w * 0x10000 + \quad * 32 + \acc
.endm

// A column of the windows of two rows, two quads and weights each.  i0 .. stand between the dot products.
.macro dots q0, q1, q2, q3, w0, w1, w2, w3, i0, i1, i2, i3
        dot     0, \q0, \w0
        \i0
        dot     1, \q1, \w1
        \i1
        dot     2, \q2, \w2
        \i2
        dot     3, \q3, \w3
        \i3
.endm

// ---- stride 1

.macro dot_load_k3s1
        load    4, 19
        load    5, 20
        load    6, 21
        load    7, 22
.endm

.macro dot_quads_k3s1 lo, hi
        zip1    v4.16b, v4.16b, v5.16b
        zip1    v6.16b, v6.16b, v7.16b
        zip1    v\lo\().8h, v4.8h, v6.8h
        zip2    v\hi\().8h, v4.8h, v6.8h
.endm

// A pixel.  Its columns are in a, b and v4-v7, which go to c.
.macro dot_step_k3s1 p, a0, a1, b0, b1, c0, c1
        biases
        dots    \a0, \a1, \a0, \a1, 8, 9, 14, 15, count_pixel, "try_column 24", next_column, "ldp w19, w20, [x12]"
        zip1    v4.16b, v4.16b, v5.16b
        ldr     w21, [x12, #8]
        zip1    v6.16b, v6.16b, v7.16b
        ldr     w22, [x12, x24]
        dots    \b0, \b1, \b0, \b1, 10, 11, 16, 17, "sign_of 19", "choose 19", "sign_of 20", "choose 20"
        zip1    v\c0\().8h, v4.8h, v6.8h
        sign_of 21
        zip2    v\c1\().8h, v4.8h, v6.8h
        choose  21
        or_zero 22
        check_rows dot_k3s1, \p
        dots    \c0, \c1, \c0, \c1, 12, 13, 18, 19, "load 4, 19", "load 5, 20", "load 6, 21", "load 7, 22"
        end_sums dot_k3s1, \p
.endm

fn qn_dwconv_qs8c_k3s1_4x8_dotprod
        begin_tile
0:      begin_panel
        ldp     q8, q9, [x5, #32]
        ldp     q10, q11, [x5, #64]
        ldp     q12, q13, [x5, #96]
        shl     v14.4s, v8.4s, #8
        shl     v15.4s, v9.4s, #8
        shl     v16.4s, v10.4s, #8
        shl     v17.4s, v11.4s, #8
        shl     v18.4s, v12.4s, #8
        shl     v19.4s, v13.4s, #8
1:      begin_pass 12, 8
        bl      L(column_s1)
        dot_load_k3s1
        dot_quads_k3s1 20, 21
        add     x12, x12, #24
        bl      L(column_s1)
        dot_load_k3s1
        dot_quads_k3s1 22, 23
        add     x12, x12, #24
        bl      L(column_s1)
        dot_load_k3s1
#ifdef QN_SMALL                         // a tenth slower, but half a KB less
2:      dot_step_k3s1 0, 20, 21, 22, 23, 24, 25
        mov     v20.16b, v22.16b
        mov     v21.16b, v23.16b
        mov     v22.16b, v24.16b
        mov     v23.16b, v25.16b
        cbnz    x14, 2b
#else
2:      dot_step_k3s1 0, 20, 21, 22, 23, 24, 25
        cbz     x14, 3f
        dot_step_k3s1 1, 22, 23, 24, 25, 20, 21
        cbz     x14, 3f
        dot_step_k3s1 2, 24, 25, 20, 21, 22, 23
        cbnz    x14, 2b
#endif
3:      next_pass 1, 1b
        next_panel 128, 0b
        leave

#ifndef QN_SMALL
        .irp    p, 2, 1
        store_rarely dot_k3s1, \p
        end_rarely dot_k3s1, \p
        copy_rarely dot_k3s1, \p, 4
        .endr
#endif
        store_rarely dot_k3s1, 0
        end_rarely dot_k3s1, 0
        copy_rarely dot_k3s1, 0, 4

L(column_s1):
        find_k3s1
        cmp     x0, #8
        b.lo    L(copy_4)
        ret

endfn qn_dwconv_qs8c_k3s1_4x8_dotprod

// ---- stride 2

.macro dot_load_k3s2 a, b, c, d, e
        load    \a, 19
        load    \b, 20
        load    \c, 21
        load    \d, 22
        load    \e, 23
.endm

// Rows in a .. e become quads, in a and b of the upper row of C, in c and d of the lower one.
.macro dot_quads_k3s2 a, b, c, d, e, i0, i1, i2, i3, i4, i5, i6
        zip1    v\a\().16b, v\a\().16b, v\b\().16b
        \i0
        zip1    v\c\().16b, v\c\().16b, v\d\().16b
        \i1
        zip1    v\e\().16b, v\e\().16b, v\e\().16b
        \i2
        zip2    v\b\().8h, v\a\().8h, v\c\().8h
        \i3
        zip1    v\a\().8h, v\a\().8h, v\c\().8h
        \i4
        zip2    v\d\().8h, v\c\().8h, v\e\().8h
        \i5
        zip1    v\c\().8h, v\c\().8h, v\e\().8h
        \i6
.endm

.macro find_last
        or_zero 22
        or_zero 23
        check_rows dot_k3s2, 1
.endm

fn qn_dwconv_qs8c_k3s2_4x8_dotprod
        begin_tile
0:      begin_panel
        ldp     q8, q9, [x5, #32]
        ldp     q10, q11, [x5, #64]
        ldp     q12, q13, [x5, #96]
1:      begin_pass 12, 4
        bl      L(column_s2)
        dot_load_k3s2 15, 16, 17, 18, 19
        dot_quads_k3s2 15, 16, 17, 18, 19
        add     x12, x12, #36
        bl      L(column_s2)
        dot_load_k3s2 4, 5, 6, 7, 14
        add     x12, x12, #36
        bl      L(column_s2)
2:      biases                          // a pixel: where its left column is comes the right one
        dots    15, 16, 17, 18, 8, 9, 8, 9, count_pixel, "load 15, 19", "load 16, 20", "load 17, 21"
        dot_quads_k3s2 4, 5, 6, 7, 14, "load 18, 22", "load 19, 23", "try_column 72", next_column, \
                "ldp w19, w20, [x12, #-36]", "add x26, x12, x24", "ldr w21, [x12, #-28]"
        dots    4, 5, 6, 7, 10, 11, 10, 11, "ldp w22, w23, [x26, #-36]", "sign_of 19", "choose 19", "sign_of 20"
        dot_quads_k3s2 15, 16, 17, 18, 19, "choose 20", "sign_of 21", "choose 21", "sign_of 22", "choose 22", \
                "or_zero 23", "check_rows dot_k3s2, 0"
        dots    15, 16, 17, 18, 12, 13, 12, 13, "load 4, 19", "load 5, 20", "load 6, 21", "load 7, 22"
        load    14, 23
        end_sums dot_k3s2, 0, "ldp w19, w20, [x12]", "add x26, x12, x24", "ldr w21, [x12, #8]", "ldp w22, w23, [x26]", \
                "or_zero 19", "or_zero 20", "or_zero 21", find_last
        cbnz    x14, 2b
        next_pass 2, 1b
        next_panel 128, 0b
        leave

        store_rarely dot_k3s2, 0
        copy_rarely dot_k3s2, 1, 5
        end_rarely dot_k3s2, 0
        copy_rarely dot_k3s2, 0, 5
        copy_5

L(column_s2):
        find_k3s2
        cmp     x0, #8
        b.lo    L(copy_5)
        ret
endfn qn_dwconv_qs8c_k3s2_4x8_dotprod

#endif

// igemm with the tile of tile_8x8.h or another one of TILE_ROWS rows: C[m][n] = end of (bias[n] + sum over taps t,
// channels k of A(t, m)[k] * W[t][k][n]).  Contract: src/kernel/igemm.h
//
//   args   x0 mr  x1 nc  x2 kc(bytes)  x3 ks  x4 offsets  x5 a  x6 zero  x7 w  [sp] c  c_stride  p
//   tap    x4 its offsets   x19 the first tap's, x20 their end   x21 a   x22 zero    x28 return address
//
// Include the tile before this.
#ifndef QN_ASM_ARM64_IGEMM_TILE_H
#define QN_ASM_ARM64_IGEMM_TILE_H

// `frame` bytes of registers lie below the arguments.
.macro place frame
        keep_return x28
        mov     x19, x4
        .if     TILE_ROWS == 8
        add     x20, x4, x3, lsl #5     // as many offsets per tap
        .else
        add     x20, x4, x3, lsl #4
        .endif
        mov     x21, x5
        mov     x22, x6
        mov     x5, x7
        ldp     x6, x7, [sp, #(\frame)]
        ldr     x8, [sp, #(\frame) + 16]
        sub     x16, x0, #1             // last row of C
        madd    x6, x16, x7, x6
        bl      L(start)
.endm

// A of row m.  Where there is no row m it is the row before, and so are those after it.
.macro locate m, a, sums:vararg
        .if     \m > 0
        cmp     x0, #\m
        b.ls    L(no_row\m)
        .endif
        ldrsw   \a, [x4, #4 * \m]
        cmp     \a, #0
        add     \a, \a, x21
        csel    \a, \a, x22, ge
.endm

// Rows of a tap, once in a file: x4 moves on to the next tap.
.macro locate_part
L(locate):
        rows    locate
8:      add     x4, x4, #(4 * TILE_ROWS)
        ret
L(no_row1): mov x9, x3
L(no_row2): mov x10, x9
L(no_row3): mov x11, x10
        .if     TILE_ROWS == 8
L(no_row4): mov x12, x11
L(no_row5): mov x13, x12
L(no_row6): mov x14, x13
L(no_row7): mov x15, x14
        .endif
        b       8b
.endm

// The first function of a file.
.macro igemm name
fn \name
        save    d8, d9
        save    d10, d11
        save    x19, x20
        save    x21, x22
        save    x27, x28
        place   80
0:      mov     x4, x19
7:      bl      L(locate)
        sum
        cmp     x4, x20
        b.ne    7b
        bl      L(finish)
        cbnz    x1, 0b
        return_from x28
        restore x27, x28
        restore x21, x22
        restore x19, x20
        restore d10, d11
        restore d8, d9
        ret
        .cfi_endproc

        .cfi_startproc                  // whatever the caller's frame
        locate_part
        parts
endfn \name
.endm

// Another one, for a core that issues in order.
.macro igemm_inorder name, core
fn \name
        save_inorder
        save    x19, x20
        save    x21, x22
        save    x27, x28
        place   INORDER_FRAME + 48
0:      mov     x4, x19
7:      bl      L(locate)
        sum_inorder \core
        cmp     x4, x20
        b.ne    7b
        bl      L(finish)
        cbnz    x1, 0b
        return_from x28
        restore x27, x28
        restore x21, x22
        restore x19, x20
        restore_inorder
        ret
endfn \name
.endm

#endif

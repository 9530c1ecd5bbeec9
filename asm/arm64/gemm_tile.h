// gemm with the tile of tile_8x8.h or another one of TILE_ROWS rows: C[m][n] = end of (bias[n] + sum over k of
// A[m][k] * W[k][n]).  Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//
// Include the tile before this.
#ifndef QN_ASM_ARM64_GEMM_TILE_H
#define QN_ASM_ARM64_GEMM_TILE_H

// A of row m is one stride after that of the row before, or the same when there is no row m.
.macro locate m, a, before
        add     \a, \before, x4
        cmp     x0, #\m
        csel    \a, \a, \before, hi
.endm

// All rows, of which the first is at x3.
.macro locate_rows
        locate  1, x9,  x3
        locate  2, x10, x9
        locate  3, x11, x10
        .if     TILE_ROWS == 8
        locate  4, x12, x11
        locate  5, x13, x12
        locate  6, x14, x13
        locate  7, x15, x14
        .endif
.endm

// Behind the last whole 16 bytes of k.
.macro rewind m, a, sums:vararg
        sub     \a, \a, x16
.endm

// Leaves the return address in x4, as the stride is no longer needed.
.macro place
        keep_return x17
        bl      L(place)
        mov     x4, x17
        .cfi_register x30, x4
.endm

// The first function of a file, which may begin with something of its own.
.macro gemm name, begin
fn \name
        ldr     x8, [sp]
        \begin
        save    d8, d9
        save    d10, d11
        place
0:      sum
        and     x16, x2, #-16
        rows    rewind                  // A again for the next panel
        bl      L(finish)
        cbnz    x1, 0b
        return_from x4
        restore d10, d11
        restore d8, d9
        ret
        .cfi_endproc

        .cfi_startproc                  // whatever the caller's frame
L(place):
        sub     x16, x0, #1             // last row of C
        madd    x6, x16, x7, x6
        locate_rows
        parts
endfn \name
.endm

// Another one, for a core that issues in order.
.macro gemm_inorder name, core, begin
fn \name
        ldr     x8, [sp]
        \begin
        save_inorder
        place
0:      sum_inorder \core
        bl      L(finish)
        cbnz    x1, 0b
        return_from x4
        restore_inorder
        ret
endfn \name
.endm

#endif

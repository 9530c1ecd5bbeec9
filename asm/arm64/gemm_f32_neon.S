// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 8 rows x 8 channels.  Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   tile   tile_8x8.h and tile_8x8_inorder.h
#include "tile_8x8_inorder.h"

// A of row m is one stride after that of the row before, or the same when there is no row m.
.macro locate m, a, before
        add     \a, \before, x4
        cmp     x0, #\m
        csel    \a, \a, \before, hi
.endm

.macro place
        sub     x16, x0, #1             // last row of C
        madd    x6, x16, x7, x6
        locate  1, x9,  x3
        locate  2, x10, x9
        locate  3, x11, x10
        locate  4, x12, x11
        locate  5, x13, x12
        locate  6, x14, x13
        locate  7, x15, x14
.endm

.macro rewind m, a, lo, hi, none
        sub     \a, \a, x2
.endm

fn qn_gemm_f32_8x8_neon
        ldr     x8, [sp]
        save    d8, d9
        save    d10, d11
        place
0:      start
        sum
        rows    rewind                  // A again for the next panel
        clamp
        store   0b
        restore d10, d11
        restore d8, d9
        ret
endfn qn_gemm_f32_8x8_neon

.macro gemm_inorder core
fn qn_gemm_f32_8x8_neon_\core
        ldr     x8, [sp]
        save_inorder
        place
0:      start
        sum_inorder \core
        clamp
        store   0b
        restore_inorder
        ret
endfn qn_gemm_f32_8x8_neon_\core
.endm

gemm_inorder a53
gemm_inorder a55

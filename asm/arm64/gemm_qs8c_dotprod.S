// C[m][n] = requantized (bias[n] + sum over k of A[m][k] * W[k][n]), 8 rows x 8 channels of bytes, with dot products.
// Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   code   gemm_tile.h, row_1x8.h   tile   tile_8x8.h and tile_8x8_inorder.h
#include "tile_8x8_qs8c.h"
#include "tile_8x8_inorder.h"
#include "gemm_tile.h"
#include "row_1x8.h"

gemm    qn_gemm_qs8c_8x8_dotprod
gemm_inorder qn_gemm_qs8c_8x8_dotprod_a55, a55

// One row: row_1x8.h.
fn qn_gemm_qs8c_1x8_dotprod
        ldr     x8, [sp]
0:      add     x13, x2, #3
        and     x13, x13, #-4
        lsl     x13, x13, #3
        add     x13, x13, #32           // bytes of a panel
        panel_words
        b.eq    7f
3:      subs    x13, x13, #4
        b.lo    5f
        ldr     s0, [x12], #4
4:      panels  panel_load, 0
        panels  panel_step, 0, 4
        panels  panel_next, 1
        b.hi    3b                      // there were more than four
        b       7f
5:      tbz     x13, #1, 6f             // 1 .. 3 bytes, less 4
        ldr     h0, [x12], #2
        tbz     x13, #0, 4b
        ld1     {v0.b}[2], [x12]
        b       4b
6:      ldr     b0, [x12]
        b       4b

7:      mov     x5, x11                 // the panels, one after the other, from v16 v17
        mov     x13, #4
8:      ldp     q0, q1, [x8, #REQUANTIZE_SCALES]
        load_zero_and_bounds
        to_float 0, , 16, 17
        scale   0, , 16, 17, 0
        round   0, , 16, 17
        to_integer 0, , 16, 17
        narrow  0, , 16, 17
        narrow_high 0, , 16, 17
        narrow_again 16, 16, 16
        clamp_bytes 16, 16, 16
        cmp     x1, #8
        b.lo    9f
        str     d16, [x6], #8
        subs    x1, x1, #8
        b.eq    10f
        add     x8, x8, #(REQUANTIZE_SCALES + 32)
        move_panels
        subs    x13, x13, #1
        b.ne    8b
        b       0b
9:      fmov    x16, d16
        store_first_bytes x6, x1, 16, 8
10:     ret
endfn qn_gemm_qs8c_1x8_dotprod

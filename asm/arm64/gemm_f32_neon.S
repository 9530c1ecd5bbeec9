// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 8 rows x 8 channels.  Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   tile   tile_8x8.h and tile_8x8_inorder.h
#include "tile_8x8_f32.h"
#include "tile_8x8_inorder.h"
#include "gemm_tile.h"
#include "row_1x8.h"

gemm    qn_gemm_f32_8x8_neon
gemm_inorder qn_gemm_f32_8x8_neon_a53, a53
gemm_inorder qn_gemm_f32_8x8_neon_a55, a55

.macro panel_store w, lo, hi, w0, w1, none
        cmp     x1, #8
        b.lo    L(part)
        stp     q\lo, q\hi, [x6], #32
        sub     x1, x1, #8
.endm

fn qn_gemm_f32_1x8_neon
        ldr     x8, [sp]
0:      lsl     x13, x2, #3
        add     x13, x13, #32           // bytes of a panel
        panel_words
        last_panel_words
        add     x12, x8, #MINMAX_MIN
        add     x13, x8, #MINMAX_MAX
        ld1r    {v0.4s}, [x12]
        ld1r    {v1.4s}, [x13]
        clamp_rows 16, 17, 18, 19
        clamp_rows 20, 21, 22, 23
        mov     x5, x11
        panels  panel_store
        cbnz    x1, 0b
L(part):
        store_first x6, x1, 22, 23      // panels that are not there have the sums of the last one
        ret
endfn qn_gemm_f32_1x8_neon

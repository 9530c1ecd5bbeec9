// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]) of bytes, 4 rows x 8 channels, for weights above -128
// and for any.  Contract: src/kernel/gemm.h
//
//   args   r0 mr  r1 nc  r2 k(bytes)  r3 a  stack: a_stride w c c_stride p
//   regs   tile_qs8c.h, and r8 a  r9 a_stride
#include "tile_qs8c.h"

#define A_STRIDE (TILE_STACK + 0)
#define W (TILE_STACK + 4)
#define C (TILE_STACK + 8)
#define C_STRIDE (TILE_STACK + 12)
#define P (TILE_STACK + 16)

.macro gemm_qs8c_4x8c2 name, weights
fn \name
        save_registers
        mov     r8, r3
        ldr     r9, [sp, #A_STRIDE]
        ldr     r7, [sp, #W]
        ldr     r10, [sp, #C]
        ldr     r11, [sp, #C_STRIDE]

0:      begin_panel_qs8c
        mov     r3, r8
        locate  r9
        multiply_\weights
        end_panel_qs8c P
endfn \name
.endm

        gemm_qs8c_4x8c2 qn_gemm_qs8c_4x8c2_neon, w127
        gemm_qs8c_4x8c2 qn_gemm_qs8c_4x8c2_any_neon, any

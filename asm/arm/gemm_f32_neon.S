// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 4 rows x 8 channels.  Contract: src/kernel/gemm.h
//
//   args   r0 mr  r1 nc  r2 k(bytes)  r3 a  stack: a_stride w c c_stride p
//   regs   asm.h, and r8 a  r9 a_stride
#include "asm.h"

#define A_STRIDE (TILE_STACK + 0)
#define W (TILE_STACK + 4)
#define C (TILE_STACK + 8)
#define C_STRIDE (TILE_STACK + 12)
#define P (TILE_STACK + 16)

.macro gemm_4x8 level
fn qn_gemm_f32_4x8_\level
        save_registers
        mov     r8, r3
        ldr     r9, [sp, #A_STRIDE]
        ldr     r7, [sp, #W]
        ldr     r10, [sp, #C]
        ldr     r11, [sp, #C_STRIDE]

0:      begin_panel
        mov     r3, r8
        locate  r9
        multiply \level
        end_panel P
endfn qn_gemm_f32_4x8_\level
.endm

        gemm_4x8 neon
        .fpu    neon-vfpv4
        gemm_4x8 neonfma

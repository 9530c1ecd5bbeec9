// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 4 rows x 8 channels.
// Contract: src/kernel/igemm.h
//
//   args   r0 mr  r1 nc  r2 kc(bytes)  r3 ks  stack: offsets a zero w c c_stride p
//   regs   asm.h, and r8 offsets of the tap  r9 taps that are left  lr a
#include "asm.h"

#define KS TILE_R3
#define OFFSETS (TILE_STACK + 0)
#define A (TILE_STACK + 4)
#define ZERO (TILE_STACK + 8)
#define W (TILE_STACK + 12)
#define C (TILE_STACK + 16)
#define C_STRIDE (TILE_STACK + 20)
#define P (TILE_STACK + 24)

// A negative offset stands for zeros.
.macro address_of m, row, lo, hi, none
        cmp     \row, #0
        addge   \row, lr, \row
        movlt   \row, r12
.endm

.macro igemm_4x8 level
fn qn_igemm_f32_4x8_\level
        save_registers
        ldr     r7, [sp, #W]
        ldr     r10, [sp, #C]
        ldr     r11, [sp, #C_STRIDE]
        ldr     lr, [sp, #A]

0:      begin_panel
        ldr     r8, [sp, #OFFSETS]
        ldr     r9, [sp, #KS]
9:      ldr     r3, [r8]                // a tap
        load_offset 1, r4, r3
        load_offset 2, r5, r4
        load_offset 3, r6, r5
        add     r8, r8, #TAP
        ldr     r12, [sp, #ZERO]
        rows    address_of
        multiply \level
        subs    r9, r9, #1
        bne     9b
        end_panel P
endfn qn_igemm_f32_4x8_\level
.endm

        igemm_4x8 neon
        .fpu    neon-vfpv4
        igemm_4x8 neonfma

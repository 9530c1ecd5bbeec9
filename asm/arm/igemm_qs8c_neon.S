// C[m][n] = requantize(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]) of bytes, 4 rows x 8 channels,
// for weights above -128 and for any.  Contract: src/kernel/igemm.h
//
//   args   r0 mr  r1 nc  r2 kc(bytes)  r3 ks  stack: offsets a zero w c c_stride p
//   regs   tile_qs8c.h, and r8 offsets of the tap  r9 taps that are left  r11 a, in a panel  lr scratch
#include "tile_qs8c.h"

#define KS TILE_R3
#define OFFSETS (TILE_STACK + 0)
#define A (TILE_STACK + 4)
#define ZERO (TILE_STACK + 8)           // then zero - a
#define W (TILE_STACK + 12)
#define C (TILE_STACK + 16)
#define C_STRIDE (TILE_STACK + 20)
#define P (TILE_STACK + 24)

.macro igemm_qs8c_4x8c2 name, weights
fn \name
        save_registers
        ldr     r7, [sp, #W]
        ldr     r10, [sp, #C]
        ldr     r11, [sp, #A]
        ldr     r12, [sp, #ZERO]
        sub     r12, r12, r11
        str     r12, [sp, #ZERO]

0:      begin_panel_qs8c
        ldr     r8, [sp, #OFFSETS]
        ldr     r9, [sp, #KS]
        ldr     r11, [sp, #A]
9:      cmp     r0, #4
        blo     11f
        ldm     r8, {r3-r6}
10:     add     r8, r8, #TAP
        find_rows 12f, r11, r3, r4, r5, r6
        multiply_\weights
        subs    r9, r9, #1
        bne     9b
        ldr     r11, [sp, #C_STRIDE]
        end_panel_qs8c P
11:     ldr     r3, [r8]
        load_offset 1, r4, r3
        load_offset 2, r5, r4
        mov     r6, r5
        b       10b
12:     choose_zeros ZERO, r3, r4, r5, r6
endfn \name
.endm

        igemm_qs8c_4x8c2 qn_igemm_qs8c_4x8c2_neon, w127
        igemm_qs8c_4x8c2 qn_igemm_qs8c_4x8c2_any_neon, any

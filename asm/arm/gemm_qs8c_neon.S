// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]) of bytes, 4 rows x 8 channels, for weights above -128
// and for any; and one row, for weights above -128.  Contract: src/kernel/gemm.h
//
//   args   r0 mr  r1 nc  r2 k(bytes)  r3 a  stack: a_stride w c c_stride p
//   regs   tile_qs8c.h, and r8 a  r9 a_stride
//
// One row:  r0 k left  r3 a  r7 w  r10 c
//   acc     q8 q9, q14 q15 every second four k
//   load    q6 q7, q12 q13 four k of W    q0 q1 eight k of A, two in each half
//   prod    q2 q3, q10 q11
//   then    see requantize.h, and q4 q5 scales
// Eight k of a row, 64 products, are 12 instructions, 3 loads, and 2 for the loop.
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

// Stores some bytes, and goes on to those behind them.
.macro store_part_of_row bits
        vst1.\bits {d16[0]}, [r10]!
        .if     \bits > 8
        vshr.u64 d16, d16, #\bits
        .endif
.endm

fn qn_gemm_qs8c_1x8c2_neon
        save_registers
        mov     r8, r3
        ldr     r7, [sp, #W]
        ldr     r10, [sp, #C]
        ldr     r12, [sp, #P]

0:      vld1.32 {q8, q9}, [r7:128]!
        mov     r3, r8
        .irp    zero, 14, 15, 2, 3, 10, 11
        vmov.i32 q\zero, #0
        .endr
        subs    r0, r2, #8
        blo     2f
1:      vld4.16 {d0[], d1[], d2[], d3[]}, [r3]!
        vld1.8  {q6, q7}, [r7:128]!
        vld1.8  {q12, q13}, [r7:128]!
        add_products 8, 9, 14, 15, 10, 11       // of the step before
        vmull.s8 q2, d12, d0
        vmull.s8 q3, d13, d0
        vmull.s8 q10, d24, d2
        vmull.s8 q11, d25, d2
        vmlal.s8 q2, d14, d1
        vmlal.s8 q3, d15, d1
        vmlal.s8 q10, d26, d3
        vmlal.s8 q11, d27, d3
        subs    r0, r0, #8
        bhs     1b
2:      add_products 8, 9, 14, 15, 10, 11
        vadd.i32 q8, q8, q14
        vadd.i32 q9, q9, q15
        adds    r0, r0, #6              // k mod 8, two at a time
        bmi     4f
3:      load_k  2, 0, 1, r3
        vld1.8  {q6}, [r7:128]!
        vmull.s8 q2, d12, d0
        vmull.s8 q3, d13, d0
        vpadal.s16 q8, q2
        vpadal.s16 q9, q3
        subs    r0, r0, #2
        bpl     3b
4:      tst     r2, #1
        beq     5f
        load_k  1, 0, 1, r3
        vld1.8  {q6}, [r7:128]!
        vmull.s8 q2, d12, d0
        vmull.s8 q3, d13, d0
        vpadal.s16 q8, q2
        vpadal.s16 q9, q3

5:      load_requantize r12
        vld1.32 {q4, q5}, [r12]!
        convert 0, none, 8, 9
        scale   0, none, 8, 9
        round   0, none, 8, 9
        add_zero 0, none, 8, 9
        narrow  0, none, 8, 9
        vqmovn.s16 d16, q8
        vmax.s8 d16, d16, d4
        vmin.s8 d16, d16, d6
        subs    r1, r1, #8
        blo     6f
        vst1.8  {d16}, [r10]!
        bne     0b
        leave
6:      tst     r1, #4                  // nc mod 8 channels: four, two and one of them
        beq     7f
        store_part_of_row 32
7:      tst     r1, #2
        beq     8f
        store_part_of_row 16
8:      tst     r1, #1
        beq     9f
        store_part_of_row 8
9:      leave
endfn qn_gemm_qs8c_1x8c2_neon

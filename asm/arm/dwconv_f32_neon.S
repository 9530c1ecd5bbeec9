// C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 4 pixels x 8 channels.
// Contract: src/kernel/dwconv.h
//
//   args   r0 channels  r1 pixels  r2 taps  r3 offsets  stack: step a zero w c c_stride p
//   panel  r8 a at its channels; channels left, W, C and zero - a on the stack
//   tile   r0 pixels left  r1 C of the next one  r7 W  r2 taps left     r9-r12 offsets and rows of A  lr scratch
//   pixels r3 r4 r5 r6, of offsets and then of C; rows of asm.h
//   acc    q8-q15: pixel m holds q(8+2m), q(9+2m)
//   load   q4 q5 a row of W    q0 q1, q2 q3, q6 q7 of A
//   then   q0 min  q1 max  q2 q3 masks
//
// One row of W serves four pixels: a step is 8 multiply-adds, 5 loads of two vectors, and 4 of offsets.  Pixels behind
// the last one are that one again.  Of a panel with fewer than 8 channels four go together, then one at a time.
#include "asm.h"

// What the stack holds.
#define CHANNELS 64
#define PIXELS 68
#define TAPS 72
#define OFFSETS 76
#define TABLE 112                       // offsets of the tile's first pixel
#define STEP 120
#define A 124
#define ZERO 128                        // then zero - a
#define W 132
#define C 136
#define C_STRIDE 140
#define P 144

// 8, 4 or 1 channels of a row, 8 perhaps from an aligned place.
.macro load lo, hi, address, aligned
        .if     AT_ONCE == 8
        vld1.32 {q\lo, q\hi}, [\address\aligned]
        .elseif AT_ONCE == 4
        vld1.32 {q\lo}, [\address]
        .else
        vld1.32 {low\lo[]}, [\address]
        .endif
.endm

.macro begin m, table, lo, hi, none
        .if     \m > 0                  // pixel 0 was loaded
        vmov    q\lo, q8
        .if     AT_ONCE == 8
        vmov    q\hi, q9
        .endif
        .endif
.endm

.macro step level, lo, hi, in, in_hi
        multiply_add_\level q\lo, q4, q\in
        .if     AT_ONCE == 8
        multiply_add_\level q\hi, q5, q\in_hi
        .endif
.endm

// Half of asm.h's.
.macro clamp_low m, address, lo, hi, none
        vcgt.f32 q2, q0, q\lo
        vbit    q\lo, q0, q2
        vcgt.f32 q3, q\lo, q1
        vbit    q\lo, q1, q3
.endm

.macro store m, address, lo, hi, none
        .if     AT_ONCE == 4
        vst1.32 {q\lo}, [\address]
        .else
        vst1.32 {low\lo[0]}, [\address]
        .endif
.endm

// All pixels of some channels, four pixels at a time.
.macro tiles level, channels
        .set    AT_ONCE, \channels
        ldr     r0, [sp, #PIXELS]
        ldr     r1, [sp, #C]
        ldr     r3, [sp, #OFFSETS]
1:      str     r3, [sp, #TABLE]
        ldr     r12, [sp, #STEP]
        locate  r12
        ldr     r2, [sp, #TAPS]
        ldr     r7, [sp, #W]
        load    8, 9, r7, :256          // start from the bias
        rows    begin
        add     r7, r7, #32

2:      ldr     r9, [r3], #4
        ldr     r10, [r4], #4
        ldr     r11, [r5], #4
        ldr     r12, [r6], #4
        load    4, 5, r7, :256
        add     r7, r7, #32
        find_rows 7f, r8, r9, r10, r11, r12
        load    0, 1, r9
        load    2, 3, r10
        load    6, 7, r11
        step    \level, 8, 9, 0, 1
        load    0, 1, r12
        step    \level, 10, 11, 2, 3
        step    \level, 12, 13, 6, 7
        step    \level, 14, 15, 0, 1
        subs    r2, r2, #1
        bne     2b

        load_limits P
        mov     r3, r1
        ldr     r12, [sp, #C_STRIDE]
        locate  r12
        add     r1, r1, r12, lsl #2
        .if     \channels == 8
        rows    clamp
        rows    store8
        .else
        rows    clamp_low
        rows    store
        .endif
        ldr     r3, [sp, #TABLE]
        ldr     r12, [sp, #STEP]
        add     r3, r3, r12, lsl #2
        subs    r0, r0, #4
        bhi     1b
.endm

// On to other channels, whose W is at r7.
.macro next channels
        ldr     r10, [sp, #C]
        ldr     r11, [sp, #CHANNELS]
        add     r8, r8, #(4 * \channels)
        add     r10, r10, #(4 * \channels)
        str     r7, [sp, #W]
        str     r10, [sp, #C]
        subs    r11, r11, #\channels
        str     r11, [sp, #CHANNELS]
.endm

.macro next_in_panel channels
        ldr     r7, [sp, #W]
        add     r7, r7, #(4 * \channels)
        next    \channels
.endm

.macro dwconv_np8 level
fn qn_dwconv_f32_np8_\level
        save    r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr
        vsave   d8, d9, d10, d11, d12, d13, d14, d15
        ldr     r8, [sp, #A]
        ldr     r9, [sp, #ZERO]
        mov     r11, r0
        sub     r9, r9, r8
        str     r9, [sp, #ZERO]

0:      cmp     r11, #8
        blo     4f
        tiles   \level, 8
        next    8                       // behind the panel
        bne     0b
        b       6f
4:      cmp     r11, #4
        blo     5f
        tiles   \level, 4
        next_in_panel 4
        beq     6f
5:      tiles   \level, 1
        next_in_panel 1
        bne     5b
6:      vpop    {d8-d15}
        add     sp, sp, #16
        pop     {r4-r12, pc}
7:      choose_zeros ZERO, r9, r10, r11, r12
endfn qn_dwconv_f32_np8_\level
.endm

        dwconv_np8 neon
        .fpu    neon-vfpv4
        dwconv_np8 neonfma

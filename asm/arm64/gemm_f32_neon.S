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

// Behind the last k that was part of four.
.macro rewind m, a, lo, hi, none
        sub     \a, \a, x16
.endm

// Leaves the return address in x4, as the stride is no longer needed.
.macro place
        keep_return x17
        bl      L(place)
        mov     x4, x17
        .cfi_register x30, x4
.endm

fn qn_gemm_f32_8x8_neon
        ldr     x8, [sp]
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
        locate  1, x9,  x3
        locate  2, x10, x9
        locate  3, x11, x10
        locate  4, x12, x11
        locate  5, x13, x12
        locate  6, x14, x13
        locate  7, x15, x14
        parts
endfn qn_gemm_f32_8x8_neon

.macro gemm_inorder core
fn qn_gemm_f32_8x8_neon_\core
        ldr     x8, [sp]
        save_inorder
        place
0:      sum_inorder \core
        bl      L(finish)
        cbnz    x1, 0b
        return_from x4
        restore_inorder
        ret
endfn qn_gemm_f32_8x8_neon_\core
.endm

gemm_inorder a53
gemm_inorder a55

// One row x 8 channels, four panels side by side: there are no others whose FMAs could go by while one waits.
//
//   args   x1 channels left  x2 k(bytes)  x3 a  x6 c  x8 p
//   W      x5 x9 x10 x11, of a panel that is not there that of the one before     A  x12     x13 bytes of k left
//   acc    v16-v23, two of each panel     load  v0 four k of A  v24-v31 one row of each panel
//
// Four k are 32 FMAs and 17 loads (16 of 32 bytes).

.macro panels do, arg:vararg
        \do     x5,  16, 17, 24, 25, \arg
        \do     x9,  18, 19, 26, 27, \arg
        \do     x10, 20, 21, 28, 29, \arg
        \do     x11, 22, 23, 30, 31, \arg
.endm

.macro panel_bias w, lo, hi, w0, w1, none
        ldp     q\lo, q\hi, [\w], #32
.endm

.macro panel_load w, lo, hi, w0, w1, row
        ldp     q\w0, q\w1, [\w, #(32 * \row)]
.endm

// Loads for the next row come right behind the last use.
.macro panel_step w, lo, hi, w0, w1, lane, next
        fmla    v\lo\().4s, v\w0\().4s, v0.s[\lane]
        fmla    v\hi\().4s, v\w1\().4s, v0.s[\lane]
        .if     \next < 4
        panel_load \w, \lo, \hi, \w0, \w1, \next
        .endif
.endm

.macro panel_next w, lo, hi, w0, w1, rows
        add     \w, \w, #(32 * \rows)
.endm

.macro panel_address n, w, before
        add     \w, \before, x13
        cmp     x1, #(8 * \n)
        csel    \w, \w, \before, hi
.endm

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
        panel_address 1, x9,  x5
        panel_address 2, x10, x9
        panel_address 3, x11, x10
        panels  panel_bias
        mov     x12, x3
        subs    x13, x2, #16
        b.lo    2f
1:      ldr     q0, [x12], #16
        panels  panel_load, 0
        panels  panel_step, 0, 1
        panels  panel_step, 1, 2
        panels  panel_step, 2, 3
        panels  panel_step, 3, 4
        panels  panel_next, 4
        subs    x13, x13, #16
        b.hs    1b
2:      adds    x13, x13, #16           // k mod 4
        b.eq    4f
3:      ldr     s0, [x12], #4
        panels  panel_load, 0
        panels  panel_step, 0, 4
        panels  panel_next, 1
        subs    x13, x13, #4
        b.ne    3b
4:      add     x12, x8, #MINMAX_MIN
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

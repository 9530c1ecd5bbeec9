// C[n] = clamp(bias[n] + scale[n] * sum over k of A[k] * W[k][n]) with weights of bytes, one row x 8 channels.
// Contract: src/kernel/gemm.h
//
//   args   x1 channels left  x2 k(bytes)  x3 a  x5 w  x6 c  x8 p
//   A      x12     x13 bytes of k left
//   acc    the sums of every fourth k from i on in v(16+2i), v(17+2i)
//   load   v0 four A  v4-v7 the weights of one k each  v24-v31 the same as floats
//
// Four k are 4 loads of weights, 12 instructions that widen, 8 that convert, and 8 multiply-adds.
#include "asm.h"
#include "clamp_f32.h"

.macro widen_one w
        sxtl    v\w\().8h, v\w\().8b
.endm

.macro widen_two w, lo, hi
        sxtl    v\lo\().4s, v\w\().4h
        sxtl2   v\hi\().4s, v\w\().8h
.endm

.macro convert_two lo, hi
        scvtf   v\lo\().4s, v\lo\().4s
        scvtf   v\hi\().4s, v\hi\().4s
.endm

.macro multiply_two lo, hi, w0, w1, lane
        fmla    v\lo\().4s, v\w0\().4s, v0.s[\lane]
        fmla    v\hi\().4s, v\w1\().4s, v0.s[\lane]
.endm

// The only k behind the whole fours that these sums take.
.macro last_k lo, hi
        ldr     s0, [x12], #4
        ldr     d4, [x5], #8
        widen_one 4
        widen_two 4, 24, 25
        convert_two 24, 25
        multiply_two \lo, \hi, 24, 25, 0
.endm

fn qn_gemm_qw8c_1x8_neon
        ldr     x8, [sp]
0:      .irp    i, 16, 17, 18, 19, 20, 21, 22, 23
        movi    v\i\().4s, #0
        .endr
        add     x5, x5, #32             // the sums of weights
        mov     x12, x3
        subs    x13, x2, #16
        b.lo    2f
1:      ldp     d4, d5, [x5], #16
        ldp     d6, d7, [x5], #16
        ldr     q0, [x12], #16
        widen_one 4
        widen_one 5
        widen_one 6
        widen_one 7
        widen_two 4, 24, 25
        widen_two 5, 26, 27
        widen_two 6, 28, 29
        widen_two 7, 30, 31
        convert_two 24, 25
        convert_two 26, 27
        convert_two 28, 29
        convert_two 30, 31
        multiply_two 16, 17, 24, 25, 0
        multiply_two 18, 19, 26, 27, 1
        multiply_two 20, 21, 28, 29, 2
        multiply_two 22, 23, 30, 31, 3
        subs    x13, x13, #16
        b.hs    1b
2:      adds    x13, x13, #16
        b.eq    3f
        last_k  16, 17
        subs    x13, x13, #4
        b.eq    3f
        last_k  18, 19
        subs    x13, x13, #4
        b.eq    3f
        last_k  20, 21

3:      fadd    v16.4s, v16.4s, v18.4s
        fadd    v17.4s, v17.4s, v19.4s
        fadd    v20.4s, v20.4s, v22.4s
        fadd    v21.4s, v21.4s, v23.4s
        load_bounds
        add     x16, x8, #DEQUANTIZE_SCALES
        ldp     q24, q25, [x16]
        ldp     q26, q27, [x16, #32]
        add     x8, x16, #64
        fadd    v16.4s, v16.4s, v20.4s
        fadd    v17.4s, v17.4s, v21.4s
        fmul    v16.4s, v16.4s, v24.4s
        fmul    v17.4s, v17.4s, v25.4s
        fadd    v16.4s, v16.4s, v26.4s
        fadd    v17.4s, v17.4s, v27.4s
        end_one_row 16, 17, 2, 3, 0b
endfn qn_gemm_qw8c_1x8_neon

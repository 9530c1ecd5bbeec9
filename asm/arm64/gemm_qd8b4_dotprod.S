// Products of rows that are quantized each on its own with weights of 4 bits that have scales for blocks, one row x 8
// channels, with dot products, to floats.  Contract: src/kernel/gemm.h; panels have the format k4.
//
//   args   x1 channels left  x2 k(bytes)  x3 a  x5 w  x6 c  x8 p
//   A      x12     x13 bytes left
//   acc    v20 v21, v22 v23 the products of a block, of four channels each, of every other four k
//          v24 v25 the sums of all blocks     v26 v27 the sums of weights
//   load   v0 v1 32 bytes of A  v2 what the products begin with  v3 the lower halves of bytes
//          v4-v7 weights of 16 k  v16-v19 halves of some
//
// A block is 16 dot products, 16 instructions that take weights apart, 7 loads, and 10 instructions for its sums.
#include "asm.h"
#include "clamp_f32.h"
#include "dot.h"

.macro halves w, lo, hi
        and     v\lo\().16b, v\w\().16b, v3.16b
        ushr    v\hi\().16b, v\w\().16b, #4
.endm

// The products of eight k: words number `word` and `other` of v\a, with the weights in v\w and v\next.
.macro multiply_8 a, word, other, w, next
        halves  \w, 16, 17
        halves  \next, 18, 19
        mac     20, 16, \a, \word
        mac     22, 17, \a, \word
        mac     21, 18, \a, \other
        mac     23, 19, \a, \other
.endm

// The products of 16 k, those in v\a.
.macro multiply_16 a
        ldp     q4, q5, [x5], #32
        ldp     q6, q7, [x5], #32
        multiply_8 \a, 0, 1, 4, 5
        multiply_8 \a, 2, 3, 6, 7
.endm

fn qn_gemm_qd8b4_1x8_dotprod
        ldr     x8, [sp]
        movi    v3.16b, #15
0:      ldp     q26, q27, [x5], #32
        movi    v24.4s, #0
        movi    v25.4s, #0
        mov     x12, x3
        mov     x13, x2
1:      ldr     s2, [x12], #4
        ldp     q0, q1, [x12], #32
        movi    v21.4s, #0
        dup     v20.4s, v2.s[0]
        movi    v23.4s, #0
        dup     v22.4s, v2.s[0]
        multiply_16 0
        multiply_16 1
        ldp     q4, q5, [x5], #32       // scales
        add     v20.4s, v20.4s, v21.4s
        add     v22.4s, v22.4s, v23.4s
        scvtf   v20.4s, v20.4s
        scvtf   v22.4s, v22.4s
        fmul    v20.4s, v20.4s, v4.4s
        fmul    v22.4s, v22.4s, v5.4s
        fadd    v24.4s, v24.4s, v20.4s
        fadd    v25.4s, v25.4s, v22.4s
        subs    x13, x13, #QUANTIZED_BLOCK_BYTES
        b.ne    1b

        ldp     s4, s5, [x3, #QUANTIZED_ROW_SCALE]      // the scale and the zero point of the row
        add     x16, x8, #DEQUANTIZE_BIASES
        load_bounds
        ldp     q6, q7, [x16], #32
        mov     x8, x16
        scvtf   s5, s5
        fmul    v26.4s, v26.4s, v5.s[0]
        fmul    v27.4s, v27.4s, v5.s[0]
        fsub    v24.4s, v24.4s, v26.4s
        fsub    v25.4s, v25.4s, v27.4s
        fmul    v24.4s, v24.4s, v4.s[0]
        fmul    v25.4s, v25.4s, v4.s[0]
        fadd    v24.4s, v24.4s, v6.4s
        fadd    v25.4s, v25.4s, v7.4s
        end_one_row 24, 25, 16, 17, 0b
endfn qn_gemm_qd8b4_1x8_dotprod

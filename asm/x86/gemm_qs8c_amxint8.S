// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]) of bytes, by tiles: 256 rows x 32 channels.
// Contract: src/kernel/gemm.h; panels have the format k4, sums times scales fit 32 bits.  Registers: gemm_amxint8.h
//
//   C      r8 the even row of a pair   r8 + r14 the odd one

#define ENDS rsp                        // 12 bytes
#define C_BYTES 1
#define COPIED_STEPS 15
#define OWN_BYTES 0

#include "gemm_amxint8.h"
#include "requantize_amxint8.h"

.macro begin_call
        mov     rax, [ARGS + 16]
        prepare_ends ENDS, rax, r10d
        load_ends ENDS
        mov     r9, rdx
.endm

.macro begin_panels
.endm

.macro keep_panel
.endm

// Behind an odd last row is none: r14 is 0, and the even row is stored last, over it.
.macro find_rows
        mov     r8, r13
        imul    r8, r10
        add     r8, STORED_C
        xor     r14d, r14d
        test    r11d, 1
        cmovz   r14, r10
.endm

.macro store_rows
        vmovdqu8 [r8 + r14]{k1}, ymm5
        vmovdqu8 [r8]{k1}, ymm4
        mov     r14, r10
        lea     r8, [r8 + 2 * r12]
.endm

gemm_256x32 qn_gemm_qs8c_256x32_amxint8

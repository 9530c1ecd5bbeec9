// C[m][n] = dequantize(sum over k of (A[m][k] - zero point of m) * W[k][n]) of bytes, by tiles: 256 rows x 32 channels.
// Contract: src/kernel/gemm.h; panels have the format k4.  Registers: gemm_amxint8.h
//
//   C      r8 the even row of a pair   r8 + r10 the odd one: r10 is the stride again behind the first pair
//   A      r14 the numbers of the even row, r14 - 8 those of the odd one
//   ends   zmm0 zmm1 scales   zmm2 zmm3 biases   zmm28 min   zmm29 max   zmm30 zmm31 sums of weights
//   masks  k1 k3 the channels that exist
//
// A sum ends less the zero point z of its row times the sum s of the weights.  That is a dot product of pairs of words:
// as the contract limits s, -s is 256 h + l with a word h and a byte l.
//
//   -z s = (256 z) h + z l

// The numbers of all rows, from the last to the first, eight bytes each: its scale, then the words z and 256 z.
#define NUMBERS (OWN + 8)               // behind what stands for a row that does not exist
#define OWN_BYTES (8 + 256 * 8)
#define C_BYTES 4
#define COPIED_STEPS 14
#define STORED_W qword ptr [rsp]        // the panel
#define STORED_FROM qword ptr [rsp + 8] // rows from the block's first one to the last one of all

#include "gemm_amxint8.h"

.macro begin_call
        mov     rax, [ARGS + 16]        // all panels have one clamp
        vbroadcastss zmm28, dword ptr [rax + MINMAX_MIN]
        vbroadcastss zmm29, dword ptr [rax + MINMAX_MAX]
        mov     qword ptr [r15 + NUMBERS - 8], 0        // what an earlier call left may be a denormal, which is slow
        lea     rax, [r15 + rdi * 8 + NUMBERS]
        mov     r9, rcx
        mov     r10, rdi
1:      mov     r11d, [r9 + QUANTIZED_ROW_SCALE]
        mov     r12d, [r9 + QUANTIZED_ROW_ZERO]
        movzx   r13d, r12w
        shl     r12d, 24
        or      r12d, r13d
        mov     [rax - 8], r11d
        mov     [rax - 4], r12d
        sub     rax, 8
        add     r9, r8
        dec     r10
        jnz     1b
        lea     r9, [rdx + 3]           // whole dwords: behind a row they may be read, and meet weights of 0
        and     r9, -4
.endm

.macro begin_panels
        mov     rax, WEIGHTS
        mov     STORED_W, rax
.endm

.macro keep_panel
        mov     STORED_W, r9
        mov     rax, ROWS               // the last block begins BLOCK rows before the end
        cmp     rax, BLOCK
        cmovb   rax, BLOCK
        mov     STORED_FROM, rax
.endm

.macro begin_tile tile, panel, place
        tilezero tmm\tile
.endm

.macro load_channels p
        vmovups zmm0, [\p + DEQUANTIZE_SCALES]
        vmovups zmm1, [\p + DEQUANTIZE_SCALES + 64]
        vmovups zmm2, [\p + DEQUANTIZE_SCALES + 128]
        vmovups zmm3, [\p + DEQUANTIZE_SCALES + 192]
        mov     rsi, STORED_W
        vpxor   xmm4, xmm4, xmm4
        vbroadcasti32x4 zmm5, [rip + PLACES(words)]
        vpsubd  zmm30, zmm4, [rsi]
        vpsubd  zmm31, zmm4, [rsi + 64]
        vpshufb zmm30, zmm30, zmm5
        vpshufb zmm31, zmm31, zmm5
.endm

.macro next_channels p
        add     \p, DEQUANTIZE_SCALES + 256
.endm

// Behind an odd last row is none: r10 is 0, and the even row is stored last, over it.
.macro find_rows
        kshiftrd k3, k1, 16
        mov     r10, r12
        neg     r10
        mov     r8, r13
        imul    r8, r10
        add     r8, STORED_C
        mov     r14, STORED_FROM
        sub     r14, r13
        lea     r14, [r15 + r14 * 8 + NUMBERS - 8]
        xor     eax, eax
        test    r11d, 1
        cmovnz  r10, rax
.endm

.macro end_two
        vmovdqa64 zmm4, [r13]
        vmovdqa64 zmm5, [r13 + 64]
        vmovdqa64 zmm6, [r13 + 128]
        vmovdqa64 zmm7, [r13 + 192]
        vpdpwssd zmm4, zmm30, dword ptr [r14 + 4]{1to16}
        vpdpwssd zmm5, zmm31, dword ptr [r14 + 4]{1to16}
        vpdpwssd zmm6, zmm30, dword ptr [r14 - 4]{1to16}
        vpdpwssd zmm7, zmm31, dword ptr [r14 - 4]{1to16}
        vcvtdq2ps zmm4, zmm4
        vcvtdq2ps zmm5, zmm5
        vcvtdq2ps zmm6, zmm6
        vcvtdq2ps zmm7, zmm7
        vmulps  zmm4, zmm4, dword ptr [r14]{1to16}
        vmulps  zmm5, zmm5, dword ptr [r14]{1to16}
        vmulps  zmm6, zmm6, dword ptr [r14 - 8]{1to16}
        vmulps  zmm7, zmm7, dword ptr [r14 - 8]{1to16}
        vmulps  zmm4, zmm4, zmm0
        vmulps  zmm5, zmm5, zmm1
        vmulps  zmm6, zmm6, zmm0
        vmulps  zmm7, zmm7, zmm1
        vaddps  zmm4, zmm4, zmm2
        vaddps  zmm5, zmm5, zmm3
        vaddps  zmm6, zmm6, zmm2
        vaddps  zmm7, zmm7, zmm3
        clamp_row zmm4, zmm5, zmm28, zmm29
        clamp_row zmm6, zmm7, zmm28, zmm29
        vmovups [r8 + r10]{k1}, zmm6
        vmovups [r8 + r10 + 64]{k3}, zmm7
        vmovups [r8]{k1}, zmm4
        vmovups [r8 + 64]{k3}, zmm5
        mov     r10, r12
        neg     r10
        lea     r8, [r8 + 2 * r12]
        add     r14, 16
        sub     r13, 256
        dec     r11d
.endm

gemm_256x32 qn_gemm_qd8c_256x32_amxint8

        rodata
PLACES(words):                          // of a dword, the lowest byte as a word, and the two behind it
        .byte   0, 0x80, 1, 2, 4, 0x80, 5, 6, 8, 0x80, 9, 10, 12, 0x80, 13, 14

// The end of sums of products of bytes as floats (src/kernel/dequantize.h) with SSE4.1: rows of 8 channels, whose own
// numbers are at NUMBERS (pairs.h).
//
//   row    its number, where its A is, the numbers of its accumulators lo and hi; then what is the same for all rows
//   end    xmm0 min  xmm1 max  xmm2 the scale of the row  xmm3 scratch
#ifndef QN_ASM_X86_DEQUANTIZE_SSE41_H
#define QN_ASM_X86_DEQUANTIZE_SSE41_H

.macro start_real_row m, a, lo, hi, none
        movd    xmm2, dword ptr [NUMBERS + 8 * \m + 4]
        pshufd  xmm\lo, xmm2, 0
        pshufd  xmm\hi, xmm2, 0
        pmulld  xmm\lo, xmm0
        pmulld  xmm\hi, xmm1
.endm

.macro load_end p
        movss   xmm0, dword ptr [\p + MINMAX_MIN]
        shufps  xmm0, xmm0, 0
        movss   xmm1, dword ptr [\p + MINMAX_MAX]
        shufps  xmm1, xmm1, 0
.endm

.macro end_sums v, p
        cvtdq2ps xmm\v, xmm\v
        mulps   xmm\v, xmm2
        movups  xmm3, [\p + DEQUANTIZE_SCALES]
        mulps   xmm\v, xmm3
        movups  xmm3, [\p + DEQUANTIZE_SCALES + 32]
        addps   xmm\v, xmm3
        movaps  xmm3, xmm0
        maxps   xmm3, xmm\v             // a NaN in the second operand is the result
        movaps  xmm\v, xmm1
        minps   xmm\v, xmm3
.endm

.macro end_row m, a, lo, hi, p
        movss   xmm2, dword ptr [NUMBERS + 8 * \m]
        shufps  xmm2, xmm2, 0
        end_sums \lo, \p
        end_sums \hi, \p+16
.endm

// At the places NAMEm: row m of C, the one before that at rax.
.macro store_row m, a, lo, hi, name, stride
L(\name\m):
        sub     rax, \stride
        movups  [rax], xmm\lo
        movups  [rax + 16], xmm\hi
.endm

.macro leave_level
.endm

#endif

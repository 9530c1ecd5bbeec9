// The end of sums of products of bytes as floats (src/kernel/dequantize.h) with vectors of 256 bits: rows of 16 channels,
// whose own numbers are at NUMBERS (pairs.h).
//
//   row    its number, where its A is, the numbers of its accumulators lo and hi; then what is the same for all rows
//   end    ymm0 min  ymm1 max  ymm2 the scale of the row
#ifndef QN_ASM_X86_DEQUANTIZE_AVX2_H
#define QN_ASM_X86_DEQUANTIZE_AVX2_H

.macro start_real_row m, a, lo, hi, none
        vpbroadcastd ymm2, dword ptr [NUMBERS + 8 * \m + 4]
        vpmulld ymm\lo, ymm2, ymm0
        vpmulld ymm\hi, ymm2, ymm1
.endm

.macro load_end p
        vbroadcastss ymm0, dword ptr [\p + MINMAX_MIN]
        vbroadcastss ymm1, dword ptr [\p + MINMAX_MAX]
.endm

.macro end_sums v, p
        vcvtdq2ps ymm\v, ymm\v
        vmulps  ymm\v, ymm\v, ymm2
        vmulps  ymm\v, ymm\v, [\p + DEQUANTIZE_SCALES]
        vaddps  ymm\v, ymm\v, [\p + DEQUANTIZE_SCALES + 64]
        vmaxps  ymm\v, ymm0, ymm\v      // a NaN in the second operand is the result
        vminps  ymm\v, ymm1, ymm\v
.endm

.macro end_row m, a, lo, hi, p
        vbroadcastss ymm2, dword ptr [NUMBERS + 8 * \m]
        end_sums \lo, \p
        end_sums \hi, \p+32
.endm

// At the places NAMEm: row m of C, the one before that at rax.
.macro store_row m, a, lo, hi, name, stride
L(\name\m):
        sub     rax, \stride
        vmovups [rax], ymm\lo
        vmovups [rax + 32], ymm\hi
.endm

.macro leave_level
        vzeroupper
.endm

#endif

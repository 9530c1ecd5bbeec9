// The end of sums of products of bytes (src/kernel/requantize.h) with vectors of 256 bits: rows of 16 channels.
//
//   row    its number, where its A is, the numbers of its accumulators lo and hi; then what is the same for all rows
//   end    ymm0 what sums are at most before the zero point is added, floats   ymm1 the zero point, words
//          xmm2 min, bytes
#ifndef QN_ASM_X86_REQUANTIZE_AVX2_H
#define QN_ASM_X86_REQUANTIZE_AVX2_H

#include "../offset.h"

.macro load_end p
        mov     eax, [\p + REQUANTIZE_MAX]
        sub     eax, [\p + REQUANTIZE_ZERO]
        vmovd   xmm0, eax
        vpbroadcastd ymm0, xmm0
        vcvtdq2ps ymm0, ymm0
        vpbroadcastw ymm1, word ptr [\p + REQUANTIZE_ZERO]
        vpbroadcastb xmm2, byte ptr [\p + REQUANTIZE_MIN]
.endm

// Too large a float would become the least integer, so it is limited before.  Too small a one may become that.
.macro round_sums v, scales
        vcvtdq2ps ymm\v, ymm\v
        vmulps  ymm\v, ymm\v, [\scales]
        vminps  ymm\v, ymm0, ymm\v      // a NaN in the second operand is the result
        vcvtps2dq ymm\v, ymm\v
.endm

// The 16 bytes of a row, in xmm(lo).
.macro end_row m, a, lo, hi, p
        round_sums \lo, \p+REQUANTIZE_SCALES
        round_sums \hi, \p+REQUANTIZE_SCALES+32
        vpackssdw ymm\lo, ymm\lo, ymm\hi // channels 0-3 8-11, 4-7 12-15
        vpaddsw ymm\lo, ymm\lo, ymm1
        vpacksswb ymm\lo, ymm\lo, ymm\lo
        vextracti128 xmm\hi, ymm\lo, 1
        vpunpckldq xmm\lo, xmm\lo, xmm\hi
        vpmaxsb xmm\lo, xmm\lo, xmm2
.endm

// Store the first n bytes (1 .. 15, in a 32-bit register) of v at [at]; `next` and v are scratch.
.macro store_first next, at, n, v
        mov     \next, \at
        test    \n, 8
        jz      1f
        vmovq   qword ptr [\next], xmm\v
        vpsrldq xmm\v, xmm\v, 8
        add     \next, 8
1:      test    \n, 4
        jz      2f
        vmovd   dword ptr [\next], xmm\v
        vpsrldq xmm\v, xmm\v, 4
        add     \next, 4
2:      test    \n, 2
        jz      3f
        vpextrw word ptr [\next], xmm\v, 0
        vpsrldq xmm\v, xmm\v, 2
        add     \next, 2
3:      test    \n, 1
        jz      4f
        vpextrb byte ptr [\next], xmm\v, 0
4:
.endm

// At the places NAMEm: row m of C, the one before that at rax, and its first n channels (1 .. 15, a 32-bit register);
// `next` is scratch.
.macro store_row m, a, lo, hi, name, stride
L(\name\m):
        sub     rax, \stride
        vmovdqu [rax], xmm\lo
.endm

.macro store_part m, a, lo, hi, name, stride, n, next
L(\name\m):
        sub     rax, \stride
        store_first \next, rax, \n, \lo
.endm

.macro leave_level
        vzeroupper
.endm

#endif

// The end of sums of products of bytes (src/kernel/requantize.h) with SSE4.1: rows of 8 channels.
//
//   row    its number, where its A is, the numbers of its accumulators lo and hi; then what is the same for all rows
//   end    xmm0 what sums are at most before the zero point is added, floats   xmm1 the zero point, words
//          xmm2 min, bytes   xmm3 scales, floats
#ifndef QN_ASM_X86_REQUANTIZE_SSE41_H
#define QN_ASM_X86_REQUANTIZE_SSE41_H

#include "../offset.h"

.macro load_end p
        mov     eax, [\p + REQUANTIZE_MAX]
        sub     eax, [\p + REQUANTIZE_ZERO]
        movd    xmm0, eax
        pshufd  xmm0, xmm0, 0
        cvtdq2ps xmm0, xmm0
        movd    xmm1, dword ptr [\p + REQUANTIZE_ZERO]
        pshuflw xmm1, xmm1, 0
        pshufd  xmm1, xmm1, 0
        movd    xmm2, dword ptr [\p + REQUANTIZE_MIN]
        pxor    xmm3, xmm3
        pshufb  xmm2, xmm3
.endm

// Too large a float would become the least integer, so it is limited before.  Too small a one may become that.
.macro round_sums v, scales
        cvtdq2ps xmm\v, xmm\v
        movups  xmm3, [\scales]
        mulps   xmm\v, xmm3
        movaps  xmm3, xmm0
        minps   xmm3, xmm\v             // a NaN in the second operand is the result
        cvtps2dq xmm\v, xmm3
.endm

// The 8 bytes of a row, in xmm(lo).
.macro end_row m, a, lo, hi, p
        round_sums \lo, \p+REQUANTIZE_SCALES
        round_sums \hi, \p+REQUANTIZE_SCALES+16
        packssdw xmm\lo, xmm\hi
        paddsw  xmm\lo, xmm1
        packsswb xmm\lo, xmm\lo
        pmaxsb  xmm\lo, xmm2
.endm

// Store the first n bytes (1 .. 7, in a 32-bit register) of v at [at]; `next` and v are scratch.
.macro store_first next, at, n, v
        mov     \next, \at
        test    \n, 4
        jz      2f
        movd    dword ptr [\next], xmm\v
        psrldq  xmm\v, 4
        add     \next, 4
2:      test    \n, 2
        jz      3f
        pextrw  word ptr [\next], xmm\v, 0
        psrldq  xmm\v, 2
        add     \next, 2
3:      test    \n, 1
        jz      4f
        pextrb  byte ptr [\next], xmm\v, 0
4:
.endm

// At the places NAMEm: row m of C, the one before that at rax, and its first n channels (1 .. 7, a 32-bit register);
// `next` is scratch.
.macro store_row m, a, lo, hi, name, stride
L(\name\m):
        sub     rax, \stride
        movq    qword ptr [rax], xmm\lo
.endm

.macro store_part m, a, lo, hi, name, stride, n, next
L(\name\m):
        sub     rax, \stride
        store_first \next, rax, \n, \lo
.endm

.macro leave_level
.endm

#endif

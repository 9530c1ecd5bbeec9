// Stores of floats with SSE4.1.
#ifndef QN_ASM_X86_STORE_SSE41_H
#define QN_ASM_X86_STORE_SSE41_H

// Store the first n channels (1 .. 7, in a 32-bit register) of lo and hi at [at]; `next` and lo are scratch.
.macro store_first next, at, n, lo, hi
        mov     \next, \at
        test    \n, 4
        jz      7f
        movups  [\next], \lo
        movaps  \lo, \hi
        add     \next, 16
7:      test    \n, 2
        jz      8f
        movlps  [\next], \lo
        movhlps \lo, \lo
        add     \next, 8
8:      test    \n, 1
        jz      9f
        movss   dword ptr [\next], \lo
9:
.endm

#endif

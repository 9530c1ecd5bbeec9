// What the igemm kernels of AVX2 and SSE4.1 share, whose addresses of the rows of A leave registers for the rest.
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   loop   rax from -kc up to 0, r10 w, r11 row mr-1
//   tap    r12 its offsets, r13 their end, rbx a + kc, r14 zero + kc, rbp -kc, r15 row mr-1
#ifndef QN_ASM_X86_IGEMM_H
#define QN_ASM_X86_IGEMM_H

#include "tile.h"

#ifndef FRAME                           // a kernel may need more of it
#define FRAME 40
#endif
#define TABLE_BEGIN qword ptr [rsp]
#define NC qword ptr [rsp + 8]          // channels left
#define C_END qword ptr [rsp + 16]      // the row after the last
#define STORE qword ptr [rsp + 24]      // where row mr-1 is stored,
#define PART qword ptr [rsp + 32]       // or a part of it
#define ARGS rsp + FRAME + 56

// The end of row m of A of this tap.
.macro row m, a, lo, hi, prefix
L(\prefix\()row\m):
        find_row \a, r12+4*\m, rbx, r14
.endm

// r13 becomes the end of the offsets.  A file with several kernels has a prefix for the places of each.
.macro begin_igemm offsets_end, prefix
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME

        mov     TABLE_BEGIN, r8
        \offsets_end
        lea     rbx, [r9 + rdx]
        mov     r14, [ARGS]             // zero
        add     r14, rdx
        mov     rbp, rdx
        neg     rbp
        mov     NC, rsi
        mov     r10, [ARGS + 8]         // w
        mov     rax, rdi                // the end of C
        imul    rax, [ARGS + 24]
        add     rax, [ARGS + 16]
        mov     C_END, rax
        entry   rax, rdi, \prefix\()store_row, rcx
        mov     STORE, rax
        entry   rax, rdi, \prefix\()store_part, rcx
        mov     PART, rax
        entry   r15, rdi, \prefix\()row, rcx
        entry   r11, rdi, \prefix\()step, rcx
.endm

// The stride of C, the row after the last, and the channels that are left.
.macro place_of_c stride, row, channels
        mov     \stride, [ARGS + 24]
        mov     \row, C_END
        mov     \channels, NC
.endm

.macro end_igemm
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

#endif

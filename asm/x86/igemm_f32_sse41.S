// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 4 rows x 8 channels.
// Contract: src/kernel/igemm.h
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      the end of row m of this tap: rdi rsi rdx rcx for m = 0 .. 3
//   loop   rax from -kc up to 0, r10 w, r11 row mr-1
//   tap    r12 its offsets, r13 their end, rbx a + kc, r14 zero + kc, rbp -kc, r15 row mr-1
//   store  rax the row at hand, rdi its next channels, rcx stride, rsi channels left, rdx p
//   acc    xmm8-xmm15: row m holds xmm(8+2m), xmm(9+2m)
//   load   xmm0 xmm1 one row of W   xmm2 xmm3 one A everywhere     then xmm0 min  xmm1 max
//
// No FMA: the product is rounded, then added.  Only the rows of this call are run, read and written.
#include "asm.h"
#include "../offset.h"

#define FRAME 40
#define TABLE_BEGIN qword ptr [rsp]
#define NC qword ptr [rsp + 8]          // channels left
#define C_END qword ptr [rsp + 16]      // the row after the last
#define STORE qword ptr [rsp + 24]      // where row mr-1 is stored,
#define PART qword ptr [rsp + 32]       // or a part of it
#define ARGS rsp + FRAME + 56

// Every row: its number, the end of its A, its accumulators.
.macro rows do
        \do     3, rcx, xmm14, xmm15
        \do     2, rdx, xmm12, xmm13
        \do     1, rsi, xmm10, xmm11
        \do     0, rdi, xmm8,  xmm9
.endm

.macro start m, a, lo, hi
        movaps  \lo, xmm0
        movaps  \hi, xmm1
.endm

.macro row m, a, lo, hi
L(row\m):
        movsxd  \a, dword ptr [r12 + 4 * \m]
        test    \a, \a
        lea     \a, [\a + rbx]
        cmovs   \a, r14
.endm

.macro step m, a, lo, hi
L(step\m):
        movss   xmm2, dword ptr [\a + rax]
        shufps  xmm2, xmm2, 0
        movaps  xmm3, xmm2
        mulps   xmm2, xmm0
        mulps   xmm3, xmm1
        addps   \lo, xmm2
        addps   \hi, xmm3
.endm

.macro clamp m, a, lo, hi
        clamp1  \lo
        clamp1  \hi
.endm

.macro clamp1 acc
        movaps  xmm2, xmm0
        maxps   xmm2, \acc              // a NaN in the second operand is the result
        movaps  \acc, xmm1
        minps   \acc, xmm2
.endm

.macro store m, a, lo, hi
L(store\m):
        sub     rax, rcx
        movups  [rax], \lo
        movups  [rax + 16], \hi
.endm

.macro part m, a, lo, hi
L(part\m):
        sub     rax, rcx
        store_first rdi, rax, esi, \lo, \hi
.endm

        rodata
        places  row, 0, 1, 2, 3
        places  step, 0, 1, 2, 3
        places  store, 0, 1, 2, 3
        places  part, 0, 1, 2, 3

fn qn_igemm_f32_4x8_sse41
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME

        mov     TABLE_BEGIN, r8
        shl     rcx, 4                  // 4 offsets per tap
        lea     r13, [r8 + rcx]
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
        entry   rax, rdi, store, rcx
        mov     STORE, rax
        entry   rax, rdi, part, rcx
        mov     PART, rax
        entry   r15, rdi, row, rcx
        entry   r11, rdi, step, rcx

0:      movaps  xmm0, [r10]             // a panel: start from the bias
        movaps  xmm1, [r10 + 16]
        add     r10, 32
        rows    start

        mov     r12, TABLE_BEGIN
1:      enter   r15                     // a tap: find the rows of A
        rows    row
        mov     rax, rbp
2:      movaps  xmm0, [r10]
        movaps  xmm1, [r10 + 16]
        add     r10, 32
        enter   r11
        rows    step
        add     rax, 4
        jnz     2b
        add     r12, 16
        cmp     r12, r13
        jne     1b

        mov     rdx, [ARGS + 32]        // p
        movss   xmm0, dword ptr [rdx + MINMAX_MIN]
        movss   xmm1, dword ptr [rdx + MINMAX_MAX]
        shufps  xmm0, xmm0, 0
        shufps  xmm1, xmm1, 0
        rows    clamp

        mov     rcx, [ARGS + 24]        // c_stride
        mov     rax, C_END
        mov     rsi, NC
        cmp     rsi, 8
        jae     3f
        enter   PART                    // fewer than 8 channels: the last panel
        rows    part
        jmp     4f

3:      enter   STORE
        rows    store
        add     C_END, 32
        sub     NC, 8
        jnz     0b

4:      unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_igemm_f32_4x8_sse41

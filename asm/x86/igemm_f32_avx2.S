// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 6 rows x 16 channels.
// Contract: src/kernel/igemm.h
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      the end of row m of this tap: rdi rsi rdx rcx r8 r9 for m = 0 .. 5
//   loop   rax from -kc up to 0, r10 w, r11 row mr-1
//   tap    r12 its offsets, r13 their end, rbx a + kc, r14 zero + kc, rbp -kc, r15 row mr-1
//   store  rax the row at hand, rcx stride, rsi channels left, rdx p
//   acc    ymm4-ymm15: row m holds ymm(4+2m), ymm(5+2m)
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere     then min, max, masks
//
// A step is 12 FMAs (6 cycles) and 8 loads (4 cycles).  Only the rows of this call are run, read and written.
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
        \do     5, r9,  ymm14, ymm15
        \do     4, r8,  ymm12, ymm13
        \do     3, rcx, ymm10, ymm11
        \do     2, rdx, ymm8,  ymm9
        \do     1, rsi, ymm6,  ymm7
        \do     0, rdi, ymm4,  ymm5
.endm

.macro start m, a, lo, hi
        vmovaps \lo, ymm0
        vmovaps \hi, ymm1
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
        vbroadcastss ymm2, dword ptr [\a + rax]
        vfmadd231ps \lo, ymm2, ymm0
        vfmadd231ps \hi, ymm2, ymm1
.endm

.macro clamp m, a, lo, hi
        vmaxps  \lo, ymm0, \lo          // a NaN in the second operand is the result
        vmaxps  \hi, ymm0, \hi
        vminps  \lo, ymm1, \lo
        vminps  \hi, ymm1, \hi
.endm

.macro store m, a, lo, hi
L(store\m):
        sub     rax, rcx
        vmovups [rax], \lo
        vmovups [rax + 32], \hi
.endm

.macro part m, a, lo, hi
L(part\m):
        sub     rax, rcx
        vmaskmovps [rax], ymm0, \lo
        vmaskmovps [rax + 32], ymm1, \hi
.endm

        rodata
        .fill   16, 4, -1               // 16 lanes from n before the end of these: the first n are set
L(mask):
        .fill   16, 4, 0
        places  row, 0, 1, 2, 3, 4, 5
        places  step, 0, 1, 2, 3, 4, 5
        places  store, 0, 1, 2, 3, 4, 5
        places  part, 0, 1, 2, 3, 4, 5

fn qn_igemm_f32_6x16_avx2
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME

        mov     TABLE_BEGIN, r8
        lea     rcx, [rcx + rcx * 2]    // 6 offsets per tap
        lea     r13, [r8 + rcx * 8]
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

0:      vmovaps ymm0, [r10]             // a panel: start from the bias
        vmovaps ymm1, [r10 + 32]
        add     r10, 64
        rows    start

        mov     r12, TABLE_BEGIN
1:      enter   r15                     // a tap: find the rows of A
        rows    row
        mov     rax, rbp
2:      vmovaps ymm0, [r10]
        vmovaps ymm1, [r10 + 32]
        add     r10, 64
        prefetcht0 [r10 + AHEAD]
        enter   r11
        rows    step
        add     rax, 4
        jnz     2b
        add     r12, 24
        cmp     r12, r13
        jne     1b

        mov     rdx, [ARGS + 32]        // p
        vbroadcastss ymm0, dword ptr [rdx + MINMAX_MIN]
        vbroadcastss ymm1, dword ptr [rdx + MINMAX_MAX]
        rows    clamp

        mov     rcx, [ARGS + 24]        // c_stride
        mov     rax, C_END
        mov     rsi, NC
        cmp     rsi, 16
        jae     3f
        lea     rdx, [rip + L(mask)]    // fewer than 16 channels: the last panel
        neg     rsi
        vmovups ymm0, [rdx + rsi * 4]
        vmovups ymm1, [rdx + rsi * 4 + 32]
        enter   PART
        rows    part
        jmp     4f

3:      enter   STORE
        rows    store
        add     C_END, 64
        sub     NC, 16
        jnz     0b

4:      vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_igemm_f32_6x16_avx2

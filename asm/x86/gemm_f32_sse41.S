// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 4 rows x 8 channels.  Contract: src/kernel/gemm.h
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      rows rcx + 0, 1, 2 strides and rbx, stride r8
//   C      r10 the row after the last, r11 stride, rax the row at hand, rcx its next channels
//   jumps  rdi row mr-1 in the loop, r12 in the store, r13 in the store of a part
//   left   rax bytes of k     rsi channels     rbp p
//   acc    xmm8-xmm15: row m holds xmm(8+2m), xmm(9+2m)
//   load   xmm0 xmm1 one row of W   xmm2 xmm3 one A everywhere     then xmm0 min  xmm1 max
//
// No FMA: the product is rounded, then added.  Only the rows of this call are run, read and written.
#include "tile_sse41.h"

// Every row: its number, where its A is, its accumulators.
.macro rows do, arg:vararg
        \do     3, rbx,      xmm14, xmm15, \arg
        \do     2, rcx+r8*2, xmm12, xmm13, \arg
        \do     1, rcx+r8,   xmm10, xmm11, \arg
        \do     0, rcx,      xmm8,  xmm9,  \arg
.endm

.macro step m, a, lo, hi, none
L(step\m):
        multiply_row \a, \lo, \hi
.endm

        rodata
        places  step, 0, 1, 2, 3
        places  store_row, 0, 1, 2, 3
        places  store_part, 0, 1, 2, 3

fn qn_gemm_f32_4x8_sse41
        save    rbx, rbp, r12, r13
        mov     r10, [rsp + 40]
        mov     r11, [rsp + 48]
        mov     rbp, [rsp + 56]

        lea     rbx, [rcx + r8 * 2]     // A row 3
        add     rbx, r8

        mov     rax, rdi                // the end of C
        imul    rax, r11
        add     r10, rax

        entry   r12, rdi, store_row, rax
        entry   r13, rdi, store_part, rax
        entry   rdi, rdi, step, rax

0:      load_weights_row r9             // a panel: start from the bias
        add     r9, 32
        rows    start_row

        mov     rax, rdx
1:      load_weights_row r9
        add     r9, 32
        enter   rdi
        rows    step
        add     rcx, 4
        add     rbx, 4
        sub     rax, 4
        jnz     1b

        load_clamp_row rbp
        rows    clamp_row

        mov     rax, r10
        cmp     rsi, 8
        jae     2f
        enter   r13                     // fewer than 8 channels: the last panel
        rows    store_part, r11, rcx
        jmp     3f

2:      sub     rcx, rdx                // A again for the next panel
        sub     rbx, rdx
        enter   r12
        rows    store_row, r11
        add     r10, 32
        sub     rsi, 8
        jnz     0b

3:      restore rbx, rbp, r12, r13
        ret
endfn qn_gemm_f32_4x8_sse41

// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 6 rows x 16 channels.  Contract: src/kernel/gemm.h
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      row 3i+j is at base i + j strides: bases rcx rbx, stride r8
//   C      r10 the row after the last, r11 stride, rax the row at hand
//   jumps  rdi row mr-1 in the loop, r12 in the store, r13 in the store of a part
//   next   r14 in the rows below, 5 being the first
//   left   rax bytes of k     rsi channels     rbp p
//   acc    ymm4-ymm15: row m holds ymm(4+2m), ymm(5+2m)
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere     then min, max, masks
//
// A step is 12 FMAs (6 cycles) and 10 loads, prefetches among them (5 cycles).  Only the rows of this call are run, read
// and written.
#include "gemm.h"
#include "tile_avx2.h"

// Every row: its number, where its A is, its accumulators.
.macro rows do, arg:vararg
        \do     5, rbx+r8*2, ymm14, ymm15, \arg
        \do     4, rbx+r8,   ymm12, ymm13, \arg
        \do     3, rbx,      ymm10, ymm11, \arg
        \do     2, rcx+r8*2, ymm8,  ymm9,  \arg
        \do     1, rcx+r8,   ymm6,  ymm7,  \arg
        \do     0, rcx,      ymm4,  ymm5,  \arg
.endm

.macro step m, a, lo, hi, none
L(step\m):
        .if     \m == 3
        fetch_below r14, , 6
        .endif
        multiply_row \a, \lo, \hi
.endm

        rodata
        mask_lanes 16
        places  step, 0, 1, 2, 3, 4, 5
        places  store_row, 0, 1, 2, 3, 4, 5
        places  store_part, 0, 1, 2, 3, 4, 5

fn qn_gemm_f32_6x16_avx2
        save    rbx, rbp, r12, r13, r14
        mov     r10, [rsp + 48]
        mov     r11, [rsp + 56]
        mov     rbp, [rsp + 64]

        lea     rbx, [rcx + r8 * 2]     // A row 3
        add     rbx, r8

        mov     rax, rdi                // the end of C
        imul    rax, r11
        add     r10, rax

        entry   r12, rdi, store_row, rax
        entry   r13, rdi, store_part, rax
        entry   rdi, rdi, step, rax

0:      load_weights r9                 // a panel: start from the bias
        add     r9, 64
        rows    start_row

        lea     r14, [rbx + r8 * 2]
        mov     rax, rdx
1:      load_weights r9
        add     r9, 64
        prefetcht0 [r9 + AHEAD]
        enter   rdi
        rows    step
        add     rcx, 4
        add     rbx, 4
        sub     rax, 4
        jnz     1b

        load_clamp rbp
        rows    clamp_row

        mov     rax, r10
        cmp     rsi, 16
        jae     2f
        mask_channels rsi, r8           // fewer than 16 channels: the last panel
        enter   r13
        rows    store_part, r11
        jmp     3f

2:      sub     rcx, rdx                // A again for the next panel
        sub     rbx, rdx
        enter   r12
        rows    store_row, r11
        add     r10, 64
        sub     rsi, 16
        jnz     0b

3:      vzeroupper
        restore rbx, rbp, r12, r13, r14
        ret
endfn qn_gemm_f32_6x16_avx2

// One row x 16 channels.

fn qn_gemm_f32_1x16_avx2
        one_row ymm, 32
        cmp     rsi, 16
        jb      3f
        vmovups [rdi], ymm4
        vmovups [rdi + 32], ymm5
        row_next ymm, 32

3:      mask_channels rsi, r8           // fewer than 16 channels: the last panel
        vmaskmovps [rdi], ymm0, ymm4
        vmaskmovps [rdi + 32], ymm1, ymm5
        end_row
endfn qn_gemm_f32_1x16_avx2

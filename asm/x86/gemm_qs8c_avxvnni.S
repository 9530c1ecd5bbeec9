// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]), 6 rows x 16 channels of bytes.
// Contract: src/kernel/gemm.h
//
//   args   rdi mr  rsi nc  rdx k  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      row 3i+j is at base i + j strides: bases rcx rbx, stride r8
//   C      r15 the row after the last, r11 stride, rax the row at hand
//   jumps  rdi row mr-1 in the loop, r14 in its tail, r12 in the store, r13 in the store of a part
//   left   rax bytes of k, less 4     rsi channels     rbp epilogue of the panel
//   acc    ymm4-ymm15: row m holds ymm(4+2m), ymm(5+2m)
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere   ymm3 the sign bit of every byte
//
// A step is 12 dot products (6 cycles), 6 exclusive ors and 9 loads, a prefetch among them (5 cycles).  Only the rows
// of this call are run, read and written.
#include "dot_avxvnni.h"

// Every row: its number, where its A is, its accumulators.
.macro rows do, arg:vararg
        \do     5, rbx+r8*2, 14, 15, \arg
        \do     4, rbx+r8,   12, 13, \arg
        \do     3, rbx,      10, 11, \arg
        \do     2, rcx+r8*2, 8,  9,  \arg
        \do     1, rcx+r8,   6,  7,  \arg
        \do     0, rcx,      4,  5,  \arg
.endm

.macro gemm_6x16 level, encoding
        rodata
        places  \level\()_step, 0, 1, 2, 3, 4, 5
        places  \level\()_tail, 0, 1, 2, 3, 4, 5
        places  \level\()_row, 0, 1, 2, 3, 4, 5
        places  \level\()_part, 0, 1, 2, 3, 4, 5

fn qn_gemm_qs8c_6x16_\level
        save    rbx, rbp, r12, r13, r14, r15
        mov     r15, [rsp + 56]
        mov     r11, [rsp + 64]
        mov     rbp, [rsp + 72]

        lea     rbx, [rcx + r8 * 2]     // A row 3
        add     rbx, r8

        mov     rax, rdi                // the end of C
        imul    rax, r11
        add     r15, rax

        entry   r12, rdi, \level\()_row, rax
        entry   r13, rdi, \level\()_part, rax
        entry   r14, rdi, \level\()_tail, rax
        entry   rdi, rdi, \level\()_step, rax

        load_signs
0:      load_weights r9                 // a panel: start from the bias
        add     r9, 64
        rows    start_row

        mov     rax, rdx
        sub     rax, 4
        jb      2f
1:      load_weights r9
        add     r9, 64
        prefetcht0 [r9 + AHEAD_OF_BYTES]
        enter   rdi
        rows    step, \level\()_step, \encoding
        add     rcx, 4
        add     rbx, 4
        sub     rax, 4
        jae     1b
2:      cmp     rax, -4
        je      3f
        load_weights r9
        add     r9, 64
        mov     r10, -2
        cmp     r10, rax
        enter   r14
        rows    tail, \level\()_tail, \encoding

3:      load_end rbp
        rows    end_row, rbp
        add     rbp, REQUANTIZE_SCALES + 64

        mov     rax, r15
        cmp     rsi, 16
        jae     5f
        enter   r13                     // fewer than 16 channels: the last panel
        rows    store_part, \level\()_part, r11, esi, rbx
        jmp     6f

5:      mov     r10, rdx                // A again for the next panel
        and     r10, -4
        sub     rcx, r10
        sub     rbx, r10
        enter   r12
        rows    store_row, \level\()_row, r11
        add     r15, 16
        sub     rsi, 16
        jnz     0b

6:      vzeroupper
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_gemm_qs8c_6x16_\level
.endm

gemm_6x16 avxvnni, {vex}
gemm_6x16 avx512vnni, {evex}

// One row x 16 channels, as one_row of gemm.h: four panels are read side by side, and where fewer are left, the others
// alias the last one.
//
//   args   rdi mr  rsi nc  rdx k  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      rcx its end, rdx 4 more than from -k up to 0
//   W      r9 r8 r10 r11 four panels, rax the place in each
//   C      rdi
//   left   rsi channels, edx panels to store     rbx k     rbp epilogue of the panel
//   acc    ymm4-ymm11: panel i holds ymm(4+2i), ymm(5+2i)
//   load   ymm0 A everywhere   ymm3 the sign bit of every byte
//
// A step is 8 dot products (4 cycles) and 11 loads, prefetches among them (5.5 cycles).

// Bytes of every other panel that are fetched ahead, as in gemm.h.
#define NEAR 1024

.macro row_bias lo, hi, w, none
        vmovdqa ymm\lo, [\w]
        vmovdqa ymm\hi, [\w + 32]
.endm

.macro row_products lo, hi, w, encoding
        \encoding vpdpbusd ymm\lo, ymm0, [\w + rax]
        \encoding vpdpbusd ymm\hi, ymm0, [\w + rax + 32]
.endm

.macro row_panels do, arg:vararg
        \do     4, 5, r9, \arg
        \do     6, 7, r8, \arg
        \do     8, 9, r10, \arg
        \do     10, 11, r11, \arg
.endm

.macro gemm_1x16 level, encoding
fn qn_gemm_qs8c_1x16_\level
        save    rbx, rbp
        mov     rbx, rdx
        add     rcx, rdx
        mov     rdi, [rsp + 24]
        mov     rbp, [rsp + 40]
        load_signs

0:      lea     rax, [rbx + 7]          // bytes of a panel
        and     rax, -4
        shl     rax, 4
        lea     r8, [r9 + rax]
        cmp     rsi, 16
        cmovbe  r8, r9
        lea     r10, [r8 + rax]
        cmp     rsi, 32
        cmovbe  r10, r8
        lea     r11, [r10 + rax]
        cmp     rsi, 48
        cmovbe  r11, r10
        row_panels row_bias
        mov     eax, 64
        mov     edx, 4
        sub     rdx, rbx
        jg      2f
1:      vpbroadcastd ymm0, dword ptr [rcx + rdx - 4]
        vpxor   ymm0, ymm0, ymm3
        row_panels row_products, \encoding
        prefetcht0 [r9 + rax + NEAR]
        prefetcht0 [r10 + rax + NEAR]
        add     rax, 64
        add     rdx, 4
        jle     1b
2:      cmp     rdx, 4
        je      3f
        cmp     rdx, 2
        load_tail rcx+rdx-4, 0
        vpxor   ymm0, ymm0, ymm3
        row_panels row_products, \encoding
        add     rax, 64

3:      lea     r9, [r11 + rax]
        mov     edx, 4
6:      load_end rbp                    // a panel: end its sums and store them
        end_row , , 4, 5, rbp
        cmp     rsi, 16
        jb      7f
        vmovdqu [rdi], xmm4
        add     rdi, 16
        add     rbp, REQUANTIZE_SCALES + 64
        sub     rsi, 16
        jz      8f
        vmovdqa ymm4, ymm6
        vmovdqa ymm5, ymm7
        vmovdqa ymm6, ymm8
        vmovdqa ymm7, ymm9
        vmovdqa ymm8, ymm10
        vmovdqa ymm9, ymm11
        dec     edx
        jnz     6b
        jmp     0b

7:      store_first rax, rdi, esi, 4    // fewer than 16 channels: the last panel
8:      vzeroupper
        restore rbx, rbp
        ret
endfn qn_gemm_qs8c_1x16_\level
.endm

gemm_1x16 avxvnni, {vex}
gemm_1x16 avx512vnni, {evex}

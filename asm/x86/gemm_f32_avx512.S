// C[m][n] = clamp(bias[n] + sum over k of A[m][k] * W[k][n]), 14 rows x 32 channels.  Contract: src/kernel/gemm.h
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      row 3i+j is at base i + j strides: bases rcx rbx rbp r12 r13, stride r8
//   C      r10 the row after the last, r11 stride, rax the row at hand
//   jumps  rdi row mr-1 in the loop, [rsp] row mr-1 in the store
//   below  r15 in the next 14 rows of A     r14 in those of C
//   left   rax bytes of k     rsi channels     [rsp+8] mr
//   acc    zmm4-zmm31: row m holds zmm(4+2m), zmm(5+2m)
//   load   zmm0 zmm1 one row of W   zmm2 one A everywhere     then zmm0 min  zmm1 max
//
// 28 accumulators hide the latency of FMA with room to spare; a step is 28 FMAs (14 cycles) and 19 loads,
// prefetches among them (10 cycles), or 21 in the last 14 steps.
// Of a last panel with at most 16 channels only the lower vector is multiplied.  Only the rows of this call are run,
// read and written.
#include "gemm_14x32.h"
#include "tile_avx512.h"

.macro step m, a, lo, hi, none
L(step\m):
        .if     \m == 7
        fetch_below r15, r14, 14, 128
        .endif
        multiply_row \a, \lo, \hi
.endm

.macro lower m, a, lo, hi, none
L(lower\m):
        multiply_lower \a, \lo
.endm

        rodata
        places  step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  lower, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  store, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13

fn qn_gemm_f32_14x32_avx512
        entry   rax, rdi, store, r10
        mov     r10, [rsp + 8]
        save    rbx, rbp, r12, r13, r14, r15, rdi, rax
        mov     r11, [rsp + 80]

        bases

        mov     rax, rdi                // the end of C
        imul    rax, r11
        add     r10, rax

        entry   rdi, rdi, step, rax

0:      load_weights r9                 // a panel: start from the bias
        sub     r9, -128                // as + 128, in fewer bytes
        rows    start_row

        cmp     rsi, 16
        ja      2f
        mov     rdi, [rsp + 8]          // at most 16 channels: the lower half of the last panel
        entry   rdi, rdi, lower, rax
        mov     rax, rdx
1:      vmovaps zmm0, [r9]
        sub     r9, -128
        enter   rdi
        rows    lower
        next_k
        jnz     1b
        jmp     3f

2:      lea     r15, [r13 + r8 * 2]
        mov     r14, r10
        mov     rax, rdx
1:      load_weights r9
        sub     r9, -128
        prefetcht0 [r9 + AHEAD]
        prefetcht0 [r9 + AHEAD + 64]
        enter   rdi
        rows    step
        next_k
        jnz     1b

3:      rewind  rdx

        mask_channels rsi, esi, eax
        mov     rax, [rsp + 88]         // p
        load_clamp rax
        mov     rax, r10
        enter   [rsp]
        rows    store_row, store, r11

        sub     r10, -128
        sub     rsi, 32
        ja      0b

        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15, rdi, rax
        ret
endfn qn_gemm_f32_14x32_avx512

// The same with tiles of 28 rows x 32 channels: 14 rows or fewer at a time, twice over each panel.
//
//   args, A, C, acc, load   as above, of the rows at hand
//   jumps  rdi row mr-1 in the loop, [rsp+8] row mr-1 in the store
//   next   r15 in the next panel, r14 bytes of it for a step
//   left   rax bytes of k     rsi channels     [rsp] rows
//   again  [rsp+16] A of the rows that are left     [rsp+24] the panel     [rsp+32] mr     [rsp+40] A     [rsp+48] C
//
// For weights that come from memory, of which half as many go by for as many multiply-adds as with 14 x 32: either time
// fetches half of the next panel, so that memory is never asked for more than it gives, nor left alone.

.macro twice_step m, a, lo, hi, none
L(twice_step\m):
        multiply_row \a, \lo, \hi
.endm

        rodata
        places  twice_step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  twice_store, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13

fn qn_gemm_f32_28x32_avx512
        mov     r10, [rsp + 8]
        save    rbx, rbp, r12, r13, r14, r15, r10, rcx, rdi, r9, rax, rax, rax
        mov     r11, [rsp + 120]

        xor     r14d, r14d              // a step fetches 64 bytes, or 128 if all rows go at once
        cmp     rdi, 15
        adc     r14d, 1
        shl     r14d, 6

0:      mov     [rsp + 24], r9          // a panel
        mov     r15, rdx
        shl     r15, 5
        lea     r15, [r15 + r9 + 128]

2:      lea     rax, [rdi + 1]          // all rows, or half of more than 14
        shr     rax
        cmp     rdi, 14
        cmovbe  rax, rdi
        sub     rdi, rax
        mov     [rsp], rdi
        mov     rdi, rax
        imul    rdi, r8
        add     rdi, rcx
        mov     [rsp + 16], rdi
        entry   rdi, rax, twice_step, rbx
        entry   rbp, rax, twice_store, rbx
        mov     [rsp + 8], rbp
        imul    rax, r11                // their end in C
        add     r10, rax

        lea     rax, [r8 + r8 * 2]      // bases of A: rows 3, 6, 9, 12
        lea     rbx, [rcx + rax]
        lea     rbp, [rcx + rax * 2]
        lea     r12, [rbx + rax * 2]
        lea     r13, [rcx + rax * 4]

        load_weights r9                 // start from the bias
        sub     r9, -128
        rows    start_row

        mov     rax, rdx
1:      load_weights r9
        sub     r9, -128
        prefetcht1 [r15]
        prefetcht1 [r15 + r14 - 64]
        add     r15, r14
        enter   rdi
        rows    twice_step
        next_k
        jnz     1b

        mask_channels rsi, esi, eax
        mov     rax, [rsp + 128]        // p
        load_clamp rax
        mov     rax, r10
        enter   [rsp + 8]
        rows    store_row, twice_store, r11

        mov     rcx, [rsp + 16]         // the rows that are left, with the same panel
        mov     rdi, [rsp]
        test    rdi, rdi
        jz      3f
        mov     r9, [rsp + 24]
        jmp     2b

3:      sub     qword ptr [rsp + 48], -128
        mov     r10, [rsp + 48]         // all rows, with the next panel
        mov     rcx, [rsp + 40]
        mov     rdi, [rsp + 32]
        sub     rsi, 32
        ja      0b

        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15, r10, rcx, rdi, r9, rax, rax, rax
        ret
endfn qn_gemm_f32_28x32_avx512

// The same with tiles of 28 rows x 16 channels.
//
//   args   as above
//   A      bases of rows 0, 1, 5, 10, 15, 20, 25: rcx rbx rbp r12 r13 r14 r15; the others lie 1, 2, 4 or 8 strides on
//   C      r10 the row after the last, r11 stride, rax the row at hand
//   jumps  rdi row mr-1 in the loop, [rsp+8] row mr-1 in the store
//   below  rsi in the rows of A, 27 being the first     r10 in those of C     [rsp+16] the first of those
//   left   rax bytes of k     [rsp] channels
//   acc    zmm4-zmm31: row m holds zmm(4+m)
//   load   zmm0 one row of W     then zmm0 min  zmm1 max
//
// Half as many weights go by for as many multiply-adds as with 14 x 32: for weights that come from memory, and for 16
// channels.  A step is 28 FMAs (14 cycles) and 31 loads (15.5 cycles), or 32 in the last 28 steps.

.macro tall_rows do
        \do     27, r15+r8*2, zmm31
        \do     26, r15+r8,   zmm30
        \do     25, r15,      zmm29
        \do     24, r14+r8*4, zmm28
        \do     23, r13+r8*8, zmm27
        \do     22, r14+r8*2, zmm26
        \do     21, r14+r8,   zmm25
        \do     20, r14,      zmm24
        \do     19, r13+r8*4, zmm23
        \do     18, r12+r8*8, zmm22
        \do     17, r13+r8*2, zmm21
        \do     16, r13+r8,   zmm20
        \do     15, r13,      zmm19
        \do     14, r12+r8*4, zmm18
        \do     13, rbp+r8*8, zmm17
        \do     12, r12+r8*2, zmm16
        \do     11, r12+r8,   zmm15
        \do     10, r12,      zmm14
        \do     9,  rbp+r8*4, zmm13
        \do     8,  rcx+r8*8, zmm12
        \do     7,  rbp+r8*2, zmm11
        \do     6,  rbp+r8,   zmm10
        \do     5,  rbp,      zmm9
        \do     4,  rcx+r8*4, zmm8
        \do     3,  rbx+r8*2, zmm7
        \do     2,  rcx+r8*2, zmm6
        \do     1,  rbx,      zmm5
        \do     0,  rcx,      zmm4
.endm

.macro tall_start m, a, acc
        vmovaps \acc, zmm0
.endm

.macro tall_step m, a, acc
L(tall_step\m):
        .if     \m == 14
        fetch_below rsi, r10, 28, 64
        .endif
        vfmadd231ps \acc, zmm0, dword ptr [\a]{1to16}
.endm

.macro tall_store m, a, acc
L(tall_store\m):
        sub     rax, r11
        vmaxps  \acc, zmm0, \acc
        vminps  \acc, zmm1, \acc
        vmovups [rax]{k1}, \acc
.endm

        rodata
        places  tall_step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27
        places  tall_store, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27

fn qn_gemm_f32_28x16_avx512
        entry   rax, rdi, tall_store, r10
        mov     r10, [rsp + 8]
        save    rbx, rbp, r12, r13, r14, r15, r10, rax, rsi
        mov     r11, [rsp + 88]

        lea     rbx, [rcx + r8]         // bases of A: rows 1, 5, 10, 15, 20, 25
        lea     rax, [r8 + r8 * 4]
        lea     rbp, [rcx + rax]
        lea     r12, [rbp + rax]
        lea     r13, [r12 + rax]
        lea     r14, [r13 + rax]
        lea     r15, [r14 + rax]

        mov     rax, rdi                // the end of C
        imul    rax, r11
        add     [rsp + 16], rax
        entry   rdi, rdi, tall_step, rax

0:      vmovaps zmm0, [r9]              // a panel: start from the bias
        add     r9, 64
        tall_rows tall_start

        mov     r10, [rsp + 16]
        lea     rsi, [r15 + r8 * 2]
        mov     rax, rdx
1:      vmovaps zmm0, [r9]
        add     r9, 64
        prefetcht0 [r9 + AHEAD]
        enter   rdi
        tall_rows tall_step
        add     rcx, 4
        add     rbx, 4
        add     rbp, 4
        add     r12, 4
        add     r13, 4
        add     r14, 4
        add     r15, 4
        sub     rax, 4
        jnz     1b

        sub     rcx, rdx                // A again for the next panel
        sub     rbx, rdx
        sub     rbp, rdx
        sub     r12, rdx
        sub     r13, rdx
        sub     r14, rdx
        sub     r15, rdx

        mov     rsi, [rsp]
        lanes   k1, rsi, esi, eax
        mov     rax, [rsp + 96]         // p
        load_clamp rax
        mov     rax, [rsp + 16]
        enter   [rsp + 8]
        tall_rows tall_store

        add     qword ptr [rsp + 16], 64
        sub     qword ptr [rsp], 16
        ja      0b

        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15, r10, rax, rsi
        ret
endfn qn_gemm_f32_28x16_avx512

// One row x 32 channels.

fn qn_gemm_f32_1x32_avx512
        one_row zmm, 64
        mask_channels rsi, esi, eax
        vmovups [rdi]{k1}, zmm4
        vmovups [rdi + 64]{k2}, zmm5
        row_next zmm, 64
        end_row
endfn qn_gemm_f32_1x32_avx512

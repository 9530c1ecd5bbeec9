// C[m][n] = dequantize_blocks(sum over blocks of s[b][n] * (sum over k in b of A[m][k] * W[k][n])) of bytes and weights
// of 4 bits, 7 rows x 32 channels and one row.  Contract: src/kernel/gemm.h; panels have the format k4
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      row 3i+j is at base i + j strides: bases rcx rbx rbp, stride r8
//   W      r9     r15 sums of weights
//   C      r10 the row after the last, r11 stride, rax the row at hand
//   jumps  row mr-1: r12 in a step  r13 at the beginning of a block  r14 at its end; in the frame, in the store
//   left   eax steps of a block     rdi bytes of k     rsi channels
//   acc    zmm4-zmm17, of a block: row m holds zmm(4+2m), zmm(5+2m)     zmm18-zmm31 of blocks: zmm(18+2m), zmm(19+2m)
//   load   zmm0 zmm1 four k of both vectors     zmm2 the lower halves of bytes
//   ends   zmm0 min  zmm1 max  zmm4 zmm5 sums of weights  zmm6 zmm7 biases     masks  k1 k2 the channels that exist
//
// A dot product multiplies unsigned bytes by signed ones.  The weights, which have 8 added, are the unsigned ones, so A
// needs no change, and comes from memory in the product itself.  A sum begins with what those 8 make too much, which
// stands before each block of A.
//
// A step of four k is 14 dot products (14 cycles where they take one each), 3 operations that take the weights apart,
// and 15 loads.  A block is 8 steps, then 14 conversions, products and sums of floats.  Only the rows of this call are
// run and read.
#include "tile_avx512vnni.h"

#define FRAME 24
#define STORE qword ptr [rsp]           // row mr-1 in the store
#define EPILOGUE qword ptr [rsp + 8]    // of the panel
#define ARGS rsp + FRAME + 56           // c  c_stride  p

// Every row: its number, where its A is, its sums of a block, those of blocks.
.macro rows do, arg:vararg
        \do     6, rbp,      zmm16, zmm17, zmm30, zmm31, \arg
        \do     5, rbx+r8*2, zmm14, zmm15, zmm28, zmm29, \arg
        \do     4, rbx+r8,   zmm12, zmm13, zmm26, zmm27, \arg
        \do     3, rbx,      zmm10, zmm11, zmm24, zmm25, \arg
        \do     2, rcx+r8*2, zmm8,  zmm9,  zmm22, zmm23, \arg
        \do     1, rcx+r8,   zmm6,  zmm7,  zmm20, zmm21, \arg
        \do     0, rcx,      zmm4,  zmm5,  zmm18, zmm19, \arg
.endm

.macro next_dword
        add     rcx, 4
        add     rbx, 4
        add     rbp, 4
.endm

.macro lower_halves mask, scratch
        mov     \scratch, 0x0f0f0f0f
        vpbroadcastd \mask, \scratch
.endm

.macro begin_block m, a, lo, hi, sum_lo, sum_hi, none
L(begin\m):
        vpbroadcastd \lo, dword ptr [\a]
        vmovdqa64 \hi, \lo
.endm

.macro step m, a, lo, hi, sum_lo, sum_hi, none
L(step\m):
        vpdpbusd \lo, zmm0, dword ptr [\a]{1to16}
        vpdpbusd \hi, zmm1, dword ptr [\a]{1to16}
.endm

// Adds the sums of a block to those of blocks, by its scales.
.macro scale_sums lo, hi, sum_lo, sum_hi, by_lo, by_hi
        vcvtdq2ps \lo, \lo
        vcvtdq2ps \hi, \hi
        vmulps  \lo, \lo, \by_lo
        vmulps  \hi, \hi, \by_hi
        vaddps  \sum_lo, \sum_lo, \lo
        vaddps  \sum_hi, \sum_hi, \hi
.endm

.macro end_block m, a, lo, hi, sum_lo, sum_hi, none
L(end\m):
        scale_sums \lo, \hi, \sum_lo, \sum_hi, zmm0, zmm1
.endm

.macro clear m, a, lo, hi, sum_lo, sum_hi, none
        vpxord  \sum_lo, \sum_lo, \sum_lo
        vpxord  \sum_hi, \sum_hi, \sum_hi
.endm

// What ends a panel: its sums of weights are at w, its epilogue at p.
.macro load_real_ends w, p
        load_clamp \p
        vmovaps zmm4, [\w]
        vmovaps zmm5, [\w + 64]
        vmovups zmm6, [\p + DEQUANTIZE_BIASES]
        vmovups zmm7, [\p + DEQUANTIZE_BIASES + 64]
.endm

// Sums of a row become results.
.macro end_real_row lo, hi, a
        vcvtdq2ps zmm8, dword ptr [\a + QUANTIZED_ROW_ZERO]{1to16}
        vmulps  zmm9, zmm8, zmm5
        vmulps  zmm8, zmm8, zmm4
        vsubps  \lo, \lo, zmm8
        vsubps  \hi, \hi, zmm9
        vmulps  \lo, \lo, dword ptr [\a + QUANTIZED_ROW_SCALE]{1to16}
        vmulps  \hi, \hi, dword ptr [\a + QUANTIZED_ROW_SCALE]{1to16}
        vaddps  \lo, \lo, zmm6
        vaddps  \hi, \hi, zmm7
        clamp_row \lo, \hi
.endm

.macro store_real m, a, lo, hi, sum_lo, sum_hi, none
L(store\m):
        sub     rax, r11
        end_real_row \sum_lo, \sum_hi, \a
        vmovups [rax]{k1}, \sum_lo
        vmovups [rax + 64]{k2}, \sum_hi
.endm

        rodata
        places  begin, 0, 1, 2, 3, 4, 5, 6
        places  step, 0, 1, 2, 3, 4, 5, 6
        places  end, 0, 1, 2, 3, 4, 5, 6
        places  store, 0, 1, 2, 3, 4, 5, 6

fn qn_gemm_qd8b4_7x32_avx512vnni
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     r11, [ARGS + 8]
        mov     rax, [ARGS + 16]        // p
        mov     EPILOGUE, rax
        mov     r10, rdi                // the end of C
        imul    r10, r11
        add     r10, [ARGS]
        entry   rax, rdi, store, rbx
        mov     STORE, rax
        entry   r12, rdi, step, rbx
        entry   r13, rdi, begin, rbx
        entry   r14, rdi, end, rbx
        lea     rbx, [rcx + r8 * 2]     // rows 3 and 6
        add     rbx, r8
        lea     rbp, [rbx + r8 * 2]
        add     rbp, r8
        lower_halves zmm2, eax

0:      mov     r15, r9
        sub     r9, -128
        rows    clear
        mov     rdi, rdx
1:      enter   r13
        rows    begin_block
        next_dword
        mov     eax, 8
2:      vmovdqa64 zmm1, [r9]
        add     r9, 64
        vpandd  zmm0, zmm1, zmm2
        vpsrld  zmm1, zmm1, 4
        vpandd  zmm1, zmm1, zmm2
        prefetcht0 [r9 + AHEAD_OF_BYTES]
        enter   r12
        rows    step
        next_dword
        dec     eax
        jnz     2b
        load_weights r9                 // the scales
        sub     r9, -128
        enter   r14
        rows    end_block
        sub     rdi, QUANTIZED_BLOCK_BYTES
        jnz     1b

        sub     rcx, rdx
        sub     rbx, rdx
        sub     rbp, rdx
        mask_channels rsi, esi, eax
        mov     rax, EPILOGUE
        load_real_ends r15, rax
        add     rax, DEQUANTIZE_BIASES + 128
        mov     EPILOGUE, rax
        mov     rax, r10
        enter   STORE
        rows    store_real
        sub     r10, -128
        sub     rsi, 32
        ja      0b

        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_gemm_qd8b4_7x32_avx512vnni

// One row x 32 channels.
//
//   A      rcx, from rax = 0 up to k     W r9     r8 sums of weights
//   C      rdi     p r10
//   left   rsi channels
//   acc    zmm16 zmm17 of a block     zmm18 zmm19 of blocks
//   load, ends, masks   as above
//
// Nothing is used twice, so this is as fast as the weights arrive, one place after the other.

fn qn_gemm_qd8b4_1x32_avx512vnni
        mov     rdi, [rsp + 8]          // c
        mov     r10, [rsp + 24]         // p
        lower_halves zmm2, eax

0:      mov     r8, r9
        sub     r9, -128
        vpxord  zmm18, zmm18, zmm18
        vpxord  zmm19, zmm19, zmm19
        xor     eax, eax
1:      vpbroadcastd zmm16, dword ptr [rcx + rax]
        vmovdqa64 zmm17, zmm16
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        vmovdqa64 zmm1, [r9 + 64 * \i]
        vpandd  zmm0, zmm1, zmm2
        vpsrld  zmm1, zmm1, 4
        vpandd  zmm1, zmm1, zmm2
        vpdpbusd zmm16, zmm0, dword ptr [rcx + rax + 4 + 4 * \i]{1to16}
        vpdpbusd zmm17, zmm1, dword ptr [rcx + rax + 4 + 4 * \i]{1to16}
        .endr
        scale_sums zmm16, zmm17, zmm18, zmm19, [r9 + 512], [r9 + 576]
        add     r9, 640
        add     rax, QUANTIZED_BLOCK_BYTES
        cmp     rax, rdx
        jne     1b

        load_real_ends r8, r10
        end_real_row zmm18, zmm19, rcx
        mask_channels rsi, esi, eax
        vmovups [rdi]{k1}, zmm18
        vmovups [rdi + 64]{k2}, zmm19
        add     r10, DEQUANTIZE_BIASES + 128
        sub     rdi, -128
        sub     rsi, 32
        ja      0b

        vzeroupper
        ret
endfn qn_gemm_qd8b4_1x32_avx512vnni

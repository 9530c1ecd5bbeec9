// Gemm kernels of rows that are quantized each on its own, with a scale for each channel.
//
//   args, A, acc, products   gemm_14x32_avx512vnni.h
//   C      r10 the row after the last, r11 stride, rax the row at hand
//   jumps  in the frame, where row mr-1 begins, and where it ends
//   ends   zmm0 min  zmm1 max  zmm2 zmm3 scales of channels  r15 the epilogue     masks  k1 k2 the channels that exist
//
// A sum begins with -(zero + 128) times the sum of the weights: the products are those of A plus 128.
#ifndef QN_ASM_X86_GEMM_QD8_AVX512VNNI_H
#define QN_ASM_X86_GEMM_QD8_AVX512VNNI_H

#define FRAME 40
#define ROWS qword ptr [rsp]            // mr
#define TAIL qword ptr [rsp + 8]        // row mr-1 in the tail; 0: there is none
#define BEGIN qword ptr [rsp + 16]      // row mr-1 at the beginning of a panel
#define STORE qword ptr [rsp + 24]      // row mr-1 in the store
#define EPILOGUE qword ptr [rsp + 32]   // of the panel
#define ARGS rsp + FRAME + 56           // c  c_stride  p

#include "gemm_14x32_avx512vnni.h"
#include "gemm_1x32_avx512vnni.h"

// The sums of the weights of a panel, at `w`, and -128, which no zero point is below.  Weights of 4 bits count 16
// times.
.macro load_sums w, bits, scratch
        load_weights \w
        .if     \bits == 4
        vpslld  zmm0, zmm0, 4
        vpslld  zmm1, zmm1, 4
        .endif
        mov     \scratch, -128
        vpbroadcastd zmm3, \scratch
.endm

.macro begin_row m, a, lo, hi, none
L(begin\m):
        vpsubd  zmm2, zmm3, dword ptr [\a + QUANTIZED_ROW_ZERO]{1to16}
        vpmulld \lo, zmm2, zmm0
        vpmulld \hi, zmm2, zmm1
.endm

// Sums of a row become results; the row's scale is at `scale`.
.macro end_real_row lo, hi, bits, scale, by_lo, by_hi, p
        .if     \bits == 4
        vpsrad  \lo, \lo, 4
        vpsrad  \hi, \hi, 4
        .endif
        vcvtdq2ps \lo, \lo
        vcvtdq2ps \hi, \hi
        vmulps  \lo, \lo, dword ptr [\scale]{1to16}
        vmulps  \hi, \hi, dword ptr [\scale]{1to16}
        vmulps  \lo, \lo, \by_lo
        vmulps  \hi, \hi, \by_hi
        vaddps  \lo, \lo, [\p + DEQUANTIZE_SCALES + 128]
        vaddps  \hi, \hi, [\p + DEQUANTIZE_SCALES + 192]
        clamp_row \lo, \hi
.endm

.macro store_real m, a, lo, hi, bits
L(store\m):
        sub     rax, r11
        end_real_row \lo, \hi, \bits, \a + QUANTIZED_ROW_SCALE, zmm2, zmm3, r15
        vmovups [rax]{k1}, \lo
        vmovups [rax + 64]{k2}, \hi
.endm

.macro gemm_qd8_14x32 name, bits
        rodata
        step_places
        places  begin, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  store, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13

fn \name
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     ROWS, rdi
        mov     r11, [ARGS + 8]
        mov     rax, [ARGS + 16]        // p
        mov     EPILOGUE, rax
        mov     r10, rdi                // the end of C
        imul    r10, r11
        add     r10, [ARGS]
        entry   rax, rdi, begin, rbx
        mov     BEGIN, rax
        entry   rax, rdi, store, rbx
        mov     STORE, rax
        begin_steps

0:      load_sums r9, \bits, eax
        sub     r9, -128
        enter   BEGIN
        rows    begin_row
        load_signs eax
        panel_products \bits, 128

        rewind  rdx
        mask_channels rsi, esi, eax
        mov     r15, EPILOGUE
        load_clamp r15
        vmovups zmm2, [r15 + DEQUANTIZE_SCALES]
        vmovups zmm3, [r15 + DEQUANTIZE_SCALES + 64]
        mov     rax, r10
        enter   STORE
        rows    store_real, \bits

        add     EPILOGUE, DEQUANTIZE_SCALES + 256
        sub     r10, -128
        sub     rsi, 32
        ja      0b

        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn \name
.endm

// ---- one row
//
//   C      rdi     row  r11     p  r12
//   left   rsi channels
//   begin  zmm13 -(zero + 128), what sums of weights are multiplied by; with weights of 4 bits 16 times that
//   mask   k1 k2 the channels that exist

.macro gemm_qd8_1x32 name, bits
fn \name
        save    rbx, r12
        mov     rdi, [rsp + 24]         // c
        mov     r12, [rsp + 40]         // p
        mov     r11, rcx
        begin_row_steps eax
        mov     eax, -128
        vpbroadcastd zmm13, eax
        vpsubd  zmm13, zmm13, dword ptr [r11 + QUANTIZED_ROW_ZERO]{1to16}
        .if     \bits == 4
        vpslld  zmm13, zmm13, 4
        vpbroadcastd zmm12, dword ptr [rip + PLACES(upper)]
        .endif

0:      vpmulld zmm4, zmm13, [r9]
        vpmulld zmm5, zmm13, [r9 + 64]
        sub     r9, -128
        all_row_products \bits
        load_clamp r12
        end_real_row zmm4, zmm5, \bits, r11 + QUANTIZED_ROW_SCALE, [r12 + DEQUANTIZE_SCALES], \
                [r12 + DEQUANTIZE_SCALES + 64], r12
        mask_channels rsi, esi, eax
        vmovups [rdi]{k1}, zmm4
        vmovups [rdi + 64]{k2}, zmm5
        add     r12, DEQUANTIZE_SCALES + 256
        sub     rdi, -128
        sub     rsi, 32
        ja      0b

        vzeroupper
        restore rbx, r12
        ret
endfn \name
.endm

#endif

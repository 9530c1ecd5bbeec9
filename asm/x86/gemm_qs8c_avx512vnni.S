// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]) of bytes, 14 rows x 32 channels.
// Contract: src/kernel/gemm.h; panels have the format k4u, scales are below 1
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      gemm_14x32.h; rdx whole fours of k
//   C      r10 the row after the last, r11 stride, rax the even row at hand, r14 from there to the odd one
//   jumps  rdi row mr-1 in the loop; in the frame, for the tail of k and for the store
//   below  r15 in the next 14 rows of A     r14 in those of C
//   left   rax bytes of k     rsi channels
//   acc    zmm4-zmm31: row m holds zmm(4+2m), zmm(5+2m)
//   load, ends, masks   tile_avx512vnni.h
//
// A step of four k is 28 dot products (28 cycles where they take one each) and 18 loads, prefetches among them.  Of a
// last panel with at most 16 channels only the lower vector is multiplied.  Only the rows of this call are run, read and
// written.
#include "gemm_14x32.h"
#include "tile_avx512vnni.h"

#define FRAME 56
#define ENDS rsp                        // 12 bytes
#define ROWS qword ptr [rsp + 16]       // mr
#define TAIL qword ptr [rsp + 24]       // row mr-1 in the tail; 0: there is none
#define STORE qword ptr [rsp + 32]      // the pair of row mr-1 in the store
#define ODD qword ptr [rsp + 40]        // of that pair, from its even row of C to its odd one
#define EPILOGUE qword ptr [rsp + 48]   // of the panel
#define ARGS rsp + FRAME + 56           // c  c_stride  p

.macro step m, a, lo, hi, none
L(step\m):
        .if     \m == 7
        fetch_below r15, r14, 14, 32
        .endif
        dot_row \a, \lo, \hi
.endm

.macro lower m, a, lo, hi, none
L(lower\m):
        dot_lower \a, \lo
.endm

.macro tail m, a, lo, hi, none
L(tail\m):
        dot_tail \a, \lo, \hi
.endm

        rodata
        places  step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  lower, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  tail, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  store, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12

fn qn_gemm_qs8c_14x32_avx512vnni
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     ROWS, rdi
        mov     r11, [ARGS + 8]
        mov     rax, [ARGS + 16]        // p
        mov     EPILOGUE, rax
        prepare_ends ENDS, rax, ebx

        way_to_odd r10, rdi, r11
        mov     ODD, r10
        mov     r10, rdi                // the end of C
        imul    r10, r11
        add     r10, [ARGS]
        entry   rax, rdi, store, rbx
        mov     STORE, rax

        mov     rbx, rdx
        and     rdx, -4
        mask_tail ebx, eax
        jz      1f
        entry   rax, rdi, tail, rbx
1:      mov     TAIL, rax
        bases
        entry   rdi, rdi, step, rax

0:      load_signs eax
        load_weights r9                 // a panel: start from the bias
        sub     r9, -128
        rows    start_row
        mov     rax, rdx
        test    rdx, rdx
        jz      4f

        cmp     rsi, 16
        ja      2f
        mov     rdi, ROWS               // at most 16 channels: the lower half of the last panel
        entry   rdi, rdi, lower, r15
1:      vmovdqa64 zmm0, [r9]
        sub     r9, -128
        enter   rdi
        rows    lower
        next_k
        jnz     1b
        jmp     4f

2:      lea     r15, [r13 + r8 * 2]
        mov     r14, r10
1:      load_weights r9
        sub     r9, -128
        prefetcht0 [r9 + AHEAD]
        prefetcht0 [r9 + AHEAD + 64]
        enter   rdi
        rows    step
        next_k
        jnz     1b

4:      mov     rax, TAIL
        test    rax, rax
        jz      3f
        load_weights r9
        sub     r9, -128
        enter   rax
        rows    tail

3:      rewind  rdx
        lanes   k1, rsi, esi, eax
        load_ends ENDS
        mov     r14, ODD
        mov     rax, r10
        sub     rax, r11
        sub     rax, r14
        mov     r15, EPILOGUE
        enter   STORE
        store_pair 12, 28, 29, 30, 31, r14, r11, r15
        store_pair 10, 24, 25, 26, 27, r14, r11, r15
        store_pair 8, 20, 21, 22, 23, r14, r11, r15
        store_pair 6, 16, 17, 18, 19, r14, r11, r15
        store_pair 4, 12, 13, 14, 15, r14, r11, r15
        store_pair 2, 8, 9, 10, 11, r14, r11, r15
        store_pair 0, 4, 5, 6, 7, r14, r11, r15

        add     EPILOGUE, REQUANTIZE_SCALES + 128
        add     r10, 32
        sub     rsi, 32
        ja      0b

        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_gemm_qs8c_14x32_avx512vnni

// One row x 32 channels.
//
//   A      rcx the end of its whole fours, rax from minus their bytes, rdx, up to 0     r8 the bytes left behind them
//   W      r9
//   C      rdi
//   left   rsi channels     r10 bytes of A for whole steps, rbx of a panel     r12 p
//   acc    zmm4-zmm11: the sums of every fourth four k in zmm(4+2i), zmm(5+2i)
//
// Nothing is used twice, so this is as fast as the weights arrive, and they arrive fastest where one place is read after
// the other: from the last cache a fifth faster than where four panels are read side by side.  Four pairs of sums hide
// the latency of dot products.

.macro row_dots lo, hi, at, w
        vpxord  zmm2, zmm3, dword ptr [\at]{1to16}
        vpdpbusd zmm\lo, zmm2, [\w]
        vpdpbusd zmm\hi, zmm2, [\w + 64]
.endm

fn qn_gemm_qs8c_1x32_avx512vnni
        save    rbx, r12
        frame   24
        mov     r12, [rsp + 64]         // p
        prepare_ends rsp, r12, eax
        mov     rdi, [rsp + 48]         // c
        mov     r8, rdx
        mask_tail r8d, eax
        and     rdx, -4
        add     rcx, rdx
        mov     rbx, rdx
        and     rbx, -16

0:      load_signs eax
        vmovdqa64 zmm4, [r9]
        vmovdqa64 zmm5, [r9 + 64]
        sub     r9, -128
        .irp    i, 6, 7, 8, 9, 10, 11
        vpxord  zmm\i, zmm\i, zmm\i
        .endr
        mov     rax, rdx
        neg     rax
        mov     r10, rbx
        test    rbx, rbx
        jz      2f
1:      row_dots 4, 5, rcx+rax, r9
        row_dots 6, 7, rcx+rax+4, r9+128
        row_dots 8, 9, rcx+rax+8, r9+256
        row_dots 10, 11, rcx+rax+12, r9+384
        add     r9, 512
        add     rax, 16
        sub     r10, 16
        jnz     1b

2:      test    rax, rax
        jz      3f
        row_dots 4, 5, rcx+rax, r9
        sub     r9, -128
        add     rax, 4
        jmp     2b

3:      test    r8d, r8d
        jz      3f
        vmovdqu8 xmm2{k3}{z}, [rcx]
        vpbroadcastd zmm2, xmm2
        vpxord  zmm2, zmm2, zmm3
        vpdpbusd zmm4, zmm2, [r9]
        vpdpbusd zmm5, zmm2, [r9 + 64]
        sub     r9, -128

3:      load_ends rsp
        vpaddd  zmm4, zmm4, zmm6
        vpaddd  zmm5, zmm5, zmm7
        vpaddd  zmm8, zmm8, zmm10
        vpaddd  zmm9, zmm9, zmm11
        vpaddd  zmm4, zmm4, zmm8
        vpaddd  zmm5, zmm5, zmm9
        end_row_16 4, 5, r12
        end_pair 4, 4
        lanes   k1, rsi, esi, eax
        vmovdqu8 [rdi]{k1}, ymm4
        add     r12, REQUANTIZE_SCALES + 128
        add     rdi, 32
        sub     rsi, 32
        ja      0b

        vzeroupper
        unframe 24
        restore rbx, r12
        ret
endfn qn_gemm_qs8c_1x32_avx512vnni

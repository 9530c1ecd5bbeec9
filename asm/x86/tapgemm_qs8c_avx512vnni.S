// C(m)[n] = requantize(bias[n] + sum over taps t, bytes k of A(t, m)[k] * W[t][k][n]), 12 rows x 32 channels.
// Contract: src/kernel/tapgemm.h; panels have the format k4u, so A is plus 128; sums times scales fit 32 bits
//
//   args   rdi mr  rsi nc  rdx kc  rcx ks  r8 offsets  r9 a  [rsp+8] a_stride  w  c  p
//   A      gemm_12x32.h; r13 three strides, r14 a
//   W      r9
//   C      r15 the first channel of the panel
//   jumps  rdi row mr-1 in the loop
//   left   rax bytes of a tap, r10 bytes of offsets up to 0, which end at r11     rsi channels
//   acc    gemm_12x32.h     load, ends, masks   tile_avx512vnni.h
//
// A step of four k is 24 dot products, 14 loads and two prefetches: A needs no flip of signs, which on Intel's cores takes
// the ports of the dot products.  Of a last panel with at most 16 channels only the lower vector is multiplied.  Only the
// rows of this call are run, read and written.
#include "gemm_12x32.h"
#include "tile_avx512vnni.h"

#define FRAME 104
#define ENDS rsp                        // 12 bytes
#define ROWS qword ptr [rsp + 16]       // mr
#define KC qword ptr [rsp + 24]
#define MINUS_TAPS qword ptr [rsp + 32] // bytes of offsets
#define STEP qword ptr [rsp + 40]       // row mr-1 in a step,
#define LOWER qword ptr [rsp + 48]      // where its lower vector is,
#define STORE qword ptr [rsp + 56]      // and the pair of row mr-1 in the store
#define ODD qword ptr [rsp + 64]        // from the address of the last even row to that of the odd one behind it
#define LAST qword ptr [rsp + 72]       // the address of the last even row
#define EPILOGUE qword ptr [rsp + 80]   // of the panel
#define ARGS rsp + FRAME + 56           // a_stride  w  c  p

.macro step m, a, lo, hi, none
L(step\m):
        vpbroadcastd zmm2, dword ptr [\a]
        vpdpbusd \lo, zmm2, zmm0
        vpdpbusd \hi, zmm2, zmm1
.endm

.macro lower m, a, lo, hi, none
L(lower\m):
        vpbroadcastd zmm2, dword ptr [\a]
        vpdpbusd \lo, zmm2, zmm0
.endm

// Ends and stores a pair of rows, whose even one has its address at rax, the odd one at rax + rcx.
.macro store_pair_at m, lo, hi, next_lo, next_hi
L(store\m):
        end_row_16 \lo, \hi, zmm0, zmm1
        end_row_16 \next_lo, \next_hi, zmm0, zmm1
        end_pair \lo, \next_lo
        vextracti64x4 ymm\hi, zmm\lo, 1
        mov     rbx, [rax + rcx]
        vmovdqu8 [rbx + r15]{k1}, ymm\hi
        mov     rbx, [rax]
        vmovdqu8 [rbx + r15]{k1}, ymm\lo
        .if     \m
        mov     ecx, 8
        sub     rax, 16
        .endif
.endm

// The same for a last row, without one behind it.
.macro store_one_at m, lo, hi
L(store\m):
        end_row_16 \lo, \hi, zmm0, zmm1
        end_pair \lo, \lo
        mov     rbx, [rax]
        vmovdqu8 [rbx + r15]{k1}, ymm\lo
        mov     ecx, 8
        sub     rax, 16
.endm

// Stages 1 to 9 of the end of pair j of twelve rows.
.macro end_of_pair i, j, none
        .if     \i < 8
        end_stage %(\i + 1), %(4 * \j + 4), %(4 * \j + 5), %(4 * \j + 6), %(4 * \j + 7)
        .else
        store_stage \j, %(4 * \j + 4), %(4 * \j + 5)
        .endif
.endm

.macro store_stage j, lo, hi
        mov     rcx, [rax + 16 * \j - 80]
        mov     rbx, [rax + 16 * \j - 72]
        vextracti64x4 ymm\hi, zmm\lo, 1
        vmovdqu8 [rcx + r15]{k1}, ymm\lo
        vmovdqu8 [rbx + r15]{k1}, ymm\hi
.endm

        .altmacro

        rodata
        places  step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  lower, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  store, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10

fn qn_tapgemm_qs8c_12x32_avx512vnni
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     ROWS, rdi
        mov     KC, rdx
        mov     r14, r9
        lea     r11, [r8 + rcx * 8]
        shl     rcx, 3
        neg     rcx
        mov     MINUS_TAPS, rcx
        mov     r8, [ARGS]
        lea     r13, [r8 + r8 * 2]
        mov     r9, [ARGS + 8]
        mov     rax, [ARGS + 24]        // p
        mov     EPILOGUE, rax
        prepare_ends ENDS, rax, ecx
        load_ends ENDS

        entry   rax, rdi, lower, rcx
        mov     LOWER, rax
        entry   rax, rdi, step, rcx
        mov     STEP, rax
        entry   rax, rdi, store, rcx
        mov     STORE, rax
        lea     rax, [rdi - 1]
        and     rax, -2
        shl     rax, 3
        add     rax, [ARGS + 16]
        mov     LAST, rax
        xor     eax, eax
        mov     ecx, 8
        test    edi, 1
        cmovz   eax, ecx
        mov     ODD, rax
        xor     r15d, r15d

0:      load_weights r9                 // a panel: start from the bias
        sub     r9, -128
        rows    start_row
        mov     r10, MINUS_TAPS

1:      mov     rcx, [r11 + r10]        // a tap
        add     rcx, r14
        lea     rbx, [rcx + r13]
        lea     rbp, [rbx + r13]
        lea     r12, [rbp + r13]
        mov     rax, KC
        cmp     rsi, 16
        ja      2f
        mov     rdi, LOWER              // at most 16 channels: the lower half of the last panel
3:      vmovdqa64 zmm0, [r9]
        sub     r9, -128
        enter   rdi
        rows    lower
        move    4
        sub     rax, 4
        jnz     3b
        add     r10, 8
        jnz     1b
        jmp     4f

2:      mov     rdi, STEP
3:      load_weights r9
        sub     r9, -128
        prefetcht0 [r9 + AHEAD]
        prefetcht0 [r9 + AHEAD + 64]
        enter   rdi
        rows    step
        move    4
        sub     rax, 4
        jnz     3b
        add     r10, 8
        jnz     1b

4:      lanes   k1, rsi, esi, eax
        mov     rax, EPILOGUE
        load_scales rax
        add     rax, REQUANTIZE_SCALES + 128
        mov     EPILOGUE, rax
        mov     rax, LAST
        cmp     ROWS, 12
        jne     6f
        staged  end_of_pair, 9
        jmp     7f
6:      mov     rcx, ODD
        enter   STORE
        store_one_at 10, 24, 25
        .irp    m, 8, 6, 4, 2, 0
        store_pair_at \m, %(2 * \m + 4), %(2 * \m + 5), %(2 * \m + 6), %(2 * \m + 7)
        .endr
7:      add     r15, 32
        sub     rsi, 32
        ja      0b

        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_tapgemm_qs8c_12x32_avx512vnni

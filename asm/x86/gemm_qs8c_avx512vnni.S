// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]) of bytes, 12 rows x 32 channels.
// Contract: src/kernel/gemm.h; panels have the format k4u, sums times scales fit 32 bits
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      gemm_12x32.h; rdx whole fours of k
//   C      r10 the row after the last, r11 stride
//   jumps  rdi row mr-1 in the loop; others in the frame
//   left   rax bytes of k     rsi channels
//   acc    gemm_12x32.h     load, ends, masks   tile_avx512vnni.h
//
// A step of four k is 24 dot products (24 cycles where they take one each) and 16 loads, prefetches among them.  To end
// the sums takes 126 operations of other kinds, about as long as three steps: too long where k is small.  So panels turn
// into each other, if all rows are there and k is made up of fours:
//
//      - the last step of a panel, the end of its sums, and the first step of the next panel go through the pairs of rows
//        in stages, so that operations of many kinds, which do not wait for each other, stand side by side;
//      - the next panel goes the other way through k, and so begins where the last one has ended in A.
//
// Of a last panel with at most 16 channels only the lower vector is multiplied.  Only the rows of this call are run, read
// and written.
#include "gemm_12x32.h"
#include "gemm_1x32_avx512vnni.h"
#include "tile_avx512vnni.h"

#define FRAME 72
#define ENDS rsp                        // 12 bytes
#define ROWS qword ptr [rsp + 16]       // mr
#define TAIL qword ptr [rsp + 24]       // row mr-1 in the tail of k; 0: there is none
#define STORE qword ptr [rsp + 32]      // the pair of row mr-1 in the store
#define ODD qword ptr [rsp + 40]        // of that pair, from its even row of C to its odd one
#define EPILOGUE qword ptr [rsp + 48]   // of the panel
#define PAIR qword ptr [rsp + 56]       // row 10 of C, at the panel
#define STEPS qword ptr [rsp + 64]      // of a panel
#define ARGS rsp + FRAME + 56           // c  c_stride  p

.macro step m, a, lo, hi, none
L(step\m):
        .if     \m == 6
        fetch_below r15, r14, 12, 32
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

.macro middle m, a, lo, hi, none
        dot_row \a, \lo, \hi
.endm

.macro store_rows m
        store_pair \m, %(2 * \m + 4), %(2 * \m + 5), %(2 * \m + 6), %(2 * \m + 7), r14, r11
.endm

// A row in a step with the weights at w.
.macro dot_memory m, w:vararg
        .irp    base, rcx, rbx, rbp, r12
        .if     \m / 3 == BASE
        .if     \m % 3 == 0
        vpxord  zmm2, zmm3, dword ptr [\base]{1to16}
        .elseif \m % 3 == 1
        vpxord  zmm2, zmm3, dword ptr [\base + r8]{1to16}
        .else
        vpxord  zmm2, zmm3, dword ptr [\base + r8 * 2]{1to16}
        .endif
        .endif
        .set    BASE, (BASE + 1) % 4
        .endr
        dot_both %(4 + 2 * \m), %(5 + 2 * \m), \w
.endm

.macro dot_both lo, hi, w:vararg
        vpdpbusd zmm\lo, zmm2, [\w]
        vpdpbusd zmm\hi, zmm2, [\w + 64]
.endm

// Stage i of pair j of rows: the last step of a panel, at r9; the end of the sums; where a panel follows, whose biases are
// at rax, its first step.
#define STAGES 11
.macro stage i, j, next
        .if     \i == 0
        dot_memory %(2 * \j + 1), r9
        dot_memory %(2 * \j), r9
        .elseif \i < 10
        .if     \i == 9
        prefetchw [r10 + rdx]
        prefetchw [r10 + rdi]
        .endif
        end_stage \i, %(4 * \j + 4), %(4 * \j + 5), %(4 * \j + 6), %(4 * \j + 7)
        .elseif \next
        begin_pair %(4 * \j + 4), %(4 * \j + 5), %(4 * \j + 6), %(4 * \j + 7)
        dot_memory %(2 * \j + 1), r9 + r13
        dot_memory %(2 * \j), r9 + r13
        .endif
.endm

.macro begin_pair lo, hi, odd_lo, odd_hi
        vmovdqa64 zmm\lo, [rax]
        vmovdqa64 zmm\hi, [rax + 64]
        vmovdqa64 zmm\odd_lo, [rax]
        vmovdqa64 zmm\odd_hi, [rax + 64]
.endm

.macro turn next
        .set    BASE, 0
        staged  stage, STAGES, \next
.endm

        .altmacro

        rodata
        places  step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  lower, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  tail, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  store, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10

fn qn_gemm_qs8c_12x32_avx512vnni
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     ROWS, rdi
        mov     r11, [ARGS + 8]
        mov     rax, [ARGS + 16]        // p
        mov     EPILOGUE, rax
        prepare_ends ENDS, rax, r10d
        load_ends ENDS
        load_signs eax

        way_to_odd r10, rdi, r11
        mov     ODD, r10
        mov     r10, rdi                // the end of C
        imul    r10, r11
        add     r10, [ARGS]
        entry   rax, rdi, store, rbx
        mov     STORE, rax

        lea     rbx, [rcx + r8 * 2]     // bases of A: rows 3, 6, 9
        add     rbx, r8
        lea     rbp, [rbx + r8 * 2]
        add     rbp, r8
        lea     r12, [rbp + r8 * 2]
        add     r12, r8

        mov     r14, rdx
        and     rdx, -4
        mask_tail r14d, eax
        mov     TAIL, rax
        jz      1f
        entry   rax, rdi, tail, r14
        mov     TAIL, rax
        jmp     6f

1:      cmp     rdi, 12                 // panels turn unless there are fewer rows,
        jne     6f
        cmp     rdx, 8                  // less than two steps,
        jb      6f
        cmp     rsi, 16                 // or only half a panel
        ja      7f

6:      entry   rdi, rdi, step, rax
0:      load_weights r9                 // a panel: start from the bias
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
        move    4
        sub     rax, 4
        jnz     1b
        jmp     4f

2:      lea     r15, [r12 + r8 * 2]
        mov     r14, r10
1:      load_weights r9
        sub     r9, -128
        prefetcht0 [r9 + AHEAD]
        prefetcht0 [r9 + AHEAD + 64]
        enter   rdi
        rows    step
        move    4
        sub     rax, 4
        jnz     1b

4:      mov     rax, TAIL
        test    rax, rax
        jz      3f
        load_weights r9
        sub     r9, -128
        enter   rax
        rows    tail

3:      sub     rcx, rdx                // A again for the next panel
        sub     rbx, rdx
        sub     rbp, rdx
        sub     r12, rdx
        lanes   k1, rsi, esi, eax
        mov     rax, EPILOGUE
        load_scales rax
        add     rax, REQUANTIZE_SCALES + 128
        mov     EPILOGUE, rax
        mov     r14, ODD
        mov     rax, r10
        sub     rax, r11
        sub     rax, r14
        enter   STORE
        .irp    m, 10, 8, 6, 4, 2, 0
        store_rows \m
        .endr
        add     r10, 32
        sub     rsi, 32
        ja      0b

5:      vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret

// Panels that turn.
//
//   A, W   r14 and r15 a step, 4 and 128 or -4 and -128     r13 from a panel to the next
//   turn   r9 W of its last step   rax biases of the next panel   r10 the even row of C at hand   zmm0 zmm1 scales
//          rdx rdi from the rows of C at hand to those that the next call is likely to write
//   left   rax steps

7:      sub     r10, r11                // the last pair
        sub     r10, r11
        mov     PAIR, r10
        lea     r13, [rdx + 4]
        shl     r13, 5
        shr     rdx, 2
        mov     STEPS, rdx
        imul    rdi, r11, 13
        mov     r14d, 4
        mov     r15d, 128

        load_weights r9
        add     r9, r15
        rows    start_row
        lea     rax, [rdx - 1]
1:      load_weights r9
        prefetcht0 [r9 + AHEAD]
        prefetcht0 [r9 + AHEAD + 64]
        add     r9, r15
        rows    middle
        move    r14
        dec     rax
        jnz     1b

2:      lanes   k1, rsi, esi, eax
        mov     rdx, EPILOGUE
        load_scales rdx
        add     rdx, REQUANTIZE_SCALES + 128
        mov     EPILOGUE, rdx
        mov     r10, PAIR
        add     PAIR, 32
        lea     rax, [r9 + r13 - 128]   // biases of the next panel
        lea     rdx, [r9 + 128]
        test    r14, r14
        cmovns  rax, rdx
        imul    rdx, r11, 12
        sub     rsi, 32
        cmp     rsi, 16
        jle     3f
        turn    1
        add     r9, r13
        neg     r14
        neg     r15
        move    r14
        add     r9, r15
        mov     rax, STEPS
        sub     rax, 2
        jnz     1b
        jmp     2b

3:      turn    0
        test    rsi, rsi
        jle     5b

        mov     r9, rax                 // half a panel is left
        mov     r10, PAIR
        lea     r10, [r10 + r11 * 2]
        mov     rdx, STEPS
        shl     rdx, 2
        test    r14, r14
        js      0b
        lea     rax, [rdx - 4]          // A from its beginning
        neg     rax
        move    rax
        jmp     0b
endfn qn_gemm_qs8c_12x32_avx512vnni

// One row x 32 channels.
//
//   A, W, acc   gemm_1x32_avx512vnni.h
//   C      rdi
//   left   rsi channels     r12 p

fn qn_gemm_qs8c_1x32_avx512vnni
        save    rbx, r12
        frame   24
        mov     r12, [rsp + 64]         // p
        prepare_ends rsp, r12, eax
        mov     rdi, [rsp + 48]         // c
        begin_row_steps eax
        load_ends rsp

0:      vmovdqa64 zmm4, [r9]
        vmovdqa64 zmm5, [r9 + 64]
        sub     r9, -128
        all_row_products 8
        end_row_16 4, 5, [r12 + REQUANTIZE_SCALES], [r12 + REQUANTIZE_SCALES + 64]
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

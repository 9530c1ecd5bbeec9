// How gemm kernels with dot products multiply bytes in 14 rows by panels of 32 channels, whatever a sum
// becomes.  `bits` are those of a weight.  (Those of qs8c do it in another way: gemm_qs8c_avx512vnni.S.)
//
//   args   rdi mr  rsi nc  rdx k(bytes)  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      gemm_14x32.h; rdx whole fours of k
//   C      r10 the row after the last, r11 stride
//   jumps  rdi row mr-1 in the loop     frame  ROWS and TAIL, which who includes this defines before
//   below  r15 in the next 14 rows of A     r14 in those of C
//   left   rax bytes of k     rsi channels
//   acc    zmm4-zmm31: row m holds zmm(4+2m), zmm(5+2m)
//   load, masks   tile_avx512vnni.h
//
// A step of four k is 28 dot products (28 cycles where they take one each) and 18 loads, prefetches among them.  Of a
// last panel with at most 16 channels only the lower vector is multiplied.  Only the rows of this call are run and
// read.
#ifndef QN_ASM_X86_GEMM_14X32_AVX512VNNI_H
#define QN_ASM_X86_GEMM_14X32_AVX512VNNI_H

#include "gemm_14x32.h"
#include "tile_avx512vnni.h"

// Weights of four k, from r9 on.  Of 4 bits, a byte holds that of a channel of the lower vector in its lower half, and
// that of a channel of the upper vector in its upper half.  Each becomes the upper half of a byte, so that sums are 16
// times what they should be.
.macro weights_of_step bits
        .if     \bits == 8
        load_weights r9
        sub     r9, -128
        .else
        vmovdqa64 zmm1, [r9]
        add     r9, 64
        vpslld  zmm0, zmm1, 4
        vpandd  zmm1, zmm1, dword ptr [rip + PLACES(upper)]{1to16}
        vpandd  zmm0, zmm0, dword ptr [rip + PLACES(upper)]{1to16}
        .endif
.endm

// Those of the lower vector.
.macro lower_of_step bits
        vmovdqa64 zmm0, [r9]
        .if     \bits == 8
        sub     r9, -128
        .else
        add     r9, 64
        vpslld  zmm0, zmm0, 4
        vpandd  zmm0, zmm0, dword ptr [rip + PLACES(upper)]{1to16}
        .endif
.endm

.macro step m, a, lo, hi, c_bytes
L(step\m):
        .if     \m == 7
        fetch_below r15, r14, 14, \c_bytes
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

// The tables of these places.
.macro step_places
        places  step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  lower, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        places  tail, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
.endm

// Where mr rows enter the steps and the tail, the mask of the tail, and the bases of A.
.macro begin_steps
        mov     rbx, rdx
        and     rdx, -4
        mask_tail ebx, eax
        jz      1f
        entry   rax, rdi, tail, rbx
1:      mov     TAIL, rax
        bases
        entry   rdi, rdi, step, rax
.endm

// Adds the products of all k with the panel whose weights begin at r9, and moves r9 behind it.  A row of C, of which
// c_bytes belong to the panel, is fetched for the next rows.
.macro panel_products bits, c_bytes
        mov     rax, rdx
        test    rdx, rdx
        jz      4f

        cmp     rsi, 16
        ja      2f
        mov     rdi, ROWS               // at most 16 channels: the lower half of the last panel
        entry   rdi, rdi, lower, r15
1:      lower_of_step \bits
        enter   rdi
        rows    lower
        next_k
        jnz     1b
        jmp     4f

2:      lea     r15, [r13 + r8 * 2]
        mov     r14, r10
1:      weights_of_step \bits
        prefetcht0 [r9 + AHEAD]
        .if     \bits == 8
        prefetcht0 [r9 + AHEAD + 64]
        .endif
        enter   rdi
        rows    step, \c_bytes
        next_k
        jnz     1b

4:      mov     rax, TAIL
        test    rax, rax
        jz      3f
        weights_of_step \bits
        enter   rax
        rows    tail
3:
.endm

        rodata
PLACES(upper):                          // halves of bytes
        .long   0xf0f0f0f0

#endif

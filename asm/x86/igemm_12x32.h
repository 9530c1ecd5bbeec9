// What tiles of 12 rows x 32 channels share, in igemm kernels of AVX-512.
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      the end of row m of this tap: rdi rsi rdx rcx r8 r9 r10 r11 rbx rbp r12 r13 for m = 0 .. 11
//   tap    rax its offsets, r15 a
//   loop   r14 w
//   acc    zmm4-zmm27: row m holds zmm(4+2m), zmm(5+2m)
//
// The loop needs every register, so the rest lives in the frame, of which a kernel may use what lies above TILE_FRAME.
// Before a kernel includes this header, it defines FRAME, the bytes of its frame; LINES_OF_ROW, the cache lines of a row
// of C; MULTIPLY_ROW and, for a last panel with at most 16 channels, MULTIPLY_LOWER, the macros that multiply a row.
#ifndef QN_ASM_X86_IGEMM_12X32_H
#define QN_ASM_X86_IGEMM_12X32_H

#include "tile.h"

#define TILE_FRAME 96
#define TABLE qword ptr [rsp]           // offsets of this tap
#define TABLE_BEGIN qword ptr [rsp + 8]
#define TABLE_END qword ptr [rsp + 16]
#define A_END qword ptr [rsp + 24]      // a + kc
#define ZERO_END qword ptr [rsp + 32]   // zero + kc
#define MINUS_KC qword ptr [rsp + 40]
#define NC qword ptr [rsp + 48]         // channels left
#define C_END qword ptr [rsp + 56]      // the row after the last
#define ROW qword ptr [rsp + 64]        // row mr-1: where its address is found,
#define STEP qword ptr [rsp + 72]       // where it is multiplied,
#define STORE qword ptr [rsp + 80]      // where it is stored
#define LOWER qword ptr [rsp + 88]      // and where its lower vector is
#define ARGS rsp + FRAME + 56

// Every row: its number, the end of its A, its accumulators.
.macro rows do, arg:vararg
        \do     11, r13, zmm26, zmm27, \arg
        \do     10, r12, zmm24, zmm25, \arg
        \do     9,  rbp, zmm22, zmm23, \arg
        \do     8,  rbx, zmm20, zmm21, \arg
        \do     7,  r11, zmm18, zmm19, \arg
        \do     6,  r10, zmm16, zmm17, \arg
        \do     5,  r9,  zmm14, zmm15, \arg
        \do     4,  r8,  zmm12, zmm13, \arg
        \do     3,  rcx, zmm10, zmm11, \arg
        \do     2,  rdx, zmm8,  zmm9,  \arg
        \do     1,  rsi, zmm6,  zmm7,  \arg
        \do     0,  rdi, zmm4,  zmm5,  \arg
.endm

.macro row m, a, lo, hi, none
L(row\m):
        find_row \a, rax+4*\m, r15, ZERO_END
.endm

// A row of C that the next call is likely to write comes into the cache: two in each of the last 6 steps of a tap.
.macro claim
        cmp     rax, -6 * 4
        jl      9f
        .set    LINE, 0
        .rept   LINES_OF_ROW
        prefetchw [r15 + LINE]
        .set    LINE, LINE + 64
        .endr
        add     r15, [ARGS + 24]
9:
.endm

.macro step m, a, lo, hi, none
L(step\m):
        .if     \m == 9 || \m == 3
        claim
        .endif
        MULTIPLY_ROW \a+rax, \lo, \hi
.endm

.macro lower m, a, lo, hi, none
L(lower\m):
        MULTIPLY_LOWER \a+rax, \lo
.endm

        rodata
        places  row, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  step, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  lower, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

// The places named store are those of the kernel.
.macro begin_igemm_12x32
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME

        mov     TABLE_BEGIN, r8
        lea     rcx, [rcx + rcx * 2]    // 12 offsets per tap
        shl     rcx, 4
        add     r8, rcx
        mov     TABLE_END, r8
        add     r9, rdx
        mov     A_END, r9
        mov     rax, [ARGS]             // zero
        add     rax, rdx
        mov     ZERO_END, rax
        neg     rdx
        mov     MINUS_KC, rdx
        mov     NC, rsi
        mov     r14, [ARGS + 8]         // w
        mov     rax, rdi                // the end of C
        imul    rax, [ARGS + 24]
        add     rax, [ARGS + 16]
        mov     C_END, rax
        entry   rax, rdi, row, rcx
        mov     ROW, rax
        entry   rax, rdi, store, rcx
        mov     STORE, rax
        entry   rax, rdi, lower, rcx
        mov     LOWER, rax
        entry   rax, rdi, step, rcx
        mov     STEP, rax
.endm

// Begins the tap whose offsets are at rax: finds its rows of A.
.macro begin_tap
        mov     TABLE, rax
        mov     r15, A_END
        enter   ROW
        rows    row
        mov     rax, MINUS_KC
.endm

// Multiplies the rows of a tap by its part of a panel: rax goes from MINUS_KC up to 0.
.macro multiply_tap
        cmp     NC, 16
        ja      3f
        mov     r15, LOWER              // at most 16 channels: the lower half of the last panel
2:      vmovaps zmm0, [r14]
        sub     r14, -128
        enter   r15
        rows    lower
        add     rax, 4
        jnz     2b
        jmp     4f

3:      mov     r15, C_END
2:      load_weights r14
        sub     r14, -128
        prefetcht0 [r14 + AHEAD]
        prefetcht0 [r14 + AHEAD + 64]
        enter   STEP
        rows    step
        add     rax, 4
        jnz     2b
4:
.endm

.macro end_tap next
        mov     rax, TABLE
        add     rax, 48
        cmp     rax, TABLE_END
        jne     \next
.endm

#endif

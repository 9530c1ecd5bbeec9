// What the depthwise kernels that take any number of taps share: dwconv_f32_{avx512,avx2,sse41}.S.
//
//   args   rdi channels  rsi pixels  rdx taps  rcx offsets  r8 step  r9 a  [rsp+8] zero  w  c  c_stride  p
//   panel  rcx W  r9 a at its channels  r10 zero: the same zeros for every panel
//   tile   r13 C of the next one  rbx pixels left  r12 c_stride
//   jumps  r11 the last pixel in the loop, rbp in the store
#ifndef QN_ASM_X86_DWCONV_H
#define QN_ASM_X86_DWCONV_H

#include "tile.h"

#ifndef FRAME                           // a kernel may need more of it
#define FRAME 48
#endif
#define CHANNELS qword ptr [rsp]        // left
#define PIXELS qword ptr [rsp + 8]
#define OFFSETS qword ptr [rsp + 16]
#define TILE_OFFSETS qword ptr [rsp + 24]
#define PANEL qword ptr [rsp + 32]      // its bytes
#define C qword ptr [rsp + 40]          // at the channels of the panel
#define ARGS rsp + FRAME + 56           // zero  w  c  c_stride  p

// 1 << log2_row: the bytes of a row of W in a panel, which begins with `bias` times as many.
.macro begin_dwconv log2_row, bias=1
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     CHANNELS, rdi
        mov     PIXELS, rsi
        mov     OFFSETS, rcx
        .if     \bias == 1
        inc     rdx                     // bias and taps
        .else
        add     rdx, \bias
        .endif
        shl     rdx, \log2_row
        mov     PANEL, rdx
        mov     r10, [ARGS]
        mov     rcx, [ARGS + 8]
        mov     rax, [ARGS + 16]
        mov     C, rax
        mov     r12, [ARGS + 24]
.endm

// rax = the row of A whose offset is at [at].
.macro row at
        find_row rax, \at, r9, r10
.endm

// A tile of n pixels, `most` or those that are left, and its end in C.
.macro begin_tile most, step, store
        mov     eax, \most              // n
        cmp     rbx, rax
        cmovb   rax, rbx
        entry   r11, rax, \step, r14
        entry   rbp, rax, \store, r14
        imul    rax, r12
        add     r13, rax
.endm

.macro end_dwconv
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

#endif

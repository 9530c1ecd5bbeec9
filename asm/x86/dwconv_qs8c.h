// What the depthwise kernels for bytes share that take any number of taps: dwconv_qs8c_{avx2,sse41}.S.
//
//   args   rdi channels  rsi pixels  rdx taps  rcx offsets  r8 step  r9 a  [rsp+8] zero  w  c  c_stride  p
//   panel  rcx W  r15 its end  r9 a at its channels  r10 zero: the same bytes for every panel
//   tile   r13 C of the next one  rbx pixels left     acc 4-15: pixel m holds 4+2m, 5+2m
//   tap    offset of pixel 3i+j at base i + j steps: bases rdx rsi, step r8     r14 W     rax rdi rows of A
//   jumps  r11 the last pixel in the loop, rbp in the store, ALONE for a tap of its own
//   store  rax C of the pixel at hand  r12 c_stride
//   load   0 1 weights   2 3 of A     then what the end of sums needs
//
// Two taps at a time: their bytes are interleaved, then widened to 16 bits; pmaddwd multiplies and adds both products.
// The last of an odd number of taps goes alone, its bytes as 32 bits; so do all taps of a last panel with fewer
// channels.
// Weights of two taps serve six pixels.  Only the pixels of this call are run, read and written.
//
// A level says: load_bias, load_weights, load_weights_alone, step_row, alone_row, alone_part.
#ifndef QN_ASM_X86_DWCONV_QS8C_H
#define QN_ASM_X86_DWCONV_QS8C_H

#define FRAME 64
#include "dwconv.h"

#define CHANNEL_BITS [rsp]              // the lowest of CHANNELS
#define EPILOGUE qword ptr [rsp + 48]   // of this panel
#define ALONE qword ptr [rsp + 56]

// Every pixel: its number, where its offset is, its accumulators.
.macro pixels do, arg:vararg
        \do     5, rsi+r8*2, 14, 15, \arg
        \do     4, rsi+r8,   12, 13, \arg
        \do     3, rsi,      10, 11, \arg
        \do     2, rdx+r8*2, 8,  9,  \arg
        \do     1, rdx+r8,   6,  7,  \arg
        \do     0, rdx,      4,  5,  \arg
.endm

// rax and rdi: the rows of A of two taps.
.macro two_rows at
        row     \at
        find_row rdi, \at+4, r9, r10
.endm

// The pixels of a panel of nr channels, six at a time.
.macro tiles kind, nr
        mov     r13, C
        mov     rbx, PIXELS
        mov     rdx, OFFSETS
7:      mov     TILE_OFFSETS, rdx       // a tile of n pixels
        lea     rsi, [rdx + r8 * 2]
        add     rsi, r8
        mov     eax, 6
        cmp     rbx, rax
        cmovb   rax, rbx
        .ifc    \kind, row
        entry   r11, rax, step_row, r14
        .endif
        entry   rbp, rax, alone_\kind, r14
        mov     ALONE, rbp
        entry   rbp, rax, store_\kind, r14
        imul    rax, r12
        add     r13, rax
        load_bias rcx
        lea     r14, [rcx + 4 * \nr]
        pixels  start_row

        .ifc    \kind, row
        add     r14, 2 * \nr
        cmp     r14, r15
        ja      3f
2:      load_weights r14
        enter   r11
        pixels  step_row
        add     rdx, 8
        add     rsi, 8
        add     r14, 2 * \nr
        cmp     r14, r15
        jbe     2b
3:      sub     r14, 2 * \nr
        cmp     r14, r15
        je      5f
        .endif
4:      load_weights_alone r14
        enter   ALONE
        pixels  alone_\kind
        .ifc    \kind, part
        add     rdx, 4
        add     rsi, 4
        add     r14, \nr
        cmp     r14, r15
        jne     4b
        .endif

5:      mov     rdi, EPILOGUE
        load_end rdi
        pixels  end_row, rdi
        mov     rax, r13
        .ifc    \kind, part
        mov     rdx, CHANNELS
        enter   rbp
        pixels  store_part, store_part, r12, edx, rdi
        .else
        enter   rbp
        pixels  store_row, store_row, r12
        .endif
        mov     rdx, TILE_OFFSETS
        lea     rdx, [rdx + r8 * 2]
        lea     rdx, [rdx + r8 * 4]
        sub     rbx, 6
        ja      7b
.endm

.macro dwconv_pairs name, log2_nr
        .set    nr, 1 << \log2_nr
        rodata
        places  step_row, 0, 1, 2, 3, 4, 5
        places  alone_row, 0, 1, 2, 3, 4, 5
        places  alone_part, 0, 1, 2, 3, 4, 5
        places  store_row, 0, 1, 2, 3, 4, 5
        places  store_part, 0, 1, 2, 3, 4, 5

fn \name
        begin_dwconv \log2_nr, 4
        mov     rax, [ARGS + 32]
        mov     EPILOGUE, rax

0:      mov     r15, rcx                // a panel
        add     r15, PANEL
        cmp     CHANNELS, nr
        jae     8f
        tiles   part, nr                // with fewer channels, the last one
        jmp     9f

8:      tiles   row, nr
        mov     rcx, r15                // the next panel
        add     r9, nr
        add     C, nr
        add     EPILOGUE, REQUANTIZE_SCALES + 4 * nr
        sub     CHANNELS, nr
        jnz     0b

9:      leave_level
        end_dwconv
endfn \name
.endm

#endif

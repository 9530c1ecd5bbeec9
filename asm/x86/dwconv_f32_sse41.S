// C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 4 pixels x 8 channels.
// Contract: src/kernel/dwconv.h
//
//   args   rdi channels  rsi pixels  rdx taps  rcx offsets  r8 step  r9 a  [rsp+8] zero  w  c  c_stride  p
//   panel  rcx W  r15 its end  r9 a at its channels  r10 zero: the same zeros for every panel
//   tile   r13 C of the next one  rbx pixels left     acc xmm8-xmm15: pixel m holds xmm(8+2m), xmm(9+2m)
//   tap    offset of pixel m at rdx + m steps, pixel 3 rsi     step r8     r14 W     rax row of A
//   jumps  r11 the last pixel in the loop, rbp in the store
//   store  rax C of the pixel at hand  r12 c_stride
//   load   xmm0 xmm1 one row of W  xmm2 xmm3 of A     then xmm0 min  xmm1 max
//   part   fewer than 8 channels are left: one after the other in the lowest lane, 32 bytes of a row of W apart
//
// No FMA: the product is rounded, then added.  One row of W serves four pixels.  Only the pixels of this call are run,
// read and written.
#include "dwconv.h"
#include "tile_sse41.h"

// Every pixel: its number, where its offset is, its accumulators.
.macro pixels do, arg:vararg
        \do     3, rsi,      xmm14, xmm15, \arg
        \do     2, rdx+r8*2, xmm12, xmm13, \arg
        \do     1, rdx+r8,   xmm10, xmm11, \arg
        \do     0, rdx,      xmm8,  xmm9,  \arg
.endm

.macro start_lane m, at, lo, hi, none
        movaps  \lo, xmm0
.endm

.macro step_row m, at, lo, hi, none
L(step_row\m):
        row     \at
        movups  xmm2, [rax]
        movups  xmm3, [rax + 16]
        add_products \lo, \hi
.endm

.macro step_lane m, at, lo, hi, none
L(step_lane\m):
        row     \at
        movss   xmm2, dword ptr [rax]
        mulss   xmm2, xmm0
        addss   \lo, xmm2
.endm

.macro clamp_lane m, at, lo, hi, none
        clamp   \lo
.endm

.macro store_lane m, at, lo, hi, stride
L(store_lane\m):
        sub     rax, \stride
        movss   dword ptr [rax], \lo
.endm

.macro load_weights_lane at
        movss   xmm0, dword ptr [\at]
.endm

// The pixels of a panel, four at a time.
.macro tiles kind
        mov     r13, C
        mov     rbx, PIXELS
        mov     rdx, OFFSETS
1:      mov     TILE_OFFSETS, rdx       // a tile of n pixels
        lea     rsi, [rdx + r8 * 2]
        add     rsi, r8
        begin_tile 4, step_\kind, store_\kind
        load_weights_\kind rcx          // start from the bias
        lea     r14, [rcx + 32]
        pixels  start_\kind

2:      load_weights_\kind r14
        add     r14, 32
        enter   r11
        pixels  step_\kind
        add     rdx, 4
        add     rsi, 4
        cmp     r14, r15
        jne     2b

        mov     rax, [ARGS + 32]        // p
        load_clamp_\kind rax
        pixels  clamp_\kind
        mov     rax, r13
        enter   rbp
        pixels  store_\kind, r12
        mov     rdx, TILE_OFFSETS
        lea     rdx, [rdx + r8 * 4]
        sub     rbx, 4
        ja      1b
.endm

        rodata
        places  step_row, 0, 1, 2, 3
        places  store_row, 0, 1, 2, 3
        places  step_lane, 0, 1, 2, 3
        places  store_lane, 0, 1, 2, 3

fn qn_dwconv_f32_np8_sse41
        begin_dwconv 5

0:      mov     r15, rcx                // a panel
        add     r15, PANEL
        cmp     CHANNELS, 8
        jae     4f
3:      tiles   lane                    // fewer than 8 channels: one of them
        add     rcx, 4
        add     r15, 4
        add     r9, 4
        add     C, 4
        dec     CHANNELS
        jnz     3b
        jmp     5f

4:      tiles   row
        mov     rcx, r15                // the next panel
        add     r9, 32
        add     C, 32
        sub     CHANNELS, 8
        jnz     0b

5:      end_dwconv
endfn qn_dwconv_f32_np8_sse41

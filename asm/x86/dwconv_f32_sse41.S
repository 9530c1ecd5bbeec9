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
#include "asm.h"
#include "../offset.h"

#define FRAME 48
#define CHANNELS qword ptr [rsp]        // left
#define PIXELS qword ptr [rsp + 8]
#define OFFSETS qword ptr [rsp + 16]
#define TILE_OFFSETS qword ptr [rsp + 24]
#define PANEL qword ptr [rsp + 32]      // its bytes
#define C qword ptr [rsp + 40]          // at the channels of the panel
#define ARGS rsp + FRAME + 56           // zero  w  c  c_stride  p

// Every pixel: its number, where its offset is, its accumulators.
.macro pixels do
        \do     3, rsi,      xmm14, xmm15
        \do     2, rdx+r8*2, xmm12, xmm13
        \do     1, rdx+r8,   xmm10, xmm11
        \do     0, rdx,      xmm8,  xmm9
.endm

// One channel needs the lower accumulators alone.
.macro start m, at, lo, hi
        movaps  \lo, xmm0
        movaps  \hi, xmm1
.endm

.macro start_part m, at, lo, hi
        movaps  \lo, xmm0
.endm

// rax = the row of A whose offset is at [at].
.macro row at
        movsxd  rax, dword ptr [\at]
        test    rax, rax
        lea     rax, [rax + r9]
        cmovs   rax, r10
.endm

.macro step m, at, lo, hi
L(step\m):
        row     \at
        movups  xmm2, [rax]
        movups  xmm3, [rax + 16]
        mulps   xmm2, xmm0
        mulps   xmm3, xmm1
        addps   \lo, xmm2
        addps   \hi, xmm3
.endm

.macro step_part m, at, lo, hi
L(step_part\m):
        row     \at
        movss   xmm2, dword ptr [rax]
        mulss   xmm2, xmm0
        addss   \lo, xmm2
.endm

.macro clamp m, at, lo, hi
        clamp1  \lo
        clamp1  \hi
.endm

.macro clamp_part m, at, lo, hi
        clamp1  \lo
.endm

.macro clamp1 acc
        movaps  xmm2, xmm0
        maxps   xmm2, \acc              // a NaN in the second operand is the result
        movaps  \acc, xmm1
        minps   \acc, xmm2
.endm

.macro store m, at, lo, hi
L(store\m):
        sub     rax, r12
        movups  [rax], \lo
        movups  [rax + 16], \hi
.endm

.macro store_part m, at, lo, hi
L(store_part\m):
        sub     rax, r12
        movss   dword ptr [rax], \lo
.endm

// One row of W: 8 channels, or one.
.macro weights at
        movaps  xmm0, [\at]
        movaps  xmm1, [\at + 16]
.endm

.macro weights_part at
        movss   xmm0, dword ptr [\at]
.endm

// The pixels of a panel, four at a time.
.macro tiles part
        mov     r13, C
        mov     rbx, PIXELS
        mov     rdx, OFFSETS
1:      mov     TILE_OFFSETS, rdx       // a tile of n pixels
        lea     rsi, [rdx + r8 * 2]
        add     rsi, r8
        mov     eax, 4                  // n
        cmp     rbx, rax
        cmovb   rax, rbx
        entry   r11, rax, step\part, r14
        entry   rbp, rax, store\part, r14
        imul    rax, r12
        add     r13, rax
        weights\part rcx                // start from the bias
        lea     r14, [rcx + 32]
        pixels  start\part

2:      weights\part r14
        add     r14, 32
        enter   r11
        pixels  step\part
        add     rdx, 4
        add     rsi, 4
        cmp     r14, r15
        jne     2b

        mov     rax, [ARGS + 32]        // p
        movss   xmm0, dword ptr [rax + MINMAX_MIN]
        movss   xmm1, dword ptr [rax + MINMAX_MAX]
        .ifb    \part
        shufps  xmm0, xmm0, 0
        shufps  xmm1, xmm1, 0
        .endif
        pixels  clamp\part
        mov     rax, r13
        enter   rbp
        pixels  store\part
        mov     rdx, TILE_OFFSETS
        lea     rdx, [rdx + r8 * 4]
        sub     rbx, 4
        ja      1b
.endm

        rodata
        places  step, 0, 1, 2, 3
        places  store, 0, 1, 2, 3
        places  step_part, 0, 1, 2, 3
        places  store_part, 0, 1, 2, 3

fn qn_dwconv_f32_np8_sse41
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     CHANNELS, rdi
        mov     PIXELS, rsi
        mov     OFFSETS, rcx
        inc     rdx                     // bias and taps
        shl     rdx, 5
        mov     PANEL, rdx
        mov     r10, [ARGS]
        mov     rcx, [ARGS + 8]
        mov     rax, [ARGS + 16]
        mov     C, rax
        mov     r12, [ARGS + 24]

0:      mov     r15, rcx                // a panel
        add     r15, PANEL
        cmp     CHANNELS, 8
        jae     4f
3:      tiles   _part                   // fewer than 8 channels: one of them
        add     rcx, 4
        add     r15, 4
        add     r9, 4
        add     C, 4
        dec     CHANNELS
        jnz     3b
        jmp     5f

4:      tiles
        mov     rcx, r15                // the next panel
        add     r9, 32
        add     C, 32
        sub     CHANNELS, 8
        jnz     0b

5:      unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_dwconv_f32_np8_sse41

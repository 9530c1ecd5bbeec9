// C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 6 pixels x 16 channels.
// Contract: src/kernel/dwconv.h
//
//   args   rdi channels  rsi pixels  rdx taps  rcx offsets  r8 step  r9 a  [rsp+8] zero  w  c  c_stride  p
//   panel  rcx W  r15 its end  r9 a at its channels  r10 zero: the same zeros for every panel
//   tile   r13 C of the next one  rbx pixels left     acc ymm4-ymm15: pixel m holds ymm(4+2m), ymm(5+2m)
//   tap    offset of pixel 3i+j at base i + j steps: bases rdx rsi, step r8     r14 W     rax row of A
//   jumps  r11 the last pixel in the loop, rbp in the store
//   store  rax C of the pixel at hand  r12 c_stride
//   load   ymm0 ymm1 one row of W  ymm2 a part of A     then ymm0 min  ymm1 max
//   part   rdi the mask of the last panel, which has fewer than 16 channels: other lanes are neither read nor written
//
// One row of W serves six pixels, whose chains of FMAs overlap: a step is 12 FMAs (6 cycles) and 14 vector loads (7
// cycles).  Only the pixels of this call are run, read and written.
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
        \do     5, rsi+r8*2, ymm14, ymm15
        \do     4, rsi+r8,   ymm12, ymm13
        \do     3, rsi,      ymm10, ymm11
        \do     2, rdx+r8*2, ymm8,  ymm9
        \do     1, rdx+r8,   ymm6,  ymm7
        \do     0, rdx,      ymm4,  ymm5
.endm

.macro start m, at, lo, hi
        vmovaps \lo, ymm0
        vmovaps \hi, ymm1
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
        vfmadd231ps \lo, ymm0, [rax]
        vfmadd231ps \hi, ymm1, [rax + 32]
.endm

.macro step_part m, at, lo, hi
L(step_part\m):
        row     \at
        vmovups ymm2, [rdi]
        vmaskmovps ymm2, ymm2, [rax]
        vfmadd231ps \lo, ymm0, ymm2
        vmovups ymm2, [rdi + 32]
        vmaskmovps ymm2, ymm2, [rax + 32]
        vfmadd231ps \hi, ymm1, ymm2
.endm

.macro clamp m, at, lo, hi
        vmaxps  \lo, ymm0, \lo          // a NaN in the second operand is the result
        vmaxps  \hi, ymm0, \hi
        vminps  \lo, ymm1, \lo
        vminps  \hi, ymm1, \hi
.endm

.macro store m, at, lo, hi
L(store\m):
        sub     rax, r12
        vmovups [rax], \lo
        vmovups [rax + 32], \hi
.endm

.macro store_part m, at, lo, hi
L(store_part\m):
        sub     rax, r12
        vmaskmovps [rax], ymm0, \lo
        vmaskmovps [rax + 32], ymm1, \hi
.endm

// The pixels of a panel, six at a time.
.macro tiles step, store
        mov     r13, C
        mov     rbx, PIXELS
        mov     rdx, OFFSETS
1:      mov     TILE_OFFSETS, rdx       // a tile of n pixels
        lea     rsi, [rdx + r8 * 2]
        add     rsi, r8
        mov     eax, 6                  // n
        cmp     rbx, rax
        cmovb   rax, rbx
        entry   r11, rax, \step, r14
        entry   rbp, rax, \store, r14
        imul    rax, r12
        add     r13, rax
        vmovaps ymm0, [rcx]             // start from the bias
        vmovaps ymm1, [rcx + 32]
        lea     r14, [rcx + 64]
        pixels  start

2:      vmovaps ymm0, [r14]
        vmovaps ymm1, [r14 + 32]
        add     r14, 64
        enter   r11
        pixels  \step
        add     rdx, 4
        add     rsi, 4
        cmp     r14, r15
        jne     2b

        mov     rax, [ARGS + 32]        // p
        vbroadcastss ymm0, dword ptr [rax + MINMAX_MIN]
        vbroadcastss ymm1, dword ptr [rax + MINMAX_MAX]
        pixels  clamp
        .ifc    \store, store_part
        vmovups ymm0, [rdi]
        vmovups ymm1, [rdi + 32]
        .endif
        mov     rax, r13
        enter   rbp
        pixels  \store
        mov     rdx, TILE_OFFSETS
        lea     rdx, [rdx + r8 * 2]
        lea     rdx, [rdx + r8 * 4]
        sub     rbx, 6
        ja      1b
.endm

        rodata
        .fill   16, 4, -1               // 16 lanes from n before the end of these: the first n are set
L(mask):
        .fill   16, 4, 0
        places  step, 0, 1, 2, 3, 4, 5
        places  store, 0, 1, 2, 3, 4, 5
        places  step_part, 0, 1, 2, 3, 4, 5
        places  store_part, 0, 1, 2, 3, 4, 5

fn qn_dwconv_f32_np16_avx2
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     CHANNELS, rdi
        mov     PIXELS, rsi
        mov     OFFSETS, rcx
        inc     rdx                     // bias and taps
        shl     rdx, 6
        mov     PANEL, rdx
        mov     r10, [ARGS]
        mov     rcx, [ARGS + 8]
        mov     rax, [ARGS + 16]
        mov     C, rax
        mov     r12, [ARGS + 24]

0:      mov     r15, rcx                // a panel
        add     r15, PANEL
        cmp     CHANNELS, 16
        jae     3f
        mov     rax, CHANNELS           // fewer than 16 channels: the last panel
        neg     rax
        lea     rdi, [rip + L(mask)]
        lea     rdi, [rdi + rax * 4]
        tiles   step_part, store_part
        jmp     4f

3:      tiles   step, store
        mov     rcx, r15                // the next panel
        add     r9, 64
        add     C, 64
        sub     CHANNELS, 16
        jnz     0b

4:      vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_dwconv_f32_np16_avx2

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
#include "dwconv.h"
#include "tile_avx2.h"

// Every pixel: its number, where its offset is, its accumulators.
.macro pixels do, arg:vararg
        \do     5, rsi+r8*2, ymm14, ymm15, \arg
        \do     4, rsi+r8,   ymm12, ymm13, \arg
        \do     3, rsi,      ymm10, ymm11, \arg
        \do     2, rdx+r8*2, ymm8,  ymm9,  \arg
        \do     1, rdx+r8,   ymm6,  ymm7,  \arg
        \do     0, rdx,      ymm4,  ymm5,  \arg
.endm

.macro step_row m, at, lo, hi, none
L(step_row\m):
        row     \at
        vfmadd231ps \lo, ymm0, [rax]
        vfmadd231ps \hi, ymm1, [rax + 32]
.endm

.macro step_part m, at, lo, hi, none
L(step_part\m):
        row     \at
        vmovups ymm2, [rdi]
        vmaskmovps ymm2, ymm2, [rax]
        vfmadd231ps \lo, ymm0, ymm2
        vmovups ymm2, [rdi + 32]
        vmaskmovps ymm2, ymm2, [rax + 32]
        vfmadd231ps \hi, ymm1, ymm2
.endm

// The pixels of a panel, six at a time.
.macro tiles kind
        mov     r13, C
        mov     rbx, PIXELS
        mov     rdx, OFFSETS
1:      mov     TILE_OFFSETS, rdx       // a tile of n pixels
        lea     rsi, [rdx + r8 * 2]
        add     rsi, r8
        begin_tile 6, step_\kind, store_\kind
        load_weights rcx                // start from the bias
        lea     r14, [rcx + 64]
        pixels  start_row

2:      load_weights r14
        add     r14, 64
        enter   r11
        pixels  step_\kind
        add     rdx, 4
        add     rsi, 4
        cmp     r14, r15
        jne     2b

        mov     rax, [ARGS + 32]        // p
        load_clamp rax
        pixels  clamp_row
        .ifc    \kind, part
        vmovups ymm0, [rdi]
        vmovups ymm1, [rdi + 32]
        .endif
        mov     rax, r13
        enter   rbp
        pixels  store_\kind, r12
        mov     rdx, TILE_OFFSETS
        lea     rdx, [rdx + r8 * 2]
        lea     rdx, [rdx + r8 * 4]
        sub     rbx, 6
        ja      1b
.endm

        rodata
        mask_lanes 16
        places  step_row, 0, 1, 2, 3, 4, 5
        places  store_row, 0, 1, 2, 3, 4, 5
        places  step_part, 0, 1, 2, 3, 4, 5
        places  store_part, 0, 1, 2, 3, 4, 5

fn qn_dwconv_f32_np16_avx2
        begin_dwconv 6

0:      mov     r15, rcx                // a panel
        add     r15, PANEL
        cmp     CHANNELS, 16
        jae     3f
        mov     rax, CHANNELS           // fewer than 16 channels: the last panel
        neg     rax
        lea     rdi, [rip + L(mask)]
        lea     rdi, [rdi + rax * 4]
        tiles   part
        jmp     4f

3:      tiles   row
        mov     rcx, r15                // the next panel
        add     r9, 64
        add     C, 64
        sub     CHANNELS, 16
        jnz     0b

4:      vzeroupper
        end_dwconv
endfn qn_dwconv_f32_np16_avx2

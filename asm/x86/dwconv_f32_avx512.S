// C[x][c] = clamp(bias[c] + sum over taps t of A(x, t)[c] * W[t][c]), 7 pixels x 32 channels.
// Contract: src/kernel/dwconv.h
//
//   args   rdi channels  rsi pixels  rdx taps  rcx offsets  r8 step  r9 a  [rsp+8] zero  w  c  c_stride  p
//   panel  rcx W  r15 its end  r9 a at its channels  r10 zero: the same zeros for every panel
//   tile   r13 C of the next one  rbx pixels left     acc zmm4-zmm17: pixel m holds zmm(4+2m), zmm(5+2m)
//   tap    offset of pixel 3i+j at base i + j steps: bases rdx rsi rdi, step r8     r14 W     rax row of A
//   jumps  r11 the last pixel in the loop, rbp in the store
//   store  rax C of the pixel at hand  r12 c_stride
//   load   zmm0 zmm1 one row of W     clamp  zmm2 min  zmm3 max
//   masks  k1 k2 the channels that exist: a masked lane is neither read nor written
//
// One row of W serves seven pixels, whose chains of FMAs overlap: a step is 14 FMAs (7 cycles) and 16 vector loads (8
// cycles).  Only the pixels of this call are run, read and written.
#include "dwconv.h"
#include "tile_avx512.h"

// Every pixel: its number, where its offset is, its accumulators.
.macro pixels do, arg:vararg
        \do     6, rdi,      zmm16, zmm17, \arg
        \do     5, rsi+r8*2, zmm14, zmm15, \arg
        \do     4, rsi+r8,   zmm12, zmm13, \arg
        \do     3, rsi,      zmm10, zmm11, \arg
        \do     2, rdx+r8*2, zmm8,  zmm9,  \arg
        \do     1, rdx+r8,   zmm6,  zmm7,  \arg
        \do     0, rdx,      zmm4,  zmm5,  \arg
.endm

.macro step m, at, lo, hi, none
L(step\m):
        row     \at
        vfmadd231ps \lo{k1}, zmm0, [rax]
        vfmadd231ps \hi{k2}, zmm1, [rax + 64]
.endm

        rodata
        places  step, 0, 1, 2, 3, 4, 5, 6
        places  store, 0, 1, 2, 3, 4, 5, 6

fn qn_dwconv_f32_np32_avx512
        begin_dwconv 7
        mov     rax, [ARGS + 32]
        vbroadcastss zmm2, dword ptr [rax + MINMAX_MIN]
        vbroadcastss zmm3, dword ptr [rax + MINMAX_MAX]

0:      mov     r15, rcx                // a panel
        add     r15, PANEL
        mov     rdi, CHANNELS
        mask_channels rdi, edi, eax
        mov     r13, C
        mov     rbx, PIXELS
        mov     rdx, OFFSETS

1:      mov     TILE_OFFSETS, rdx       // a tile of n pixels
        lea     rsi, [rdx + r8 * 2]
        add     rsi, r8
        lea     rdi, [rsi + r8 * 2]
        add     rdi, r8
        begin_tile 7, step, store
        load_weights rcx                // start from the bias
        lea     r14, [rcx + 128]
        pixels  start_row

2:      load_weights r14
        sub     r14, -128
        enter   r11
        pixels  step
        add     rdx, 4
        add     rsi, 4
        add     rdi, 4
        cmp     r14, r15
        jne     2b

        mov     rax, r13
        enter   rbp
        pixels  store_row, store, r12, zmm2, zmm3
        mov     rdx, TILE_OFFSETS
        lea     rdx, [rdx + r8 * 8]
        sub     rdx, r8
        sub     rbx, 7
        ja      1b

        mov     rcx, r15                // the next panel
        sub     r9, -128
        sub     C, -128
        sub     CHANNELS, 32
        ja      0b

        vzeroupper
        end_dwconv
endfn qn_dwconv_f32_np32_avx512

// C[y][x][c] = clamp(bias[c] + sum over K * K taps of A * W), tiles of 1 to 3 rows (3x3) or 2 (5x5) x 8 channels,
// stride S.  Contract: src/kernel/dwconv.h
//
//   args   rdi channels  rsi pixels  rdx rows  rcx offsets  r8 a  r9 w  [rsp+8] c  row_stride  c_stride  p
//   panel  rdi channels left  r9 W  r13 C  r8 a at its channels
//   column rdx its offsets  rax one of them
//   pixel  rbp C of the oldest open one  rbx those still to open     r12 c_stride  r14 row_stride
//   r10d   bit g: there is an open pixel of age g
//   acc    pixel of age g, row r in ymm(g R + r)     A  from ymm(OPEN R); then min and max     W  one tap in ymm15, or
//          where R = 2 and K = 5 with stride 1, which take all registers, in memory
//   part   r11 rows left  ymm14 the mask of the last panel, which has fewer than 8 channels: other lanes are neither
//          read nor written.  It is run row by row.
//
// The columns of A pass once, and each is multiplied for all the windows it lies in: those of R rows, and of the OPEN =
// K / S (rounded up) pixels whose sums are still open.  So K * K * R FMAs take S ((R - 1) S + K) loads of A and K * K of
// W (or as many as FMAs): 3x3 27 FMAs (13.5 cycles) and 14 loads, or 23 with stride 2; 5x5 50 FMAs (25 cycles) and 56
// loads, or 39 with stride 2.  A step takes S columns; before it every open pixel grows older by one, and the next one
// opens; after it, the oldest is complete.  Pixels that are not open take no part.
#include "dwconv_tile.h"
#include "tile_avx2.h"

#define ARGS rsp + 48                   // c  row_stride  c_stride  p

        .altmacro

.macro copy to, from
        vmovaps ymm\to, ymm\from
.endm

.macro bias to
        vmovaps ymm\to, [r9]
.endm

// Kernel row j of tap t, for row r of a pixel of age g.
.macro multiply acc, in, t
        .if     IN_MEMORY
        vfmadd231ps ymm\acc, ymm\in, [r9 + 32 + 32 * \t]
        .else
        vfmadd231ps ymm\acc, ymm\in, ymm15
        .endif
.endm

.macro weight t
        .if     IN_MEMORY == 0
        vmovaps ymm15, [r9 + 32 + 32 * \t]
        .endif
.endm

// Zeros without reading them, where the offset is negative.
.macro load to, i
        vxorps  xmm\to, xmm\to, xmm\to
        mov     eax, dword ptr [rdx + 4 * \i]
        test    eax, eax
        js      8f
        .if     PART
        vmaskmovps ymm\to, ymm14, [r8 + rax]
        .else
        vmovups ymm\to, [r8 + rax]
        .endif
8:
.endm

.macro load_limits min, max
        mov     rax, [ARGS + 24]
        vbroadcastss ymm\min, dword ptr [rax + MINMAX_MIN]
        vbroadcastss ymm\max, dword ptr [rax + MINMAX_MAX]
.endm

.macro limits
        load_limits %(OPEN * R), %(OPEN * R + 1)
.endm

.macro clamp_to acc, min, max
        vmaxps  ymm\acc, ymm\min, ymm\acc // a NaN in the second operand is the result
        vminps  ymm\acc, ymm\max, ymm\acc
.endm

.macro clamp acc, none
        clamp_to \acc, %(OPEN * R), %(OPEN * R + 1)
.endm

.macro store acc, r
        .if     PART
        vmaskmovps [rbp], ymm14, ymm\acc
        .elseif \r == 0
        vmovups [rbp], ymm\acc
        .elseif \r == 1
        vmovups [rbp + r14], ymm\acc
        .else
        vmovups [rbp + r14 * 2], ymm\acc
        .endif
.endm

.macro next_row bytes
        add     rcx, \bytes
        add     r13, r14
        dec     r11
.endm

.macro tile name, rows
L(\name\rows):
        .set    R, \rows
        .set    IN_MEMORY, OPEN * R + (R - 1) * S + K > 15
        cmp     rdi, 8
        jb      L(\name\()_part)
        panel
        next_panel %(32 * (K * K + 1)), 32
        jnz     L(\name\rows)
        jmp     L(\name\()_end)
.endm

.macro part name
L(\name\()_part):
        .set    R, 1
        .set    IN_MEMORY, 0
        .set    PART, 1
        neg     rdi
        lea     rax, [rip + L(mask)]
        vmovups ymm14, [rax + rdi * 4]
3:      panel
        next_row %(4 * S)
        jnz     3b
        .set    PART, 0
.endm

.macro tiles name, kernel, stride, rows
        rodata
        .if     \rows == 3
        places  \name, 1, 2, 3
        .else
        places  \name, 1, 2
        .endif

fn qn_dwconv_f32_\name\()_\rows\()x8_avx2
        .set    K, \kernel
        .set    S, \stride
        .set    ROWS, \rows
        .set    OPEN, (K + S - 1) / S
        .set    PART, 0
        save    rbx, rbp, r12, r13, r14
        mov     r11, rdx
        mov     r13, [ARGS]
        mov     r14, [ARGS + 8]
        mov     r12, [ARGS + 16]
        entry   rax, rdx, \name, rbx
        enter   rax
        .if     \rows == 3
        tile    \name, 3
        .endif
        tile    \name, 2
        tile    \name, 1
        part    \name
L(\name\()_end):
        vzeroupper
        restore rbx, rbp, r12, r13, r14
        ret
endfn qn_dwconv_f32_\name\()_\rows\()x8_avx2
.endm

        rodata
        mask_lanes 8

        tiles   k3s1, 3, 1, 3
        tiles   k3s2, 3, 2, 3
        tiles   k5s1, 5, 1, 2
        tiles   k5s2, 5, 2, 2

// C[y][x][c] = clamp(bias[c] + sum over K * K taps of A * W), tiles of 1 to 4 rows x 16 channels, stride S.
// Contract: src/kernel/dwconv.h
//
//   args   rdi channels  rsi pixels  rdx rows  rcx offsets  r8 a  r9 w  [rsp+8] c  row_stride  c_stride  p
//   panel  rdi channels left  r9 W  r13 C  r8 a at its channels
//   column rdx its offsets  rax one of them     k1 the channels that exist: a masked lane is neither read nor written
//   pixel  rbp C of the oldest open one  rbx those still to open     r12 c_stride  r14 row_stride  r15 3 row_strides
//   r10d   bit g: there is an open pixel of age g
//   acc    pixel of age g, row r in zmm(g R + r)     A  from zmm(OPEN R)     clamp  zmm30 max  zmm31 min
//   W      tap t of 3x3 in zmm(20+t), one tap of 5x5 in zmm29
//
// The columns of A pass once, and each is multiplied for all the windows it lies in: those of R rows, and of the OPEN =
// K / S (rounded up) pixels whose sums are still open.  So K * K * R FMAs take S ((R - 1) S + K) loads of A, and those
// of W where registers hold no more: with four rows, 3x3: 36 FMAs (18 cycles) and 6 loads, or 18 with stride 2;
// 5x5: 100 FMAs (50 cycles) and 33 loads, or 47.  A step takes S columns; before it every open pixel grows older by
// one, and the next one opens; after it, the oldest is complete.  Pixels that are not open take no part.  FMAs are the
// limit as long as A comes from L1.
#include "dwconv_tile.h"
#include "tile_avx512.h"

#define ARGS rsp + 56                   // c  row_stride  c_stride  p

        .altmacro

.macro copy to, from
        vmovaps zmm\to, zmm\from
.endm

.macro bias to
        vmovaps zmm\to, [r9]
.endm

.macro keep_weight to, t
        vmovaps zmm\to, [r9 + 64 + 64 * \t]
.endm

.macro weight t
        .if     K == 5
        keep_weight 29, \t
        .endif
.endm

.macro add_product acc, w, in
        vfmadd231ps zmm\acc, zmm\w, zmm\in
.endm

.macro multiply acc, in, t
        .if     K == 5
        add_product \acc, 29, \in
        .else
        add_product \acc, %(20 + \t), \in
        .endif
.endm

// Zeros without reading them, where the offset is negative.
.macro load to, i
        vpxord  zmm\to, zmm\to, zmm\to
        mov     eax, dword ptr [rdx + 4 * \i]
        test    eax, eax
        js      8f
        vmovups zmm\to{k1}{z}, [r8 + rax]
8:
.endm

// The limits stay in registers.
.macro limits
.endm

.macro clamp acc, none
        vmaxps  zmm\acc, zmm31, zmm\acc // a NaN in the second operand is the result
        vminps  zmm\acc, zmm30, zmm\acc
.endm

.macro store acc, r
        .if     \r == 0
        vmovups [rbp]{k1}, zmm\acc
        .elseif \r == 1
        vmovups [rbp + r14]{k1}, zmm\acc
        .elseif \r == 2
        vmovups [rbp + r14 * 2]{k1}, zmm\acc
        .else
        vmovups [rbp + r15]{k1}, zmm\acc
        .endif
.endm

.macro tile name, rows
L(\name\rows):
        .set    R, \rows
0:      lanes   k1, rdi, edi, eax       // a panel
        .if     K == 3
        .irp    t, 0, 1, 2, 3, 4, 5, 6, 7, 8
        keep_weight %(20 + \t), \t
        .endr
        .endif
        panel
        next_panel %(64 * (K * K + 1)), 64
        ja      0b
        .if     R > 1
        jmp     L(\name\()_end)
        .endif
.endm

.macro tiles name, kernel, stride
        rodata
        places  \name, 1, 2, 3, 4

fn qn_dwconv_f32_\name\()_4x16_avx512
        .set    K, \kernel
        .set    S, \stride
        .set    ROWS, 4
        .set    OPEN, (K + S - 1) / S
        save    rbx, rbp, r12, r13, r14, r15
        mov     r13, [ARGS]
        mov     r14, [ARGS + 8]
        mov     r12, [ARGS + 16]
        mov     rax, [ARGS + 24]
        vbroadcastss zmm31, dword ptr [rax + MINMAX_MIN]
        vbroadcastss zmm30, dword ptr [rax + MINMAX_MAX]
        lea     r15, [r14 + r14 * 2]
        entry   rax, rdx, \name, rbx
        enter   rax
        tile    \name, 4
        tile    \name, 3
        tile    \name, 2
        tile    \name, 1
L(\name\()_end):
        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_dwconv_f32_\name\()_4x16_avx512
.endm

        tiles   k3s1, 3, 1
        tiles   k3s2, 3, 2
        tiles   k5s1, 5, 1
        tiles   k5s2, 5, 2

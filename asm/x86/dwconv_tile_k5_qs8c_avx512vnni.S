// C[y][x][c] = requantize(bias[c] + sum over 5x5 taps of A * W) of bytes, tiles of 1 to 4 rows x 32 channels.
// Contract: src/kernel/dwconv.h; panels have the format k4x512u, sums times scales fit 32 bits
//
//   args, panel, column, pixel, masks   dwconv_tile_qs8c.h
//   column rax, rdx its rows of A
//   quads  zmm0-zmm19: those of column i in zmm(4i) and the next three: rows 0-3 of A, q = 0 and 1; rows 4 and 5
//   acc    zmm20 zmm21     A in zmm20-zmm23 before
//   fixed  zmm24 signs  zmm25 most byte  zmm26 zero point  zmm27 least byte  zmm28 zmm29 biases  zmm30 zmm31 scales
//
// Bytes of A are widened to words when they are loaded; two rows make a word, the pair of words a dword.  Of the six rows
// that two rows of windows need, four and two meet in dwords: the weights of the upper row are [w0 w1 w2 w3] and [w4 0],
// those of the lower one [0 w0 w1 w2] and [w3 w4].  So ten dot products make a sum of 25.  Quads q have the channels 8 l +
// 4 q + i, for i below 4 in lane l of 16 bytes.  For two rows: 16 operations with A, 40 dot products, 22 to end the sums.
#define FRAME 1432
#include "dwconv_tile_qs8c.h"

// Two rows of A become words, their signs flipped.
.macro pair reg, next, first, second
        find_row rax, \first, r8, rbx
        find_row rdx, \second, r8, rbx
        vpmovzxbw zmm\reg{k1}{z}, [rax]
        vpmovzxbw zmm\next{k1}{z}, [rdx]
        vpsllw  zmm\next, zmm\next, 8
        vpternlogd zmm\reg, zmm\next, zmm24, 0x96
.endm

// The next column becomes quads a .. d.
.macro quads a, b, c, d
        pair    20, 21, rcx, rcx+4
        pair    21, 22, rcx+8, rcx+12
        .if     STRIDE == 1
        pair    22, 23, rcx+16, rcx+rdi
        .else
        find_row rax, rcx+16, r8, rbx   // weights of 0 meet the others
        vpmovzxbw zmm22{k1}{z}, [rax]
        vpxord  zmm22, zmm22, zmm24
        .endif
        add     rcx, 4 * (3 * STRIDE + 5)
        vpunpcklwd zmm\a, zmm20, zmm21
        vpunpckhwd zmm\b, zmm20, zmm21
        vpunpcklwd zmm\c, zmm22, zmm22
        vpunpckhwd zmm\d, zmm22, zmm22
.endm

// The sums of a pixel with the weights at w are stored as bytes.
.macro sums w, to
        vmovdqa64 zmm20, zmm28
        vmovdqa64 zmm21, zmm29
        vpxord  zmm22, zmm22, zmm22
        vpxord  zmm23, zmm23, zmm23
        .irp    i, 0, 4, 8, 12, 16
        dot     20, \i, 0, [\w + \i * 64]
        dot     21, \i, 1, [\w + \i * 64 + 64]
        dot     22, \i, 2, [\w + \i * 64 + 128]
        dot     23, \i, 3, [\w + \i * 64 + 192]
        .endr
        vpaddd  zmm20, zmm20, zmm22
        vpaddd  zmm21, zmm21, zmm23
        vcvtdq2ps zmm20, zmm20
        vcvtdq2ps zmm21, zmm21
        vmulps  zmm20, zmm20, zmm30
        vmulps  zmm21, zmm21, zmm31
        vcvtps2dq zmm20, zmm20
        vcvtps2dq zmm21, zmm21
        vpackssdw zmm20, zmm20, zmm21
        vpaddsw zmm20, zmm20, zmm26
        vpmovswb ymm20, zmm20
        vpmaxsb ymm20, ymm20, ymm27
        vpminsb ymm20, ymm20, ymm25
        vmovdqu8 [\to]{k1}, ymm20
.endm

.macro dot acc, column, quad, w:vararg
        dot_with \acc, %(\column + \quad), \w
.endm

.macro dot_with acc, quad, w:vararg
        vpdpbusd zmm\acc, zmm\quad, \w
.endm

// Columns grow older, by one or two.
.macro copy_quads columns
        .set    i, 0
        .rept   20 - 4 * \columns
        copy    %i, %(i + 4 * \columns)
        .set    i, i + 1
        .endr
.endm

.macro copy to, from
        vmovdqa64 zmm\to, zmm\from
.endm

.macro dwconv_tile stride
        .set    STRIDE, \stride
        begin_tile
        .if     \stride == 1
        lea     r14, [LOWER + 63]
        and     r14, -64
        .endif

3:      mov     rcx, CHANNELS           // a panel
        lanes   k1, rcx, ecx, eax
        mov     eax, 0x80808080
        vpbroadcastd zmm24, eax
        vpbroadcastd zmm25, dword ptr [ENDS + MOST]
        vpbroadcastd zmm26, dword ptr [ENDS + ZERO_POINT]
        vpbroadcastd zmm27, dword ptr [ENDS + LEAST]
        vmovdqa64 zmm28, [r9]
        vmovdqa64 zmm29, [r9 + 64]
        vmovups zmm30, [r12 + REQUANTIZE_SCALES]
        vmovups zmm31, [r12 + REQUANTIZE_SCALES + 64]
        sub     r9, -128
        .if     \stride == 1
        .irp    i, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17
        vmovdqa64 zmm0, [r9 + \i * 64]  // w0 w1 w2 w3
        vpslld  zmm1, [r9 + \i * 64 + 128], 8
        vpslld  zmm2, zmm0, 8
        vpsrld  zmm0, zmm0, 24
        vpord   zmm0, zmm0, zmm1
        vmovdqa64 [r14 + \i * 64], zmm2
        vmovdqa64 [r14 + \i * 64 + 128], zmm0
        .endr
        .endif

        begin_passes
7:      begin_pass 5, \stride
        quads   0, 1, 2, 3
        quads   4, 5, 6, 7
        quads   8, 9, 10, 11
        .if     \stride == 1
        quads   12, 13, 14, 15
        .endif
1:
        .if     \stride == 2
        quads   12, 13, 14, 15
        .endif
        quads   16, 17, 18, 19
        sums    r9, r10
        .if     \stride == 1
        skip_lower 5, 2f
        mov     rax, ROW_STRIDE
        sums    r14, r10+rax
2:
        .endif
        copy_quads \stride
        next_pixel 1b
        next_pass \stride, 7b
        next_panel 32, 1280, 3b
        end_tile
.endm

        .altmacro

fn qn_dwconv_qs8c_k5s1_4x32_avx512vnni
        dwconv_tile 1
endfn qn_dwconv_qs8c_k5s1_4x32_avx512vnni

fn qn_dwconv_qs8c_k5s2_4x32_avx512vnni
        dwconv_tile 2
endfn qn_dwconv_qs8c_k5s2_4x32_avx512vnni

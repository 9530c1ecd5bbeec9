// C[y][x][c] = requantize(bias[c] + sum over 3x3 taps of A * W) of bytes, tiles of 1 to 4 rows x 64 channels.
// Contract: src/kernel/dwconv.h; panels have the format k4x512u, sums times scales fit 32 bits
//
//   args, panel, column, pixel, masks   dwconv_tile_qs8c.h
//   column rax rdx rbp r15 its rows of A
//   quads  zmm0-zmm11: those of column i, q in zmm(4i+q)
//   acc    zmm12-zmm15, which hold A before
//   fixed  zmm16 signs  zmm17 most byte  zmm18 zero point  zmm19 least byte  zmm20-zmm23 biases  zmm24-zmm27 scales
//
// The bytes of a channel in four rows of the input become a dword, by eight interleavings of bytes and words for 64
// channels.  These quads serve two rows of windows of stride 1: the weights of the upper one are [w0 w1 w2 0], those of
// the lower one [0 w0 w1 w2].  So three dot products make a sum of nine, and a quad serves three pixels side by side.
// Quads q have the channels 16 l + 4 q + i, for i below 4 in lane l of 16 bytes; packing the sums twice restores the
// order.  For two rows: 12 operations with A, 24 dot products, 36 to end the sums.  Of a panel with at most 32 channels
// only the lower halves of vectors are computed.
#define FRAME 920
#include "dwconv_tile_qs8c.h"

// Bytes of A, their signs flipped.
.macro load_a v, reg, row, whole
        .if     \whole
        vpxord  \v\reg, \v\()16, [\row]
        .else
        vmovdqu8 \v\reg{k1}{z}, [\row]
        vpxord  \v\reg, \v\reg, \v\()16
        .endif
.endm

// The next column becomes quads a .. d.
.macro quads v, a, b, c, d, rows, whole
        find_row rax, rcx, r8, rbx
        find_row rdx, rcx+4, r8, rbx
        find_row rbp, rcx+8, r8, rbx
        load_a  \v, 12, rax, \whole
        load_a  \v, 13, rdx, \whole
        load_a  \v, 14, rbp, \whole
        .if     \rows == 4
        find_row r15, rcx+rdi, r8, rbx
        load_a  \v, 15, r15, \whole
        .set    last, 15
        .else
        .set    last, 14                // weights of 0 meet the fourth row
        .endif
        add     rcx, COLUMN
        quads_of \v, \a, \b, \c, \d, %last
.endm

.macro quads_of v, a, b, c, d, last
        vpunpcklbw \v\d, \v\()12, \v\()13
        vpunpckhbw \v\()13, \v\()12, \v\()13
        vpunpcklbw \v\()12, \v\()14, \v\last
        vpunpckhbw \v\()14, \v\()14, \v\last
        vpunpcklwd \v\a, \v\d, \v\()12
        vpunpckhwd \v\b, \v\d, \v\()12
        vpunpcklwd \v\c, \v\()13, \v\()14
        vpunpckhwd \v\d, \v\()13, \v\()14
.endm

// The sums of a pixel with the weights at w become bytes in zmm12.
.macro sums v, w
        vmovdqa64 \v\()12, \v\()20
        vmovdqa64 \v\()13, \v\()21
        vmovdqa64 \v\()14, \v\()22
        vmovdqa64 \v\()15, \v\()23
        .irp    i, 0, 4, 8
        .irp    q, 0, 1, 2, 3
        dot     \v, %(12 + \q), %(\i + \q), [\w + \i * 64 + \q * 64]
        .endr
        .endr
        .irp    q, 12, 13, 14, 15
        vcvtdq2ps \v\q, \v\q
        .endr
        vmulps  \v\()12, \v\()12, \v\()24
        vmulps  \v\()13, \v\()13, \v\()25
        vmulps  \v\()14, \v\()14, \v\()26
        vmulps  \v\()15, \v\()15, \v\()27
        .irp    q, 12, 13, 14, 15
        vcvtps2dq \v\q, \v\q
        .endr
        vpackssdw \v\()12, \v\()12, \v\()13
        vpackssdw \v\()14, \v\()14, \v\()15
        vpaddsw \v\()12, \v\()12, \v\()18
        vpaddsw \v\()14, \v\()14, \v\()18
        vpacksswb \v\()12, \v\()12, \v\()14
        vpmaxsb \v\()12, \v\()12, \v\()19
        vpminsb \v\()12, \v\()12, \v\()17
.endm

.macro dot v, acc, quad, w:vararg
        vpdpbusd \v\acc, \v\quad, \w
.endm

.macro store v, to, whole
        .if     \whole
        vmovdqu64 [\to], \v\()12
        .else
        vmovdqu8 [\to]{k1}, \v\()12
        .endif
.endm

.macro copy_quads v, to, from
        vmovdqa64 \v\to, \v\from
.endm

// All pixels of a panel.
.macro pixels v, stride, whole
        quads   \v, 0, 1, 2, 3, %(5 - \stride), \whole
        .if     \stride == 1
        quads   \v, 4, 5, 6, 7, 4, \whole
        .endif
1:
        .if     \stride == 2
        quads   \v, 4, 5, 6, 7, 3, \whole
        .endif
        quads   \v, 8, 9, 10, 11, %(5 - \stride), \whole
        sums    \v, r9
        store   \v, r10, \whole
        .if     \stride == 1
        skip_lower 3, 2f
        sums    \v, r14
        mov     rax, ROW_STRIDE
        store   \v, r10+rax, \whole
2:
        .irp    q, 0, 1, 2, 3
        copy_quads \v, \q, %(\q + 4)
        copy_quads \v, %(\q + 4), %(\q + 8)
        .endr
        .else
        .irp    q, 0, 1, 2, 3
        copy_quads \v, \q, %(\q + 8)
        .endr
        .endif
        next_pixel 1b
.endm

.macro dwconv_tile stride
        .set    COLUMN, 4 * (3 * \stride + 3) // bytes of its offsets, for four rows of C
        begin_tile
        .if     \stride == 1
        lea     r14, [LOWER + 63]
        and     r14, -64
        .endif

3:      mov     rcx, CHANNELS           // a panel
        mov     rax, -1
        bzhi    rax, rax, rcx           // more than 64 need no mask
        kmovq   k1, rax
        mov     eax, 0x80808080
        vpbroadcastd zmm16, eax
        vpbroadcastd zmm17, dword ptr [ENDS + MOST]
        vpbroadcastd zmm18, dword ptr [ENDS + ZERO_POINT]
        vpbroadcastd zmm19, dword ptr [ENDS + LEAST]
        .irp    q, 0, 1, 2, 3
        row_of_panel %(20 + \q), [r9 + \q * 64]
        row_of_panel %(24 + \q), [r12 + REQUANTIZE_SCALES + \q * 64]
        .endr
        add     r9, 256
        .if     \stride == 1
        .irp    q, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        vpslld  zmm0, [r9 + \q * 64], 8
        vmovdqa64 [r14 + \q * 64], zmm0
        .endr
        .endif

        begin_passes
7:      begin_pass 3, \stride
        cmp     CHANNELS, 64
        jb      4f
        pixels  zmm, \stride, 1
        jmp     6f
4:      cmp     CHANNELS, 32
        ja      5f
        pixels  ymm, \stride, 0
        jmp     6f
5:      pixels  zmm, \stride, 0

6:      next_pass \stride, 7b
        next_panel 64, 768, 3b
        end_tile
.endm

.macro row_of_panel to, from:vararg
        vmovdqu64 zmm\to, \from
.endm

        .altmacro

fn qn_dwconv_qs8c_k3s1_4x64_avx512vnni
        dwconv_tile 1
endfn qn_dwconv_qs8c_k3s1_4x64_avx512vnni

fn qn_dwconv_qs8c_k3s2_4x64_avx512vnni
        dwconv_tile 2
endfn qn_dwconv_qs8c_k3s2_4x64_avx512vnni

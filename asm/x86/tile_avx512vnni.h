// Tiles of AVX-512 with dot products of bytes: rows of two vectors, 32 channels, of 32-bit sums.
//
//   row    its number, where its A is, its accumulators lo and hi; then what is the same for all rows
//   load   zmm0 zmm1 four rows of W   zmm2 four bytes of A everywhere   zmm3 signs
//   ends   zmm28 the least byte   zmm29 the most   zmm30 the zero point in 16 bits   zmm31 the order of channels
//   masks  k1 the channels that exist   k3 the bytes of A that are left behind whole fours
//
// A dot product multiplies unsigned bytes by signed ones.  So the signs of A are flipped, which adds 128 to each byte;
// biases make up for it.
#ifndef QN_ASM_X86_TILE_AVX512VNNI_H
#define QN_ASM_X86_TILE_AVX512VNNI_H

#include "tile_avx512.h"

.macro load_signs scratch
        mov     \scratch, 0x80808080
        vpbroadcastd zmm3, \scratch
.endm

// k3, of k bytes.  Leaves in k how many are left, and flags and scratch at 0 if there are none.
.macro mask_tail k, scratch
        and     \k, 3
        mov     \scratch, -1
        bzhi    \scratch, \scratch, \k
        kmovd   k3, \scratch
.endm

.macro dot_row a, lo, hi
        vpxord  zmm2, zmm3, dword ptr [\a]{1to16}
        vpdpbusd \lo, zmm2, zmm0
        vpdpbusd \hi, zmm2, zmm1
.endm

// The lower vector alone.
.macro dot_lower a, lo
        vpxord  zmm2, zmm3, dword ptr [\a]{1to16}
        vpdpbusd \lo, zmm2, zmm0
.endm

// The bytes that are left.  What stands for the others is multiplied by zeros.
.macro dot_tail a, lo, hi
        vmovdqu8 xmm2{k3}{z}, [\a]
        vpbroadcastd zmm2, xmm2
        vpxord  zmm2, zmm2, zmm3
        vpdpbusd \lo, zmm2, zmm0
        vpdpbusd \hi, zmm2, zmm1
.endm

// ---- the end of sums

// Three dwords: the zero point twice, the least byte and the most four times each.
#define ZERO_POINT 0
#define LEAST 4
#define MOST 8

.macro prepare_ends at, p, scratch
        movzx   \scratch, word ptr [\p + REQUANTIZE_ZERO]
        imul    \scratch, \scratch, 0x10001
        mov     [\at + ZERO_POINT], \scratch
        movzx   \scratch, byte ptr [\p + REQUANTIZE_MIN]
        imul    \scratch, \scratch, 0x1010101
        mov     [\at + LEAST], \scratch
        movzx   \scratch, byte ptr [\p + REQUANTIZE_MAX]
        imul    \scratch, \scratch, 0x1010101
        mov     [\at + MOST], \scratch
.endm

.macro load_ends at
        vpbroadcastd zmm28, dword ptr [\at + LEAST]
        vpbroadcastd zmm29, dword ptr [\at + MOST]
        vpbroadcastd zmm30, dword ptr [\at + ZERO_POINT]
        vmovdqa64 zmm31, [rip + PLACES(order)]
.endm

// A row of sums, times scales, becomes 16-bit integers, in lo.  Their channels take turns: in each 16 bytes, four of lo
// and four of hi.
.macro end_row_16 lo, hi, scale_lo, scale_hi
        vcvtdq2ps zmm\lo, zmm\lo
        vcvtdq2ps zmm\hi, zmm\hi
        vmulps  zmm\lo, zmm\lo, \scale_lo
        vmulps  zmm\hi, zmm\hi, \scale_hi
        vcvtps2dq zmm\lo, zmm\lo
        vcvtps2dq zmm\hi, zmm\hi
        vpackssdw zmm\lo, zmm\lo, zmm\hi
        vpaddsw zmm\lo, zmm\lo, zmm30
.endm

// 16-bit integers of a row and, in `next`, of the row after it become bytes in the order of channels: the lower 32 are
// those of the row.
.macro end_pair row, next
        vpacksswb zmm\row, zmm\row, zmm\next
        vpermd  zmm\row, zmm31, zmm\row
        vpmaxsb zmm\row, zmm\row, zmm28
        vpminsb zmm\row, zmm\row, zmm29
.endm

.macro load_scales p
        vmovups zmm0, [\p + REQUANTIZE_SCALES]
        vmovups zmm1, [\p + REQUANTIZE_SCALES + 64]
.endm

// Ends and stores a pair of rows of C, by the scales in zmm0 and zmm1; then rax and `odd` are those of the next pair.
// The even row is at rax, the odd one `odd` bytes behind it.  If `odd` is 0, there is no odd row: the even one is stored
// last, over it.
.macro store_pair m, lo, hi, next_lo, next_hi, odd, stride
L(store\m):
        end_row_16 \lo, \hi, zmm0, zmm1
        end_row_16 \next_lo, \next_hi, zmm0, zmm1
        end_pair \lo, \next_lo
        vextracti64x4 ymm\hi, zmm\lo, 1
        vmovdqu8 [rax + \odd]{k1}, ymm\hi
        vmovdqu8 [rax]{k1}, ymm\lo
        .if     \m
        mov     \odd, \stride
        sub     rax, \stride
        sub     rax, \stride
        .endif
.endm

// The same for a last row, without one behind it.
.macro store_one m, lo, hi, odd, stride
L(store\m):
        end_row_16 \lo, \hi, zmm0, zmm1
        end_pair \lo, \lo
        vmovdqu8 [rax]{k1}, ymm\lo
        mov     \odd, \stride
        sub     rax, \stride
        sub     rax, \stride
.endm

// The same for twelve rows, in stages: operations of many kinds, which do not wait for each other, stand side by side.
// It uses .altmacro.
//
// All stages of six pairs of rows: in each slot the next stage, `do i, j`, of those that are under way, the first pair
// first, which is number 5.
.macro staged do, stages, arg
        .set    SLOT, 0
        .rept   \stages + 5
        .set    AGE, 0
        .rept   6
        .if     SLOT >= AGE
        .if     SLOT - AGE < \stages
        \do     %(SLOT - AGE), %(5 - AGE), \arg
        .endif
        .endif
        .set    AGE, AGE + 1
        .endr
        .set    SLOT, SLOT + 1
        .endr
.endm

// Stages 1 to 9 of the end of a pair of rows, whose even row of C is at r10, at stride r11.
.macro end_stage i, lo, hi, odd_lo, odd_hi
        .if     \i == 1
        .irp    r, \lo, \hi, \odd_lo, \odd_hi
        vcvtdq2ps zmm\r, zmm\r
        .endr
        .elseif \i == 2
        vmulps  zmm\lo, zmm\lo, zmm0
        vmulps  zmm\hi, zmm\hi, zmm1
        vmulps  zmm\odd_lo, zmm\odd_lo, zmm0
        vmulps  zmm\odd_hi, zmm\odd_hi, zmm1
        .elseif \i == 3
        .irp    r, \lo, \hi, \odd_lo, \odd_hi
        vcvtps2dq zmm\r, zmm\r
        .endr
        .elseif \i == 4
        vpackssdw zmm\lo, zmm\lo, zmm\hi
        vpackssdw zmm\odd_lo, zmm\odd_lo, zmm\odd_hi
        .elseif \i == 5
        vpaddsw zmm\lo, zmm\lo, zmm30
        vpaddsw zmm\odd_lo, zmm\odd_lo, zmm30
        .elseif \i == 6
        vpacksswb zmm\lo, zmm\lo, zmm\odd_lo
        .elseif \i == 7
        vpermd  zmm\lo, zmm31, zmm\lo
        .elseif \i == 8
        vpmaxsb zmm\lo, zmm\lo, zmm28
        vpminsb zmm\lo, zmm\lo, zmm29
        .else
        vextracti64x4 ymm\hi, zmm\lo, 1
        vmovdqu8 [r10]{k1}, ymm\lo
        vmovdqu8 [r10 + r11]{k1}, ymm\hi
        .if     \lo > 4
        sub     r10, r11
        sub     r10, r11
        .endif
        .endif
.endm

// From the last even one of mr rows to the odd row behind it.
.macro way_to_odd odd, mr, stride
        xor     \odd, \odd
        test    \mr, 1
        cmovz   \odd, \stride
.endm

        rodata
PLACES(order):                          // lo and hi of a row, lo and hi of the next row take turns
        .long   0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15

#endif

// Tiles of AVX2: rows of two vectors, 16 channels.
//
//   row    its number, where its A is, its accumulators lo and hi; then what is the same for all rows
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere     then min, max     then masks of the channels that exist
#ifndef QN_ASM_X86_TILE_AVX2_H
#define QN_ASM_X86_TILE_AVX2_H

#include "mask_avx2.h"
#include "tile.h"

.macro load_weights at
        vmovaps ymm0, [\at]
        vmovaps ymm1, [\at + 32]
.endm

// A panel starts from the bias, which is in the place of W.
.macro start_row m, a, lo, hi, none
        vmovaps \lo, ymm0
        vmovaps \hi, ymm1
.endm

.macro multiply_row a, lo, hi
        vbroadcastss ymm2, dword ptr [\a]
        vfmadd231ps \lo, ymm2, ymm0
        vfmadd231ps \hi, ymm2, ymm1
.endm

.macro load_clamp p
        vbroadcastss ymm0, dword ptr [\p + MINMAX_MIN]
        vbroadcastss ymm1, dword ptr [\p + MINMAX_MAX]
.endm

.macro clamp_row m, a, lo, hi, none
        vmaxps  \lo, ymm0, \lo          // a NaN in the second operand is the result
        vmaxps  \hi, ymm0, \hi
        vminps  \lo, ymm1, \lo
        vminps  \hi, ymm1, \hi
.endm

// At the places store_rowm, store_partm: row m of C, the one before that at rax, and its channels that exist.
.macro store_row m, a, lo, hi, stride
L(store_row\m):
        sub     rax, \stride
        vmovups [rax], \lo
        vmovups [rax + 32], \hi
.endm

.macro store_part m, a, lo, hi, stride
L(store_part\m):
        sub     rax, \stride
        vmaskmovps [rax], ymm0, \lo
        vmaskmovps [rax + 32], ymm1, \hi
.endm

#endif

// Tiles of AVX-512: rows of two vectors, 32 channels.
//
//   row    its number, where its A is, its accumulators lo and hi; then what is the same for all rows
//   load   zmm0 zmm1 one row of W   zmm2 one A everywhere     then zmm0 min  zmm1 max
//   masks  k1 k2 the channels that exist
#ifndef QN_ASM_X86_TILE_AVX512_H
#define QN_ASM_X86_TILE_AVX512_H

#include "tile.h"

// A mask with one bit for each of the first 32 of n channels (1 or more; n32 is the lower half of n).
.macro lanes mask, n, n32, scratch
        mov     \scratch, -1
        cmp     \n, 32
        jae     9f
        xor     \scratch, \scratch
        bts     \scratch, \n32
        dec     \scratch
9:      kmovd   \mask, \scratch
.endm

// The masks of both vectors.
.macro mask_channels n, n32, scratch
        lanes   k1, \n, \n32, \scratch
        kshiftrd k2, k1, 16
.endm

.macro load_weights at
        vmovaps zmm0, [\at]
        vmovaps zmm1, [\at + 64]
.endm

// A panel starts from the bias, which is in the place of W.
.macro start_row m, a, lo, hi, none
        vmovaps \lo, zmm0
        vmovaps \hi, zmm1
.endm

.macro multiply_row a, lo, hi
        vbroadcastss zmm2, dword ptr [\a]
        vfmadd231ps \lo, zmm2, zmm0
        vfmadd231ps \hi, zmm2, zmm1
.endm

// The lower vector alone.
.macro multiply_lower a, lo
        vfmadd231ps \lo, zmm0, dword ptr [\a]{1to16}
.endm

.macro load_clamp p
        vbroadcastss zmm0, dword ptr [\p + MINMAX_MIN]
        vbroadcastss zmm1, dword ptr [\p + MINMAX_MAX]
.endm

.macro clamp_row lo, hi, min=zmm0, max=zmm1
        vmaxps  \lo, \min, \lo          // a NaN in the second operand is the result
        vmaxps  \hi, \min, \hi
        vminps  \lo, \max, \lo
        vminps  \hi, \max, \hi
.endm

// At the place NAMEm: row m of C, the one before that at rax.
.macro store_row m, a, lo, hi, name, stride, min=zmm0, max=zmm1
L(\name\m):
        sub     rax, \stride
        clamp_row \lo, \hi, \min, \max
        vmovups [rax]{k1}, \lo
        vmovups [rax + 64]{k2}, \hi
.endm

#endif

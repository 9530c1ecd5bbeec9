// Tiles of SSE4.1: rows of two vectors, 8 channels.  No FMA: the product is rounded, then added.
//
//   row    its number, where its A is, its accumulators lo and hi; then what is the same for all rows
//   load   xmm0 xmm1 one row of W   xmm2 xmm3 one A everywhere     then xmm0 min  xmm1 max
#ifndef QN_ASM_X86_TILE_SSE41_H
#define QN_ASM_X86_TILE_SSE41_H

#include "store_sse41.h"
#include "tile.h"

.macro load_weights_row at
        movaps  xmm0, [\at]
        movaps  xmm1, [\at + 16]
.endm

// A panel starts from the bias, which is in the place of W.
.macro start_row m, a, lo, hi, none
        movaps  \lo, xmm0
        movaps  \hi, xmm1
.endm

.macro add_products lo, hi
        mulps   xmm2, xmm0
        mulps   xmm3, xmm1
        addps   \lo, xmm2
        addps   \hi, xmm3
.endm

.macro multiply_row a, lo, hi
        movss   xmm2, dword ptr [\a]
        shufps  xmm2, xmm2, 0
        movaps  xmm3, xmm2
        add_products \lo, \hi
.endm

// For the lowest lane, and for the others.
.macro load_clamp_lane p
        movss   xmm0, dword ptr [\p + MINMAX_MIN]
        movss   xmm1, dword ptr [\p + MINMAX_MAX]
.endm

.macro load_clamp_row p
        load_clamp_lane \p
        shufps  xmm0, xmm0, 0
        shufps  xmm1, xmm1, 0
.endm

.macro clamp acc
        movaps  xmm2, xmm0
        maxps   xmm2, \acc              // a NaN in the second operand is the result
        movaps  \acc, xmm1
        minps   \acc, xmm2
.endm

.macro clamp_row m, a, lo, hi, none
        clamp   \lo
        clamp   \hi
.endm

// At the places store_rowm, store_partm: row m of C, the one before that at rax, and its first esi channels; `next` is
// scratch.
.macro store_row m, a, lo, hi, stride
L(store_row\m):
        sub     rax, \stride
        movups  [rax], \lo
        movups  [rax + 16], \hi
.endm

.macro store_part m, a, lo, hi, stride, next
L(store_part\m):
        sub     rax, \stride
        store_first \next, rax, esi, \lo, \hi
.endm

#endif

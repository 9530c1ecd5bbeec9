// Dot products of bytes in vectors of 256 bits (VNNI): rows of two vectors, 16 channels.
//
// vpdpbusd multiplies unsigned bytes by signed ones, four of each, and adds the four products to a sum.  The rows of A
// become unsigned when the sign bit of each byte is flipped, which adds 128; the biases of the panel make up for it.
// `encoding` is {vex} for machines that have the instruction among those of AVX, {evex} for those that have it among
// those of AVX-512.  All else is the same.
//
//   row    its number, where its A is (less `at`), its accumulators' numbers; then what is the same for all rows
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere   ymm3 the sign bit of every byte
#ifndef QN_ASM_X86_DOT_AVXVNNI_H
#define QN_ASM_X86_DOT_AVXVNNI_H

#include "tile.h"
#include "requantize_avx2.h"

.macro load_signs
        vpcmpeqd ymm3, ymm3, ymm3
        vpabsb  ymm3, ymm3
        vpsllw  ymm3, ymm3, 7
.endm

.macro load_weights at
        vmovdqa ymm0, [\at]
        vmovdqa ymm1, [\at + 32]
.endm

// A panel starts from the bias, which is in the place of W.
.macro start_row m, a, lo, hi, none
        vmovdqa ymm\lo, ymm0
        vmovdqa ymm\hi, ymm1
.endm

.macro dot_products lo, hi, encoding
        vpxor   ymm2, ymm2, ymm3
        \encoding vpdpbusd ymm\lo, ymm2, ymm0
        \encoding vpdpbusd ymm\hi, ymm2, ymm1
.endm

// At the places NAMEm: row m by a row of W.
.macro step m, a, lo, hi, name, encoding, at=0
L(\name\m):
        vpbroadcastd ymm2, dword ptr [\a + \at]
        dot_products \lo, \hi, \encoding
.endm

// Three, two or one bytes at [at] as the first ones of each dword of v, for which flags are less, equal and greater.
// What v holds in place of the others meets zeros in the panel.
.macro load_tail at, v
        jg      1f
        je      2f
        vpinsrb xmm\v, xmm\v, byte ptr [\at + 2], 2
2:      vpinsrb xmm\v, xmm\v, byte ptr [\at + 1], 1
1:      vpinsrb xmm\v, xmm\v, byte ptr [\at], 0
        vpbroadcastd ymm\v, xmm\v
.endm

.macro tail m, a, lo, hi, name, encoding, at=0
L(\name\m):
        load_tail \a+\at, 2
        dot_products \lo, \hi, \encoding
.endm

#endif

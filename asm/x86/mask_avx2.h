// The channels that a last panel of floats has, as masks for vectors of 256 bits.
#ifndef QN_ASM_X86_MASK_AVX2_H
#define QN_ASM_X86_MASK_AVX2_H

#include "asm.h"

// In read-only data: `count` lanes from n before the end of these; the first n are set.
.macro mask_lanes count
        .fill   \count, 4, -1
L(mask):
        .fill   \count, 4, 0
.endm

// ymm0 and ymm1, of a last panel with n channels, fewer than 16; n is negative then.
.macro mask_channels n, scratch
        lea     \scratch, [rip + L(mask)]
        neg     \n
        vmovups ymm0, [\scratch + \n * 4]
        vmovups ymm1, [\scratch + \n * 4 + 32]
.endm

#endif

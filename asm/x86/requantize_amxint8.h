// The end of sums of products of bytes (src/kernel/requantize.h) in kernels of tiles: tile_amxint8.h.
//
//   ends   zmm0 zmm1 scales   zmm28-31 as in tile_avx512vnni.h
#ifndef QN_ASM_X86_REQUANTIZE_AMXINT8_H
#define QN_ASM_X86_REQUANTIZE_AMXINT8_H

#include "tile_amxint8.h"

// Sums begin with the biases of the panel.
.macro begin_tile tile, panel, place
        tileloadd tmm\tile, [\panel + \place]
.endm

.macro load_channels p
        load_scales \p
.endm

.macro next_channels p
        add     \p, REQUANTIZE_SCALES + 128
.endm

// The kernel's macro store_rows stores the pair, in ymm4 and ymm5, and goes on to the pair before it.
.macro end_two
        vcvtdq2ps zmm4, [r13]
        vcvtdq2ps zmm5, [r13 + 64]
        vcvtdq2ps zmm6, [r13 + 128]
        vcvtdq2ps zmm7, [r13 + 192]
        vmulps  zmm4, zmm4, zmm0
        vmulps  zmm5, zmm5, zmm1
        vmulps  zmm6, zmm6, zmm0
        vmulps  zmm7, zmm7, zmm1
        vcvtps2dq zmm4, zmm4
        vcvtps2dq zmm5, zmm5
        vcvtps2dq zmm6, zmm6
        vcvtps2dq zmm7, zmm7
        vpackssdw zmm4, zmm4, zmm5
        vpackssdw zmm6, zmm6, zmm7
        vpaddsw zmm4, zmm4, zmm30
        vpaddsw zmm6, zmm6, zmm30
        vpacksswb zmm4, zmm4, zmm6
        vpermd  zmm4, zmm31, zmm4
        vpcmpgtb k3, zmm28, zmm4        // no vpmaxsb, which would wait for the port of the conversions
        vpcmpgtb k4, zmm4, zmm29
        vmovdqu8 zmm4{k3}, zmm28
        vmovdqu8 zmm4{k4}, zmm29
        vextracti64x4 ymm5, zmm4, 1
        store_rows
        sub     r13, 256
        dec     r11d
.endm

#endif

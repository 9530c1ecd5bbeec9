// C[m][n] = requantized (bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 8 rows x 8 channels of
// bytes, with smmla.  Contract: src/kernel/igemm.h
//
//   args, tap  igemm_tile.h   tile   tile_8x8_i8mm.h
#include "tile_8x8_i8mm.h"
#include "igemm_tile.h"

.macro first_tap
        mov     x4, x19
.endm

.macro locate_tap
        bl      L(locate)
.endm

.macro more_taps label
        cmp     x4, x20
        b.ne    \label
.endm

fn qn_igemm_qs8c_8x8_i8mm
        save_products
        add     x23, x2, #7
        lsr     x23, x23, #3
        mul     x23, x23, x3            // of all taps
        place   80
        products
        return_from x28
        restore_products
        ret
        .cfi_endproc

        .cfi_startproc                  // whatever the caller's frame
        locate_part
        parts
endfn qn_igemm_qs8c_8x8_i8mm

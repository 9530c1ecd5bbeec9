// C[m][n] = requantized (bias[n] + sum over k of A[m][k] * W[k][n]), 8 rows x 8 channels of bytes, with smmla.
// Contract: src/kernel/gemm.h
//
//   args   x0 mr  x1 nc  x2 k(bytes)  x3 a  x4 a_stride  x5 w  x6 c  x7 c_stride  [sp] p
//   tile   tile_8x8_i8mm.h      x21 a   x28 return address
#include "tile_8x8_i8mm.h"
#include "gemm_tile.h"

.macro first_tap
.endm

.macro locate_tap
        bl      L(locate)
.endm

.macro more_taps label
.endm

fn qn_gemm_qs8c_8x8_i8mm
        ldr     x8, [sp]
        save_products
        keep_return x28
        mov     x21, x3
        sub     x16, x0, #1             // last row of C
        madd    x6, x16, x7, x6
        add     x23, x2, #7
        lsr     x23, x23, #3
        bl      L(start)
        products
        return_from x28
        restore_products
        ret
        .cfi_endproc

        .cfi_startproc                  // whatever the caller's frame
        parts
L(locate):
        mov     x3, x21
        locate_rows
        ret
endfn qn_gemm_qs8c_8x8_i8mm

// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 12 rows x 32 channels.
// Contract: src/kernel/igemm.h
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A, tap, acc   igemm_12x32.h
//   loop   rax from -kc up to 0, r14 w, r15 row mr-1 or, of whole panels, the rows of C below
//   store  rax the row at hand, rcx stride
//   load   zmm0 zmm1 one row of W   zmm2 one A everywhere     then zmm0 min  zmm1 max
//
// A step is 24 FMAs (12 cycles) and 17 loads, prefetches among them (8.5 cycles), or 23 in the last 6 steps of a tap.  Of
// a last panel with at most 16 channels only the lower vector is multiplied.  Only the rows of this call are run, read
// and written.
#define FRAME 96
#define LINES_OF_ROW 2
#define MULTIPLY_ROW multiply_row
#define MULTIPLY_LOWER multiply_lower
#include "igemm_12x32.h"
#include "tile_avx512.h"

        rodata
        places  store, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

fn qn_igemm_f32_12x32_avx512
        begin_igemm_12x32

0:      load_weights r14                // a panel: start from the bias
        sub     r14, -128
        rows    start_row

        mov     rax, TABLE_BEGIN
1:      begin_tap
        multiply_tap
        end_tap 1b

        mov     rsi, NC
        mask_channels rsi, esi, eax
        mov     rdx, [ARGS + 32]        // p
        load_clamp rdx
        mov     rcx, [ARGS + 24]        // c_stride
        mov     rax, C_END
        sub     C_END, -128
        enter   STORE
        rows    store_row, store, rcx
        sub     NC, 32
        ja      0b

        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_igemm_f32_12x32_avx512

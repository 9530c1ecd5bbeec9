// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 6 rows x 16 channels.
// Contract: src/kernel/igemm.h
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      the end of row m of this tap: rdi rsi rdx rcx r8 r9 for m = 0 .. 5
//   loop   rax from -kc up to 0, r10 w, r11 row mr-1
//   tap    r12 its offsets, r13 their end, rbx a + kc, r14 zero + kc, rbp -kc, r15 row mr-1
//   store  rax the row at hand, rcx stride, rsi channels left, rdx p
//   acc    ymm4-ymm15: row m holds ymm(4+2m), ymm(5+2m)
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere     then min, max, masks
//
// A step is 12 FMAs (6 cycles) and 8 loads (4 cycles).  Only the rows of this call are run, read and written.
#include "igemm.h"
#include "tile_avx2.h"

// Every row: its number, the end of its A, its accumulators.
.macro rows do, arg:vararg
        \do     5, r9,  ymm14, ymm15, \arg
        \do     4, r8,  ymm12, ymm13, \arg
        \do     3, rcx, ymm10, ymm11, \arg
        \do     2, rdx, ymm8,  ymm9,  \arg
        \do     1, rsi, ymm6,  ymm7,  \arg
        \do     0, rdi, ymm4,  ymm5,  \arg
.endm

.macro step m, a, lo, hi, none
L(step\m):
        multiply_row \a+rax, \lo, \hi
.endm

// r13 becomes the end of all offsets, 6 per tap.
.macro offsets_end
        lea     rcx, [rcx + rcx * 2]
        lea     r13, [r8 + rcx * 8]
.endm

        rodata
        mask_lanes 16
        places  row, 0, 1, 2, 3, 4, 5
        places  step, 0, 1, 2, 3, 4, 5
        places  store_row, 0, 1, 2, 3, 4, 5
        places  store_part, 0, 1, 2, 3, 4, 5

fn qn_igemm_f32_6x16_avx2
        begin_igemm offsets_end

0:      load_weights r10                // a panel: start from the bias
        add     r10, 64
        rows    start_row

        mov     r12, TABLE_BEGIN
1:      enter   r15                     // a tap: find the rows of A
        rows    row
        mov     rax, rbp
2:      load_weights r10
        add     r10, 64
        prefetcht0 [r10 + AHEAD]
        enter   r11
        rows    step
        add     rax, 4
        jnz     2b
        add     r12, 24
        cmp     r12, r13
        jne     1b

        mov     rdx, [ARGS + 32]        // p
        load_clamp rdx
        rows    clamp_row

        place_of_c rcx, rax, rsi
        cmp     rsi, 16
        jae     3f
        mask_channels rsi, rdx          // fewer than 16 channels: the last panel
        enter   PART
        rows    store_part, rcx
        jmp     4f

3:      enter   STORE
        rows    store_row, rcx
        add     C_END, 64
        sub     NC, 16
        jnz     0b

4:      vzeroupper
        end_igemm
endfn qn_igemm_f32_6x16_avx2

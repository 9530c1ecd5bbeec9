// C[m][n] = clamp(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), 4 rows x 8 channels.
// Contract: src/kernel/igemm.h
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      the end of row m of this tap: rdi rsi rdx rcx for m = 0 .. 3
//   loop   rax from -kc up to 0, r10 w, r11 row mr-1
//   tap    r12 its offsets, r13 their end, rbx a + kc, r14 zero + kc, rbp -kc, r15 row mr-1
//   store  rax the row at hand, rdi its next channels, rcx stride, rsi channels left, rdx p
//   acc    xmm8-xmm15: row m holds xmm(8+2m), xmm(9+2m)
//   load   xmm0 xmm1 one row of W   xmm2 xmm3 one A everywhere     then xmm0 min  xmm1 max
//
// No FMA: the product is rounded, then added.  Only the rows of this call are run, read and written.
#include "igemm.h"
#include "tile_sse41.h"

// Every row: its number, the end of its A, its accumulators.
.macro rows do, arg:vararg
        \do     3, rcx, xmm14, xmm15, \arg
        \do     2, rdx, xmm12, xmm13, \arg
        \do     1, rsi, xmm10, xmm11, \arg
        \do     0, rdi, xmm8,  xmm9,  \arg
.endm

.macro step m, a, lo, hi, none
L(step\m):
        multiply_row \a+rax, \lo, \hi
.endm

// r13 becomes the end of all offsets, 4 per tap.
.macro offsets_end
        shl     rcx, 4
        lea     r13, [r8 + rcx]
.endm

        rodata
        places  row, 0, 1, 2, 3
        places  step, 0, 1, 2, 3
        places  store_row, 0, 1, 2, 3
        places  store_part, 0, 1, 2, 3

fn qn_igemm_f32_4x8_sse41
        begin_igemm offsets_end

0:      load_weights_row r10            // a panel: start from the bias
        add     r10, 32
        rows    start_row

        mov     r12, TABLE_BEGIN
1:      enter   r15                     // a tap: find the rows of A
        rows    row
        mov     rax, rbp
2:      load_weights_row r10
        add     r10, 32
        enter   r11
        rows    step
        add     rax, 4
        jnz     2b
        add     r12, 16
        cmp     r12, r13
        jne     1b

        mov     rdx, [ARGS + 32]        // p
        load_clamp_row rdx
        rows    clamp_row

        place_of_c rcx, rax, rsi
        cmp     rsi, 8
        jae     3f
        enter   PART                    // fewer than 8 channels: the last panel
        rows    store_part, rcx, rdi
        jmp     4f

3:      enter   STORE
        rows    store_row, rcx
        add     C_END, 32
        sub     NC, 8
        jnz     0b

4:      end_igemm
endfn qn_igemm_f32_4x8_sse41

// C[m][n] = requantize(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]), bytes: 6 rows x 16 channels.
// Contract: src/kernel/igemm.h
//
//   args   rdi mr  rsi nc  rdx kc  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      the end of row m of this tap: rdi rsi rdx rcx r8 r9 for m = 0 .. 5
//   loop   rax from -kc up to 0, r10 w, r11 row mr-1
//   tap    r12 its offsets, r13 their end, rbx a + kc, r14 zero + kc, rbp -kc, r15 row mr-1
//   store  rax the row at hand, rcx stride, rsi channels left, rdx epilogue of the panel
//   acc    ymm4-ymm15: row m holds ymm(4+2m), ymm(5+2m)
//   load   ymm0 ymm1 one row of W   ymm2 one A everywhere   ymm3 the sign bit of every byte
//
// A step is 12 dot products (6 cycles), 6 exclusive ors and 9 loads, a prefetch among them (5 cycles).  Only the rows
// of this call are run, read and written.
#define FRAME 56
#include "igemm.h"
#include "dot_avxvnni.h"

#define TAIL qword ptr [rsp + 40]       // where row mr-1 is in what is left of a tap
#define EPILOGUE qword ptr [rsp + 48]   // of this panel

// Every row: its number, the end of its A, its accumulators.
.macro rows do, arg:vararg
        \do     5, r9,  14, 15, \arg
        \do     4, r8,  12, 13, \arg
        \do     3, rcx, 10, 11, \arg
        \do     2, rdx, 8,  9,  \arg
        \do     1, rsi, 6,  7,  \arg
        \do     0, rdi, 4,  5,  \arg
.endm

// r13 becomes the end of all offsets, 6 per tap.
.macro offsets_end
        lea     rcx, [rcx + rcx * 2]
        lea     r13, [r8 + rcx * 8]
.endm

.macro igemm_6x16 level, encoding
        rodata
        places  \level\()_row, 0, 1, 2, 3, 4, 5
        places  \level\()_step, 0, 1, 2, 3, 4, 5
        places  \level\()_tail, 0, 1, 2, 3, 4, 5
        places  \level\()_store_row, 0, 1, 2, 3, 4, 5
        places  \level\()_store_part, 0, 1, 2, 3, 4, 5

fn qn_igemm_qs8c_6x16_\level
        begin_igemm offsets_end, \level\()_
        entry   rax, rdi, \level\()_tail, rcx
        mov     TAIL, rax
        mov     rax, [ARGS + 32]
        mov     EPILOGUE, rax
        load_signs

0:      load_weights r10                // a panel: start from the bias
        add     r10, 64
        rows    start_row

        mov     r12, TABLE_BEGIN
7:      cmp     dword ptr [r12], TAP_LEFT_OUT
        jne     8f
        mov     eax, 3                  // over 16 channels for each k, which fill whole fours
        sub     rax, rbp
        and     rax, -4
        shl     rax, 4
        add     r10, rax
        jmp     4f
8:      enter   r15                     // a tap: find the rows of A
        rows    row, \level\()_
        mov     rax, rbp
        cmp     rax, -4
        jg      3f
2:      load_weights r10
        add     r10, 64
        prefetcht0 [r10 + AHEAD_OF_BYTES]
        enter   r11
        rows    step, \level\()_step, \encoding, rax
        add     rax, 4
        cmp     rax, -4
        jle     2b
3:      test    rax, rax
        jz      4f
        load_weights r10
        add     r10, 64
        cmp     rax, -2
        enter   TAIL
        rows    tail, \level\()_tail, \encoding, rax
4:      add     r12, 24
        cmp     r12, r13
        jne     7b

        mov     rdx, EPILOGUE
        load_end rdx
        rows    end_row, rdx
        place_of_c rcx, rax, rsi
        cmp     rsi, 16
        jae     5f
        enter   PART                    // fewer than 16 channels: the last panel
        rows    store_part, \level\()_store_part, rcx, esi, rdx
        jmp     6f

5:      enter   STORE
        rows    store_row, \level\()_store_row, rcx
        add     EPILOGUE, REQUANTIZE_SCALES + 64
        add     C_END, 16
        sub     NC, 16
        jnz     0b

6:      vzeroupper
        end_igemm
endfn qn_igemm_qs8c_6x16_\level
.endm

igemm_6x16 avxvnni, {vex}
igemm_6x16 avx512vnni, {evex}

// C[m][n] = requantize(bias[n] + sum over taps t, channels k of A(t, m)[k] * W[t][k][n]) of bytes, 12 rows x 32
// channels.  Contract: src/kernel/igemm.h; panels have the format k4u, sums times scales fit 32 bits
//
//   args   rdi mr  rsi nc  rdx kc(bytes)  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A, tap, acc   igemm_12x32.h; rows end behind their whole fours
//   loop   rax from minus the whole fours of kc up to 0, r14 w, r15 row mr-1 or, of whole panels, the rows of C below
//   store  rax the even row at hand, rdx from there to the odd one, rcx stride; of twelve rows r10 and r11
//   load, ends, masks   tile_avx512vnni.h
//
// A step of four channels is 24 dot products (24 cycles where they take one each) and 17 loads, prefetches among them.
// Twelve rows end in stages.  Of a last panel with at most 16 channels only the lower vector is multiplied.  Only the
// rows of this call are run, read and written.
#define FRAME 152
#define LINES_OF_ROW 1
#define MULTIPLY_ROW dot_row
#define MULTIPLY_LOWER dot_lower
#include "igemm_12x32.h"
#include "tile_avx512vnni.h"

#define ENDS rsp + TILE_FRAME           // 12 bytes
#define TAIL qword ptr [rsp + TILE_FRAME + 16]      // row mr-1 in the tail of a tap; 0: there is none
#define ODD qword ptr [rsp + TILE_FRAME + 24]       // of the pair of row mr-1, from its even row of C to its odd one
#define EPILOGUE qword ptr [rsp + TILE_FRAME + 32]  // of the panel
#define ROWS qword ptr [rsp + TILE_FRAME + 40]      // mr
#define TAP_BYTES qword ptr [rsp + TILE_FRAME + 48] // of a panel

.macro tail m, a, lo, hi, none
L(tail\m):
        dot_tail \a, \lo, \hi
.endm

.macro end_of_pair i, j, none
        end_stage %(\i + 1), %(4 * \j + 4), %(4 * \j + 5), %(4 * \j + 6), %(4 * \j + 7)
.endm

        .altmacro

        rodata
        places  tail, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
        places  store, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10

fn qn_igemm_qs8c_12x32_avx512vnni
        mov     r10, rdx
        mask_tail r10d, eax
        and     rdx, -4
        begin_igemm_12x32
        lea     rax, [r10 + 3]          // 32 channels for each k, which fill whole fours
        and     rax, -4
        sub     rax, rdx
        shl     rax, 5
        mov     TAP_BYTES, rax
        xor     eax, eax
        test    r10d, r10d
        jz      1f
        entry   rax, rdi, tail, rcx
1:      mov     TAIL, rax
        mov     ROWS, rdi
        way_to_odd rax, rdi, [ARGS + 24]
        mov     ODD, rax
        mov     rax, [ARGS + 32]        // p
        mov     EPILOGUE, rax
        prepare_ends ENDS, rax, ecx

        load_ends ENDS
        load_signs eax

0:      load_weights r14                // a panel: start from the bias
        sub     r14, -128
        rows    start_row

        mov     rax, TABLE_BEGIN
1:      cmp     dword ptr [rax], TAP_LEFT_OUT
        jne     8f
        add     r14, TAP_BYTES
        mov     TABLE, rax
        jmp     5f
8:      begin_tap
        test    rax, rax
        jz      4f
        multiply_tap
4:      mov     rax, TAIL
        test    rax, rax
        jz      5f
        load_weights r14
        sub     r14, -128
        enter   rax
        rows    tail

5:      end_tap 1b

        mov     rsi, NC
        lanes   k1, rsi, esi, eax
        mov     rdi, EPILOGUE
        load_scales rdi
        mov     rcx, [ARGS + 24]        // c_stride
        mov     rdx, ODD
        mov     rax, C_END
        sub     rax, rcx
        sub     rax, rdx
        cmp     ROWS, 12
        jne     6f
        mov     r10, rax
        mov     r11, rcx
        staged  end_of_pair, 9
        jmp     7f
6:      enter   STORE
        store_one 10, 24, 25, rdx, rcx
        store_pair 8, 20, 21, 22, 23, rdx, rcx
        store_pair 6, 16, 17, 18, 19, rdx, rcx
        store_pair 4, 12, 13, 14, 15, rdx, rcx
        store_pair 2, 8, 9, 10, 11, rdx, rcx
        store_pair 0, 4, 5, 6, 7, rdx, rcx

7:      add     EPILOGUE, REQUANTIZE_SCALES + 128
        add     C_END, 32
        sub     NC, 32
        ja      0b

        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
endfn qn_igemm_qs8c_12x32_avx512vnni

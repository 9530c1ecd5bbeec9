// What gemm and igemm for bytes share on levels without a dot product of bytes: they multiply pairs of k as numbers of
// 16 bits.
//
// pmaddwd multiplies pairs of such numbers and adds the two products, which is exact for all bytes.  Weights are
// widened when they are loaded, for all rows of the tile at once.  Rows of A are widened before: up to CHUNK bytes of
// each row go into the frame, row m at ROWS + m * PITCH.  What the frame holds serves all panels if the rows are no
// longer than that.  Longer rows take several chunks, and each serves a group of panels: between two chunks the sums of
// these panels stay in the frame, too.
//
// Rows may end anywhere; only here it matters.  Behind an odd number of bytes the last pair has a second number, which
// is whatever the frame holds there: the panel has a zero for it.
//
// A level says, in pairs_<level>.h: widen_16, widen_8, widen_4, load_weights, load_bias, start_row, multiply_row,
// load_sums, store_sums.  What a sum becomes, requantize_<level>.h or dequantize_<level>.h says: load_end, end_row,
// store_row, leave_level and, for type qd8c, start_real_row in the place of start_row.
#ifndef QN_ASM_X86_PAIRS_H
#define QN_ASM_X86_PAIRS_H

#include "tile.h"

// Most rows are no longer.  The rest of the L1 cache is for panels.
#define CHUNK 640
#define PITCH (2 * CHUNK)
#define GROUP 128                       // channels of a group of panels, each with six sums of four bytes

// The frame, aligned to 16 when six registers are saved.
#define ROWS rsp + 192
#define SUMS ROWS + 6 * PITCH           // with room to align them to 64
#define FRAME (192 + 6 * PITCH + GROUP * 24 + 56)
#define C_END qword ptr [rsp]           // the row after the last
#define C_STRIDE qword ptr [rsp + 8]
#define NC qword ptr [rsp + 16]         // channels left
#define P qword ptr [rsp + 24]          // the epilogue of this panel
#define STORE qword ptr [rsp + 32]      // where row mr-1 is stored
#define PAIRS qword ptr [rsp + 40]      // of this chunk
#define SECOND qword ptr [rsp + 48]     // where row mr-1 enters every second step
#define TABLE qword ptr [rsp + 56]      // of igemm: the offsets
#define TOTAL qword ptr [rsp + 64]      // k of all taps
#define FILL qword ptr [rsp + 72]       // k of the chunk that are not in the frame yet
#define COLUMN qword ptr [rsp + 80]     // where they begin in its row 0
#define PART_OF_TAP qword ptr [rsp + 88]
#define GROUP_W qword ptr [rsp + 96]    // where the panels of the group begin
#define GROUP_NC qword ptr [rsp + 104]
#define GROUP_LEFT qword ptr [rsp + 112]
#define BEFORE qword ptr [rsp + 120]    // k before this chunk
#define REST qword ptr [rsp + 128]      // bytes from the end of a panel's chunk to the next panel's, or to its biases
#define NUMBERS rsp + 136               // of rows that are quantized each on its own: scale, minus the zero point
#define ARGS rsp + FRAME + 56

// Every row: its number, where its A is, its accumulators.
.macro rows do, arg:vararg
        \do     5, rbx+5*PITCH, 14, 15, \arg
        \do     4, rbx+4*PITCH, 12, 13, \arg
        \do     3, rbx+3*PITCH, 10, 11, \arg
        \do     2, rbx+2*PITCH, 8,  9,  \arg
        \do     1, rbx+PITCH,   6,  7,  \arg
        \do     0, rbx,         4,  5,  \arg
.endm

.macro step m, a, lo, hi, name, at
L(\name\m):
        multiply_row \a+\at, \lo, \hi
.endm

// Widens r10 bytes, at least one, from rbx to rbp.  rbx and rbp become the ends of both; rax and r11 are scratch.
// Bytes that do not fill a vector go together with some before them, a second time.  No instruction of vectors changes
// flags, so all branches to the end are taken.
.macro widen_bytes
        add     rbx, r10
        lea     rbp, [rbp + r10 * 2]
        mov     r11d, 16
        sub     r11, r10
        jg      3f
        jns     2f
        .p2align 5                      // measured: up to a tenth of the whole time
1:      widen_16 rbx+r11-16, rbp+r11*2-32
        add     r11, 16
        js      1b
2:      widen_16 rbx-16, rbp-32
        jns     6f

3:      mov     r11, r10
        neg     r11
        cmp     r11, -8
        jg      4f
        widen_8 rbx+r11, rbp+r11*2
        widen_8 rbx-8, rbp-16
        jle     6f
4:      cmp     r11, -4
        jg      5f
        widen_4 rbx+r11, rbp+r11*2
        widen_4 rbx-4, rbp-8
        jle     6f

5:      movsx   eax, byte ptr [rbx + r11] // the first, the middle, the last of three, two or one
        mov     [rbp + r11 * 2], ax
        sar     r11
        movsx   eax, byte ptr [rbx + r11]
        mov     [rbp + r11 * 2], ax
        movsx   eax, byte ptr [rbx - 1]
        mov     [rbp - 2], ax
6:
.endm

// From the end of one row in the frame to the beginning of the next one.
.macro next_row_of_frame
        add     rbp, PITCH
        sub     rbp, r10
        sub     rbp, r10
.endm

// Into the frame: arguments that all calls have, and where rows are entered; r12 becomes row mr-1 of a step.
.macro keep_arguments mr, nc, c, c_stride, p, scratch, scratch2
        mov     NC, \nc
        mov     \scratch, \c_stride
        mov     C_STRIDE, \scratch
        imul    \scratch, \mr
        add     \scratch, \c
        mov     C_END, \scratch
        mov     \scratch, \p
        mov     P, \scratch
        entry   \scratch, \mr, store_row, \scratch2
        mov     STORE, \scratch
        entry   \scratch, \mr, second, \scratch2
        mov     SECOND, \scratch
        entry   r12, \mr, step, \scratch
.endm

// The products of r10 pairs of k in the frame, two steps at a time.  An odd number begins with the second step.
.macro multiply_chunk w, vector
        lea     rbx, [ROWS]
        test    r10d, 1
        jz      4f
        sub     \w, \vector
        sub     rbx, 4
        inc     r10
        jmp     5f
        .p2align 6                      // measured: up to a fifth of the time of one row
4:      load_weights \w
        enter   r12
        rows    step, step, 0
5:      load_weights \w+\vector
        enter   SECOND
        rows    step, second, 4
        add     \w, 2 * \vector
        prefetcht0 [\w + AHEAD_OF_BYTES]
        add     rbx, 8
        sub     r10, 2
        jnz     4b
.endm

// The frame is larger than a page, and the stack grows page by page.
.macro make_frame
        frame   FRAME
        or      qword ptr [rsp + 8192], 0
        or      qword ptr [rsp + 4096], 0
.endm

// A group of panels begins, at w.  For one row of A, or two, a group is a single panel: to widen so few rows again
// takes little, but weights arrive fastest if they are read in the order of memory.
.macro begin_group w, nr
        mov     GROUP_W, \w
        mov     ebx, GROUP
        mov     eax, \nr
        cmp     edi, 3
        cmovb   ebx, eax
        cmp     NC, rbx
        cmovb   rbx, NC
        mov     GROUP_NC, rbx
        xor     r13d, r13d
.endm

// The products of a chunk, r10 pairs of k in the frame, with all panels of the group.  After it, r13 of all `k` k are
// done; rax is the number of all pairs.  Then comes the next chunk or, after the last one, the end of all sums and the
// next group.  What finds the next rows and taps stays as it is: rcx, rdx, rdi, r8, and r9 or rsi, whichever is not w.
.macro multiply_group w, nr, vector, k, start, chunk, group, end:vararg
        mov     PAIRS, r10
        mov     r15, GROUP_NC
        mov     GROUP_LEFT, r15
        lea     r15, [SUMS + 48 - 12 * \vector]
        and     r15, -64
        sub     rax, r10
        imul    \w, BEFORE, \vector / 2
        test    \w, \w
        jz      10f
        add     \w, 2 * \vector         // there are biases in front
        add     rax, 2
10:     add     \w, GROUP_W
        imul    rax, rax, \vector
        mov     REST, rax

11:     add     r15, 12 * \vector       // a panel
        cmp     BEFORE, 0
        jne     12f
        load_bias \w
        add     \w, 2 * \vector
        rows    \start
        jmp     13f
12:     cmp     GROUP_NC, \nr           // the sums of a single panel stay in registers
        jbe     13f
        rows    load_sums, r15
13:     mov     r10, PAIRS
        multiply_chunk \w, \vector
        cmp     r13, \k
        je      14f
        cmp     GROUP_NC, \nr + 1
        jl      \chunk
        rows    store_sums, r15
        add     \w, REST
        sub     GROUP_LEFT, \nr
        ja      11b
        jmp     \chunk
15:     sub     GROUP_LEFT, \nr         // a panel is stored
        jbe     \group
        add     \w, REST
        jmp     11b
14:     end_panel \nr, 15b, \end
.endm

// Ends the sums of a panel and stores them; leads to `next` if another panel follows.  A result has so many bytes, and
// behind `head` bytes, the epilogue has so many numbers for each channel.  Rows of a last panel with fewer channels are
// stored in the frame, in place of sums, and copied from there.  rax, rbx, r10 and r11 are scratch, in the end rdx too.
.macro end_panel nr, next, bytes, head, numbers
        mov     rbx, P
        load_end rbx
        rows    end_row, rbx
        add     rbx, \head + 4 * \nr * \numbers
        mov     P, rbx
        mov     rax, C_END
        mov     r11, C_STRIDE
        mov     r10, NC
        cmp     r10, \nr
        jae     5f
        imul    eax, edi, \nr * \bytes
        lea     rax, [SUMS + rax]
        mov     r11d, \nr * \bytes
5:      enter   STORE
        rows    store_row, store_row, r11
        add     C_END, \nr * \bytes
        sub     NC, \nr
        ja      \next
        je      9f
        copy_part \nr, \bytes
9:      leave_level
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

// Copies r10 channels, fewer than a panel's, of rdi rows from the frame, row 0 at rax, to C.
.macro copy_part nr, bytes
        mov     rbx, C_STRIDE
        imul    rbx, rdi
        neg     rbx
        add     rbx, C_END
        sub     rbx, \nr * \bytes       // row 0 of C
6:      cmp     r10, 4
        jae     7f
        copy_one rbx, rax, r10, \bytes, 1 // the last, the middle, the first of three, two or one
        mov     r11, r10
        shr     r11
        copy_one rbx, rax, r11, \bytes
        xor     r11d, r11d
        copy_one rbx, rax, r11, \bytes
        jmp     10f
7:
        .if     \bytes == 1
        .if     \nr > 8
        cmp     r10, 8
        jae     8f
        copy_ends 4, edx, r11d
        jmp     10f
8:      copy_ends 8, rdx, r11
        .else
        copy_ends 4, edx, r11d
        .endif
        .else
        mov     r11, r10                // four floats at a time: the last ones, those before, ...
8:      sub     r11, 4
        copy_four rbx, rax, r11
        .if     \nr > 8
        cmp     r11, 4
        ja      8b
        .endif
        xor     r11d, r11d              // and the first ones, some of them a second time
        copy_four rbx, rax, r11
        .endif
10:     add     rax, \nr * \bytes
        add     rbx, C_STRIDE
        dec     rdi
        jnz     6b
.endm

// At least n of r10 bytes, at most 2 n, as the first and the last n.
.macro copy_ends n, first, last
        mov     \first, [rax]
        mov     \last, [rax + r10 - \n]
        mov     [rbx], \first
        mov     [rbx + r10 - \n], \last
.endm

// Four floats, from number n on.
.macro copy_four to, from, n
        mov     rdx, [\from + \n * 4]
        mov     [\to + \n * 4], rdx
        mov     rdx, [\from + \n * 4 + 8]
        mov     [\to + \n * 4 + 8], rdx
.endm

// The result of so many bytes that is `less` before number n.
.macro copy_one to, from, n, bytes, less=0
        .if     \bytes == 1
        mov     dl, [\from + \n - \less]
        mov     [\to + \n - \less], dl
        .else
        mov     edx, [\from + \n * 4 - 4 * \less]
        mov     [\to + \n * 4 - 4 * \less], edx
        .endif
.endm

.macro places_of_rows
        rodata
        places  step, 0, 1, 2, 3, 4, 5
        places  second, 0, 1, 2, 3, 4, 5
        places  store_row, 0, 1, 2, 3, 4, 5
.endm

// Copies the numbers of the mr rows of A, of type qd8c, into the frame.  A sum begins with minus the zero point times
// the sum of the weights.
.macro copy_numbers
        mov     r10, rcx
        lea     r11, [NUMBERS]
        mov     r15, rdi
1:      mov     eax, [r10 + QUANTIZED_ROW_SCALE]
        mov     [r11], eax
        xor     eax, eax
        sub     eax, [r10 + QUANTIZED_ROW_ZERO]
        mov     [r11 + 4], eax
        add     r10, r8
        add     r11, 8
        dec     r15
        jnz     1b
.endm

// ---- the kernels

// gemm
//
//   args   rdi mr  rsi nc  rdx k  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   A      rbx in the frame, which holds r14 k; while rows are widened rbx in a row and rbp in the frame
//   jumps  r12 row mr-1 in the loop, SECOND in every second step
//   left   r10 pairs of the chunk     r13 k done     r15 rows to widen, then where the sums of a panel lie
.macro gemm_pairs name, nr, vector, type=qs8c
        places_of_rows
fn \name
        save    rbx, rbp, r12, r13, r14, r15
        make_frame
        keep_arguments rdi, rsi, [ARGS], [ARGS+8], [ARGS+16], rax, rbx
        xor     r14d, r14d
        .ifc    \type, qd8c
        copy_numbers
        .endif

0:      begin_group r9, \nr
7:      mov     BEFORE, r13             // a chunk
        mov     r10, rdx
        sub     r10, r13
        mov     eax, CHUNK
        cmp     r10, rax
        cmova   r10, rax
        cmp     r14, rdx
        jge     9f                      // the frame holds all k already
        mov     r14, r10
        lea     rbx, [rcx + r13]
        lea     rbp, [ROWS]
        mov     r15, rdi
8:      widen_bytes
        sub     rbx, r10
        add     rbx, r8
        next_row_of_frame
        dec     r15
        jnz     8b
9:      add     r13, r10
        inc     r10
        shr     r10
        lea     rax, [rdx + 1]
        shr     rax
        .ifc    \type, qd8c
        multiply_group r9, \nr, \vector, rdx, start_real_row, 7b, 0b, 4, DEQUANTIZE_SCALES, 2
        .else
        multiply_group r9, \nr, \vector, rdx, start_row, 7b, 0b, 1, REQUANTIZE_SCALES, 1
        .endif
endfn \name
.endm

// igemm.  In a row of the frame all taps lie one after the other, each with an even number of k.
//
//   args   rdi mr  rsi nc  rdx kc  rcx ks  r8 offsets  r9 a  [rsp+8] zero  w  c  c_stride  p
//   A      rbx in the frame, which holds r14 k; while rows are widened rbx in a row and rbp in the frame
//   tap    r8 its offsets, rcx what is done of its k
//   W      rsi
//   jumps  r12 row mr-1 in the loop, SECOND in every second step
//   left   r10 pairs of the chunk     r13 k done, of rbp     r15 the row that is widened, then where a panel's sums lie
.macro igemm_pairs name, nr, vector
        places_of_rows
fn \name
        save    rbx, rbp, r12, r13, r14, r15
        make_frame
        keep_arguments rdi, rsi, [ARGS+16], [ARGS+24], [ARGS+32], rax, rbx
        mov     rsi, [ARGS + 8]
        mov     TABLE, r8
        lea     rax, [rdx + 1]
        and     rax, -2
        imul    rax, rcx
        mov     TOTAL, rax
        xor     r14d, r14d

0:      begin_group rsi, \nr
        mov     r8, TABLE
        xor     ecx, ecx
7:      mov     BEFORE, r13             // a chunk
        mov     r10, TOTAL
        sub     r10, r13
        mov     eax, CHUNK
        cmp     r10, rax
        cmova   r10, rax
        cmp     r14, TOTAL
        jge     9f                      // the frame holds all k already
        mov     r14, r10
        mov     FILL, r10
        lea     rax, [ROWS]
        mov     COLUMN, rax

8:      mov     r10, rdx                // what is left of a tap
        sub     r10, rcx
        lea     rax, [r10 + 1]          // with what fills up its last pair, and no more than goes into the chunk
        and     rax, -2
        cmp     rax, FILL
        cmova   rax, FILL
        sub     FILL, rax
        mov     PART_OF_TAP, rax
        cmp     r10, rax
        cmova   r10, rax
        mov     rbp, COLUMN
        xor     r15d, r15d
10:     find_row rbx, r8+r15*4, r9, [ARGS]
        add     rbx, rcx
        widen_bytes
        next_row_of_frame
        inc     r15
        cmp     r15, rdi
        jb      10b
        mov     rax, PART_OF_TAP
        add     rcx, rax
        add     rax, rax
        add     COLUMN, rax
        cmp     rcx, rdx
        jb      6f
        xor     ecx, ecx
        add     r8, 24
6:      cmp     FILL, 1
        jge     8b
        mov     r10, COLUMN
        lea     rax, [ROWS]
        sub     r10, rax
        shr     r10

9:      add     r13, r10
        shr     r10
        mov     rbp, TOTAL
        mov     rax, rbp
        shr     rax
        multiply_group rsi, \nr, \vector, rbp, start_row, 7b, 0b, 1, REQUANTIZE_SCALES, 1
endfn \name
.endm

#endif

// What gemm and igemm for bytes share on levels without a dot product of bytes: they multiply pairs of k as numbers of
// 16 bits.
//
// pmaddwd multiplies pairs of such numbers and adds the two products, which is exact for all bytes.  Weights are
// widened when they are loaded, for all rows of the tile at once.  Rows of A are widened before: up to CHUNK bytes of
// each row go into the frame, row m at rsp + m * PITCH.  What the frame holds serves all panels if the rows are no
// longer than that.
//
// Rows may end anywhere; only here it matters.  Behind an odd number of bytes the last pair has a second number, which
// is whatever the frame holds there: the panel has a zero for it.
//
// A level says, in pairs_<level>.h: widen_16, widen_8, widen_4, load_weights, load_bias, start_row, multiply_row.  What
// a sum becomes, requantize_<level>.h or dequantize_<level>.h says: load_end, end_row, load_part, store_row, store_part,
// leave_level and, for type qd8c, start_real_row in the place of start_row.
#ifndef QN_ASM_X86_PAIRS_H
#define QN_ASM_X86_PAIRS_H

#include "tile.h"

// Most rows are no longer.  The rest of the L1 cache is for panels.
#define CHUNK 640
#define PITCH (2 * CHUNK)

// The frame, aligned to 16 when six registers are saved.
#define SLOTS rsp + 6 * PITCH
#define FRAME (6 * PITCH + 152)
#define C_END qword ptr [SLOTS]         // the row after the last
#define C_STRIDE qword ptr [SLOTS + 8]
#define NC qword ptr [SLOTS + 16]       // channels left
#define P qword ptr [SLOTS + 24]        // the epilogue of this panel
#define STORE qword ptr [SLOTS + 32]    // where row mr-1 is stored,
#define PART qword ptr [SLOTS + 40]     // or a part of it
#define SECOND qword ptr [SLOTS + 48]   // where row mr-1 enters every second step
#define TABLE qword ptr [SLOTS + 56]    // of igemm: the offsets
#define TOTAL qword ptr [SLOTS + 64]    // k of all taps
#define FILL qword ptr [SLOTS + 72]     // k of the chunk that are not in the frame yet
#define COLUMN qword ptr [SLOTS + 80]   // where they begin in its row 0
#define PART_OF_TAP qword ptr [SLOTS + 88]
#define NUMBERS SLOTS + 96              // of rows that are quantized each on its own: scale, minus the zero point
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
        entry   \scratch, \mr, store_part, \scratch2
        mov     PART, \scratch
        entry   \scratch, \mr, second, \scratch2
        mov     SECOND, \scratch
        entry   r12, \mr, step, \scratch
.endm

// The products of r10 pairs of k in the frame, two steps at a time.  An odd number begins with the second step.
.macro multiply_chunk w, vector
        mov     rbx, rsp
        test    r10d, 1
        jz      4f
        sub     \w, \vector
        sub     rbx, 4
        inc     r10
        jmp     5f
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

// Ends the sums of a panel and stores them; leads to `next` if another panel follows.  A result has so many bytes, and
// so many numbers of a channel stand in the epilogue, behind `head` bytes.
.macro end_panel nr, next, bytes=1, head=REQUANTIZE_SCALES, numbers=1
        mov     rbx, P
        load_end rbx
        rows    end_row, rbx
        mov     rax, C_END
        mov     r11, C_STRIDE
        mov     r10, NC
        cmp     r10, \nr
        jae     5f
        load_part r10, rbx              // the last panel, with fewer channels
        enter   PART
        rows    store_part, store_part, r11, r10d, rbx
        jmp     6f

5:      add     rbx, \head + 4 * \nr * \numbers
        mov     P, rbx
        enter   STORE
        rows    store_row, store_row, r11
        add     C_END, \nr * \bytes
        sub     NC, \nr
        jnz     \next
6:      leave_level
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

.macro places_of_rows
        rodata
        places  step, 0, 1, 2, 3, 4, 5
        places  second, 0, 1, 2, 3, 4, 5
        places  store_row, 0, 1, 2, 3, 4, 5
        places  store_part, 0, 1, 2, 3, 4, 5
.endm

// Copies the numbers of the mr rows of A, of type qd8c, into the frame.  A sum begins with minus the zero point times the
// sum of the weights.
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
//   left   r10 pairs of the chunk     r13 k done     r15 rows to widen
.macro gemm_pairs name, nr, vector, type=qs8c
        places_of_rows
fn \name
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        or      qword ptr [SLOTS - 3584], 0     // the stack grows page by page
        keep_arguments rdi, rsi, [ARGS], [ARGS+8], [ARGS+16], rax, rbx
        xor     r14d, r14d
        .ifc    \type, qd8c
        copy_numbers
        .endif

0:      load_bias r9                    // a panel
        add     r9, 2 * \vector
        .ifc    \type, qd8c
        rows    start_real_row
        .else
        rows    start_row
        .endif
        xor     r13d, r13d
7:      mov     r10, rdx                // a chunk
        sub     r10, r13
        mov     eax, CHUNK
        cmp     r10, rax
        cmova   r10, rax
        cmp     rdx, r14
        jbe     9f                      // the frame holds all k already
        mov     r14, r10
        lea     rbx, [rcx + r13]
        mov     rbp, rsp
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
        multiply_chunk r9, \vector
        cmp     r13, rdx
        jne     7b
        .ifc    \type, qd8c
        end_panel \nr, 0b, 4, DEQUANTIZE_SCALES, 2
        .else
        end_panel \nr, 0b
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
//   left   r10 pairs of the chunk     r13 k done     r15 the row that is widened
.macro igemm_pairs name, nr, vector
        places_of_rows
fn \name
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        or      qword ptr [SLOTS - 3584], 0     // the stack grows page by page
        keep_arguments rdi, rsi, [ARGS+16], [ARGS+24], [ARGS+32], rax, rbx
        mov     rsi, [ARGS + 8]
        mov     TABLE, r8
        lea     rax, [rdx + 1]
        and     rax, -2
        imul    rax, rcx
        mov     TOTAL, rax
        xor     r14d, r14d

0:      load_bias rsi                   // a panel
        add     rsi, 2 * \vector
        rows    start_row
        xor     r13d, r13d
        mov     r8, TABLE
        xor     ecx, ecx
7:      mov     r10, TOTAL              // a chunk
        sub     r10, r13
        mov     eax, CHUNK
        cmp     r10, rax
        cmova   r10, rax
        cmp     TOTAL, r14
        jbe     9f                      // the frame holds all k already
        mov     r14, r10
        mov     FILL, r10
        mov     COLUMN, rsp

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
6:      cmp     FILL, 0
        ja      8b
        mov     r10, COLUMN
        sub     r10, rsp
        shr     r10

9:      add     r13, r10
        shr     r10
        multiply_chunk rsi, \vector
        cmp     r13, TOTAL
        jne     7b
        end_panel \nr, 0b
endfn \name
.endm

#endif

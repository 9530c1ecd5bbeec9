// C[y][x][c] = clamp(bias[c] + sum over 3x3 taps of A * W), tiles of two rows x 4 channels, stride S.
// Contract: src/kernel/dwconv.h
//
//   args   r0 channels  r1 pixels  r2 rows  r3 offsets  stack: a w c row_stride c_stride p
//   panel  r2 a and r3 W at its channels; C and channels left on the stack
//   piece  of R rows: r0 steps left  r7 pixels  r1 offsets of the column     r4 C of the oldest open pixel
//   R = 2  r5 row_stride  r6 c_stride - row_stride      R = 1  r5 C of the row  r6 c_stride  r11 channels  r12 rows left
//   column r8 ... its offsets, then rows of A  lr scratch
//   acc    pixel of set p, row r in q(p R + r)     A  from q(OPEN R)     W  q7-q15, with stride 1 see find_weight
//   clamp  registers of A, and with stride 1 q15
//
// The columns of A pass once, and each is multiplied for all the windows it lies in: those of R rows, and of the OPEN =
// 3 / S (rounded up) pixels whose sums are still open.  A step takes S columns; with it a pixel opens, and the oldest
// is complete.  The first steps complete pixels before the first one, which are not stored, and the last ones open
// pixels behind the last one.  So 18 multiply-adds take 8 loads of vectors, A, W and biases, or 12 with stride 2, and
// 4 or 10 offsets, that come four or five at a time.
// Pieces of one row also take the last panel, which may have fewer than 4 channels.
#include "asm.h"

// What the stack holds.
#define BOUND_MIN 0                     // four times
#define BOUND_MAX 16
#define ZEROS 32
#define ZEROS_FROM_A 48                 // zeros - a
#define TABLE 52                        // offsets of a piece of one row
#define LOCALS 56
#define CHANNELS (LOCALS + 64)
#define PIXELS (CHANNELS + 4)
#define ROWS (CHANNELS + 8)
#define OFFSETS (CHANNELS + 12)
#define A (CHANNELS + 56)
#define W (CHANNELS + 60)
#define C (CHANNELS + 64)
#define ROW_STRIDE (CHANNELS + 68)
#define C_STRIDE (CHANNELS + 72)
#define P (CHANNELS + 76)

#define K 3

        .altmacro

// The accumulators of the pixel of some age.  In a piece of two rows pixels stay where they are, and OPEN steps are
// one turn of the loop; p is the number of the step.
.macro find_set age
        .set    set, \age - p
        .if     set < 0
        .set    set, set + OPEN
        .endif
.endm

.macro copy to, from
        vmov    q\to, q\from
.endm

.macro product sum, w, in
        .if     FUSED
        multiply_add_neonfma q\sum, q\w, q\in
        .else
        multiply_add_neon q\sum, q\w, q\in
        .endif
.endm

// ---- W: with stride 1 there is no room for two of the nine taps.  Where R = 2, q15 is the first one, then the second.

.macro find_weight t
        .set    w, 7 + \t
        .if     S == 1
        .set    w, 6 + \t
        .if     (\t == 0) | ((\t == 1) * (R == 2))
        .set    w, 15
        .endif
        .endif
.endm

// The taps that stay for a whole piece.
.macro load_weights
        .if     S == 1
        add     lr, r3, #48
        vldm    lr, {q8-q14}
        .else
        add     lr, r3, #16
        vldm    lr!, {q7-q10}
        vldm    lr, {q11-q15}
        .endif
.endm

// ---- A

// Input i of a column.  Where R = 2, an input takes the place of one that was multiplied for the last time.
.macro find_input i
        .if     R == 1
        .set    in, OPEN + \i
        .elseif S == 1
        .set    in, OPEN * R + \i - \i / 2 * 2
        .else
        .set    in, OPEN * R + 2 * \i - 2 * \i / 3 * 3
        .endif
.endm

.macro load_vector to, row
        vld1.32 {q\to}, [r\row]
.endm

// 1 to 4 channels.
.macro load_part s0, s1, s2, s3, row
        vldr    s\s0, [r\row]
        cmp     r11, #2
        vldrhs  s\s1, [r\row, #4]
        vldrhi  s\s2, [r\row, #8]
        cmp     r11, #4
        vldrhs  s\s3, [r\row, #12]
.endm

.macro load i
        find_input \i
        .if     R == 1
        load_part %(4 * in), %(4 * in + 1), %(4 * in + 2), %(4 * in + 3), %(8 + \i)
        .else
        load_vector %in, %(8 + \i)
        .endif
.endm

.macro load_offsets
        .if     R == 1
        ldm     r1, {r8-r10}
        add     r1, r1, #(4 * INPUTS)
        .elseif S == 1
        ldm     r1!, {r8-r11}
        .else
        ldm     r1!, {r8-r12}
        .endif
.endm

.macro find_column
        .if     R == 1
        find_rows 5f, r2, r8, r9, r10
        .elseif S == 1
        find_rows 5f, r2, r8, r9, r10, r11
        .else
        find_rows 5f, r2, r8, r9, r10, r11, r12
        .endif
.endm

// ---- A step

// Row r of kernel row j, for every open pixel that column d concerns.  The first tap comes first, and the second last:
// while others are multiplied, it arrives.
.macro products d
        .set    n, 0
        .rept   OPEN
        .if     j == 0
        .set    age, n
        .else
        .set    age, OPEN - 1 - n
        .endif
        .if     age * S + \d < K
        find_set age
        find_weight %(K * (age * S + \d) + j)
        find_input %(r * S + j)
        product %(set * R + r), %w, %in
        .endif
        .if     (S == 1) * (R == 2) * (j == 0) * (r == 1) * (n == 0)
        vld1.32 {q15}, [r3:128]
        sub     r3, r3, #32
        .endif
        .set    n, n + 1
        .endr
.endm

.macro column d
        .set    others, 3               // inputs that have registers from the beginning
        .if     (S == 1) * (R == 2)
        .set    others, 2
        .endif
        .set    i, 0
        .rept   others
        load    %i
        .set    i, i + 1
        .endr
        .set    j, 0
        .rept   K
        .set    r, 0
        .rept   R
        products \d
        .if     (R == 2) * (r == 0) * (j < 2)
        load    %(others + j)
        .endif
        .set    r, r + 1
        .endr
        .set    j, j + 1
        .endr
.endm

.macro bias acc
        .if     (S == 1) * (r == 1)     // and on to the first tap
        vld1.32 {q\acc}, [r3:128]!
        .else
        vld1.32 {q\acc}, [r3:128]
        .endif
.endm

// To every row of the pixel in `set`.
.macro each_row do
        .set    r, 0
        .rept   R
        \do     %(set * R + r)
        .set    r, r + 1
        .endr
.endm

// A pixel opens.
.macro open
        find_set 0
        each_row bias
        .if     (S == 1) * (R == 2)
        vld1.32 {q15}, [r3:128]!
        .endif
.endm

// Clamps like asm.h, but with fewer registers.
.macro load_bound low, high, bound
        vldr    d\low, [sp, #\bound]
        vldr    d\high, [sp, #\bound + 8]
.endm

.macro below acc, bound, mask
        vcgt.f32 q\mask, q\bound, q\acc
.endm

.macro above acc, bound, mask
        vcgt.f32 q\mask, q\acc, q\bound
.endm

.macro replace acc, bound, mask
        vbit    q\acc, q\bound, q\mask
.endm

.macro each_beyond do
        .set    r, 0
        .rept   R
        .set    mask, OPEN * R + 1 + r
        .if     mask == 8               // with stride 1 a tap's that stays
        .set    mask, 15
        .endif
        \do     %(set * R + r), %(OPEN * R), %mask
        .set    r, r + 1
        .endr
.endm

.macro limit beyond, bound
        load_bound %(2 * OPEN * R), %(2 * OPEN * R + 1), \bound
        each_beyond \beyond
        each_beyond replace
.endm

.macro store acc
        .if     r == 0
        vst1.32 {q\acc}, [r4], r5
        .else
        vst1.32 {q\acc}, [r4], r6
        .endif
.endm

.macro store_part s0, s1, s2, s3
        vstr    s\s0, [r4]
        cmp     r11, #2
        vstrhs  s\s1, [r4, #4]
        vstrhi  s\s2, [r4, #8]
        cmp     r11, #4
        vstrhs  s\s3, [r4, #12]
        add     r4, r4, r6
.endm

// The oldest pixel is complete.
.macro close
        find_set %(OPEN - 1)
        limit   below, BOUND_MIN
        limit   above, BOUND_MAX
        .if     R == 1
        store_part %(4 * set), %(4 * set + 1), %(4 * set + 2), %(4 * set + 3)
        .else
        each_row store
        .endif
.endm

.macro step
        load_offsets
        open
        find_column
        column  0
        .if     S == 2
        cmp     r0, #1
        beq     9f                      // behind the last window
        load_offsets
        find_column
        column  1
9:
        .endif
        .if     p < OPEN - 1
        cmp     r0, r7
        bhi     9f                      // a pixel before the first one
        .endif
        close
9:
.endm

// All pixels of R rows of a panel.
.macro piece rows
        .set    R, \rows
        ldr     r7, [sp, #PIXELS]
        add     r0, r7, #(OPEN - 1)
        .set    p, 0
        .if     R == 1
2:      step
        .set    i, OPEN - 1
        .rept   i
        copy    %i, %(i - 1)
        .set    i, i - 1
        .endr
        subs    r0, r0, #1
        bne     2b
        .else
2:      .rept   OPEN - 1
        step
        subs    r0, r0, #1
        beq     3f
        .set    p, p + 1
        .endr
        step
        subs    r0, r0, #1
        bne     2b
3:
        .endif
.endm

.macro tiles level, stride
fn qn_dwconv_f32_k3s\stride\()_2x4_\level
        .set    S, \stride
        .set    OPEN, (K + S - 1) / S
        .set    INPUTS, S + K
        save    r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr
        vsave   d8, d9, d10, d11, d12, d13, d14, d15
        take_room LOCALS
        vmov.i32 q2, #0
        load_limits P
        vstm    sp, {q0-q2}
        ldr     r2, [sp, #A]
        ldr     r3, [sp, #W]

0:      add     lr, sp, #ZEROS          // a panel
        sub     lr, lr, r2
        str     lr, [sp, #ZEROS_FROM_A]
        load_weights
        ldr     r11, [sp, #CHANNELS]
        ldr     r12, [sp, #ROWS]
        ldr     r1, [sp, #OFFSETS]
        ldr     r4, [sp, #C]
        ldr     r5, [sp, #ROW_STRIDE]
        ldr     r6, [sp, #C_STRIDE]
        cmp     r12, #2
        cmphs   r11, #4
        blo     1f
        sub     r6, r6, r5
        piece   2
        b       4f
1:      mov     r5, r4                  // row by row
        .if     S == 1
        add     lr, r3, #16
        vld1.32 {q15}, [lr:128]!
        vld1.32 {q7}, [lr:128]
        .endif
6:      str     r1, [sp, #TABLE]
        piece   1
        ldr     r1, [sp, #TABLE]
        ldr     lr, [sp, #ROW_STRIDE]
        add     r1, r1, #(4 * S)
        add     r5, r5, lr
        mov     r4, r5
        subs    r12, r12, #1
        bne     6b

4:      ldr     r11, [sp, #CHANNELS]
        ldr     r4, [sp, #C]
        add     r2, r2, #16
        add     r3, r3, #(16 * (K * K + 1))
        add     r4, r4, #16
        str     r4, [sp, #C]
        subs    r11, r11, #4
        str     r11, [sp, #CHANNELS]
        bhi     0b

        add     sp, sp, #LOCALS
        vpop    {d8-d15}
        add     sp, sp, #16
        pop     {r4-r12, pc}
5:      .if     S == 1
        choose_zeros ZEROS_FROM_A, r8, r9, r10, r11
        .else
        choose_zeros ZEROS_FROM_A, r8, r9, r10, r11, r12
        .endif
endfn qn_dwconv_f32_k3s\stride\()_2x4_\level
.endm

.macro strides level, fused
        .set    FUSED, \fused
        tiles   \level, 1
        tiles   \level, 2
.endm

        strides neon, 0
        .fpu    neon-vfpv4
        strides neonfma, 1

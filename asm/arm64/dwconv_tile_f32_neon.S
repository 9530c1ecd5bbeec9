// C[y][x][c] = clamp(bias[c] + sum over K * K taps of A * W), tiles of several rows x 4 channels, stride S.
// Contract: src/kernel/dwconv.h
//
//   args   x0 channels  x1 pixels  x2 rows  x3 offsets  x4 a  x5 w  x6 c  x7 row_stride  [sp] c_stride  p
//   panel  x0 channels left  x4 a, x5 W and x6 C at its channels  x16 zeros - a
//   piece  of R rows: x19 rows left  x20 offsets  x21 C    x22 0 where there is only one  x26 < 0 where few channels
//   column x13 its offsets  x9 x10 some of them, or in the steady loop x19-x29 those of the next column
//   pixel  x14 C of the oldest open one  x15 those still to open     x8 c_stride
//   w17    bit g: there is an open pixel of age g; 0 between pieces
//   acc    pixel of age g, row r in v(g R + r)     A  from v(OPEN R)
//   W      from v(WEIGHTS): nine taps of 3x3; of 5x5 one column, or in the steady loop one tap of each pixel
//   clamp  v30 min  v31 max     w11 min  w12 0 where nothing is above max     v27-v29 masks
//
// The columns of A pass once, and each is multiplied for all the windows it lies in: those of R rows, and of the OPEN =
// K / S (rounded up) pixels whose sums are still open.  A step takes S columns; before it every open pixel grows older
// by one, and the next one opens; after it, the oldest is complete.  Pixels that are not open take no part.
// Where all are open for OPEN steps, the steady loop takes these.  So, with ROWS rows, K * K * R FMAs take loads of A,
// W, biases and offsets: 3x3 36 FMAs and 13 loads, or 32 with stride 2; 5x5 75 FMAs and 39 loads, or 100 and 63.
// Where fewer rows are left, pieces of two take them, also of the last panel, which may have fewer than 4 channels.  A
// second row that is not there has inputs of any value, and is not stored.
// Cores that issue in order have steady loops of their own for 3x3, and share the rest.
#include "asm.h"
#include "../offset.h"
#include "dwconv_tile_inorder.h"

#ifdef QN_NO_CORES                      // a trimmed build that nobody wants for such cores
        .set    IN_ORDER, 0
#else
        .set    IN_ORDER, 1
#endif

        .altmacro

// Kernel column x, for the pixel of age g, if it is open.
.macro products g, x
        tbz     w17, #\g, 7f
        .if     K == 5
        weights %WEIGHTS, %(K * \x), K
        .set    first, WEIGHTS
        .else
        .set    first, WEIGHTS + K * \x
        .endif
        .set    j, 0
        .rept   K
        .set    r, 0
        .rept   R
        multiply %(\g * R + r), %(first + j), %(OPEN * R + r * S + j)
        .set    r, r + 1
        .endr
        .set    j, j + 1
        .endr
7:
.endm

.macro weight to, t
        ldr     q\to, [x5, #(16 + 16 * \t)]
.endm

// From tap t on.
.macro weights to, t, count
        .set    j, 0
        .rept   \count / 2
        weight_pair %(\to + j), %(\to + j + 1), %(\t + j)
        .set    j, j + 2
        .endr
        weight  %(\to + j), %(\t + j)
.endm

.macro weight_pair to, next, t
        ldp     q\to, q\next, [x5, #(16 + 16 * \t)]
.endm

.macro multiply acc, w, in
        fmla    v\acc\().4s, v\w\().4s, v\in\().4s
.endm

.macro copy to, from
        mov     v\to\().16b, v\from\().16b
.endm

.macro bias to
        ldr     q\to, [x5]
.endm

// x(offset), of 32 bits, becomes that of the zeros where it is negative.
.macro or_zeros offset
        cmp     w\offset, #0
        csel    x\offset, x\offset, x16, ge
.endm

.macro load_pair to, next, bytes
        ldp     w9, w10, [x13, #\bytes]
        or_zeros 9
        or_zeros 10
        ldr     q\to, [x4, x9]
        ldr     q\next, [x4, x10]
.endm

.macro load to, bytes
        ldr     w9, [x13, #\bytes]
        or_zeros 9
        ldr     q\to, [x4, x9]
.endm

// Inputs i .. i + count - 1 of a column of A.
.macro loads first, count
        .set    i, \first
        .rept   \count / 2
        load_pair %(OPEN * R + i), %(OPEN * R + i + 1), %(4 * i)
        .set    i, i + 2
        .endr
        .if     \count % 2
        load    %(OPEN * R + i), %(4 * i)
        .endif
.endm

// A subroutine: a column of A for all rows.
.macro all_inputs name
L(\name\()_inputs):
        .set    R, ROWS
        loads   0, INPUTS
        add     x13, x13, #COLUMN
        ret
.endm

// A subroutine: for two rows or one.  Fewer than 4 channels go by way of the stack: x10 where  x23 offsets  x24 their end
.macro few_inputs name
L(\name\()_few_inputs):
        .set    R, 2
        tbnz    x26, #63, 7f
        loads   0, K
        cbz     x22, 6f
        loads   K, S
6:      add     x13, x13, #COLUMN
        ret
7:      add     x10, sp, #32
        mov     x23, x13
        add     x24, x13, #(4 * K)
        cbz     x22, 8f
        add     x24, x24, #(4 * S)
8:      ldr     w9, [x23], #4
        or_zeros 9
        add     x9, x4, x9
        ldr     s29, [x9]
        tbz     w0, #1, 9f
        ldr     d29, [x9], #8
        tbz     w0, #0, 9f
        ld1     {v29.s}[2], [x9]
9:      str     q29, [x10], #16
        cmp     x23, x24
        b.ne    8b
        .set    i, 0
        .rept   K + S
        reload  %(OPEN * R + i), %i
        .set    i, i + 1
        .endr
        b       6b
.endm

.macro reload to, i
        ldr     q\to, [sp, #(32 + 16 * \i)]
.endm

.macro column_inputs name
        .if     R == ROWS
        bl      L(\name\()_inputs)
        .else
        bl      L(\name\()_few_inputs)
        .endif
.endm

// Column d of a step: kernel column d of the youngest pixel, d + S of the next one ...
.macro column d, name
        column_inputs \name
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        products %g, %(g * S + \d)
        .endif
        .set    g, g + 1
        .endr
.endm

// Both columns of a step of 5x5 with stride 2: the second one is the first one with weights one column on, but that the
// oldest pixel takes no part.
.macro both_columns name
        mov     x25, #(16 * K)
3:      column_inputs \name
        products 0, 0
        products 1, 2
        cbz     x25, 4f
        products 2, 4
        tst     w17, #((1 << (K / 2)) - 1)
        b.eq    2f                      // behind the last window
        add     x5, x5, x25
        mov     x25, #0
        b       3b
4:      sub     x5, x5, #(16 * K)
2:
.endm

// Every open pixel grows older, and the next one, if there is one, opens.
.macro age
        .set    i, (OPEN - 1) * R
        .rept   i
        .set    i, i - 1
        copy    %(i + R), %i
        .endr
        .rept   R
        bias    %i
        .set    i, i + 1
        .endr
        cmp     x15, #1
        adc     w17, w17, w17
        cset    x9, hs
        sub     x15, x15, x9
.endm

// The rows of pixels in `set` where they are not beyond a limit, see gemm_f32_neon.S.  A row is compared two rows ahead.
.macro limit compare, replace, set
        .set    r, 0
        .rept   R + 2
        .if     r < R
        \compare %(\set * R + r), %(27 + r - r / 3 * 3)
        .endif
        .if     r >= 2
        \replace %(\set * R + r - 2), %(25 + r - (r - 2) / 3 * 3)
        .endif
        .set    r, r + 1
        .endr
.endm

.macro below_zero acc, mask
        fcmlt   v\mask\().4s, v\acc\().4s, #0
.endm

.macro put_zero acc, mask
        bic     v\acc\().16b, v\acc\().16b, v\mask\().16b
.endm

// NaN stays NaN, and so does -0 unless the other is +0.
.macro higher acc
        fmax    v\acc\().4s, v\acc\().4s, v30.4s
.endm

// Row r of the oldest pixel, and the address of the next one.
.macro store acc
        .if     r == 0
        store_row \acc, 14, 10
        .elseif r == 2
        store_row \acc, 9, 10
        .else
        store_row \acc, 10, 9
        .endif
.endm

.macro store_row acc, at, below
        .if     r < R - 1
        add     x\below, x\at, x7
        .endif
        st1     {v\acc\().4s}, [x\at]  // half of str's work on Neoverse N1, says LLVM
.endm

// The sums of the next pixel begin with the bias in the registers of the stored one.
.macro store_and_open acc
        store   \acc
        bias    \acc
.endm

// Row `acc` of two, and the other one if there is one.
.macro store_few acc, second, name
        tbnz    x26, #63, L(\name\()_store_some)
        str     q\acc, [x14]
        cbz     x22, L(\name\()_stored)
        str     q\second, [x14, x7]
L(\name\()_stored):
.endm

// Behind the loop: the same of fewer than 4 channels.
.macro store_rarely acc, second, name
L(\name\()_store_some):
        mov     x10, x14
        store_some \acc
        cbz     x22, L(\name\()_stored)
        add     x10, x14, x7
        store_some \second
        b       L(\name\()_stored)
.endm

// As many channels as are left.
.macro store_some acc
        tbz     w0, #1, 4f
        str     d\acc, [x10], #8
        dup     v\acc\().2d, v\acc\().d[1]
4:      tbz     w0, #0, 4f
        str     s\acc, [x10]
4:
.endm

// To every row of the pixels in `set`.
.macro each_row do, set
        .set    r, 0
        .rept   R
        \do     %(\set * R + r)
        .set    r, r + 1
        .endr
.endm

// ---- The steady loop: OPEN steps with all pixels open.  Pixels stay where they are: in step p, that of age g has the
// accumulators of g - 1 - p (mod OPEN), its set.

.macro find_set age
        .set    set, \age - 1 - p
        .if     set < 0
        .set    set, set + OPEN
        .endif
.endm

.macro steady_weight g, x, j
        .if     K == 5
        weight  %(WEIGHTS + \g), %(K * \x + \j)
        .endif
.endm

// Row r of kernel row j of column d.  From j = 1 on, an input of the next column is loaded when the one in its place has
// been multiplied for the last time; by then w9 has gathered the signs of its offsets.
.macro steady_products name, d
        .set    in, r * S + j
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        find_set g
        .if     K == 3
        .set    w, WEIGHTS + K * (g * S + \d) + j
        .else
        .set    w, WEIGHTS + g
        .endif
        multiply %(set * R + r), %w, %(OPEN * R + in)
        .if     (r == R - 1) * (j < K - 1)
        steady_weight %g, %(g * S + \d), %(j + 1)
        .endif
        prepare_next
        .endif
        .set    g, g + 1
        .endr
        .if     (j == 0) * (r == R - 1)
        .rept   (INPUTS + 1) / 2 + INPUTS
        prepare_next
        .endr
        add     x13, x13, #COLUMN
        tbz     w9, #31, 7f
        bl      L(\name\()_choose)
7:      load_next %(OPEN * R), 19
        .elseif (j > 0) * ((r == 0) | (j + S >= K))
        load_next %(OPEN * R + in), %(19 + in)
        .endif
.endm

// Loads of offsets, then the gathering of their signs.
.macro prepare_next
        .if     fetched < INPUTS
        load_offsets %(19 + fetched), %(20 + fetched), %fetched
        .set    fetched, fetched + 2
        .endif
        .if     (gathered < INPUTS) * ((gathered + 2 < fetched) | (fetched >= INPUTS))
        gather  %(19 + gathered)
        .set    gathered, gathered + 1
        .endif
.endm

.macro gather offset
        .if     gathered == 1
        orr     w9, w19, w\offset
        .elseif gathered > 1
        orr     w9, w9, w\offset
        .endif
.endm

// A subroutine: the offset of the zeros for negative ones among those of the next column.
.macro choose_all name
L(\name\()_choose):
        .set    i, 0
        .rept   INPUTS
        or_zeros %(19 + i)
        .set    i, i + 1
        .endr
        ret
.endm

.macro load_next to, offset
        ldr     q\to, [x4, x\offset]
.endm

.macro load_offsets offset, beside, i
        .if     \i + 2 <= INPUTS
        ldp     w\offset, w\beside, [x13, #(4 * \i)]
        .else
        ldr     w\offset, [x13, #(4 * \i)]
        .endif
.endm

.macro first_weights d
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        steady_weight %g, %(g * S + \d), 0
        .endif
        .set    g, g + 1
        .endr
.endm

.macro steady_column name, d
        .set    fetched, 0
        .set    gathered, 1
        .set    j, 0
        .rept   K
        .set    r, 0
        .rept   R
        steady_products \name, \d
        .set    r, r + 1
        .endr
        .set    j, j + 1
        .endr
        first_weights %((S - 1) * (1 - \d))
.endm

// min is +0 most often; else what stands behind the loop, if there is a min at all.
.macro raise name, p, set
        cbnz    w11, L(\name\()_min\p)
        limit   below_zero, put_zero, \set
L(\name\()_raised\p):
.endm

.macro raise_rarely name
        .set    p, 0
        .rept   OPEN
        find_set %(OPEN - 1)
        raise_to_min \name, %p, %set
        .set    p, p + 1
        .endr
.endm

.macro raise_to_min name, p, set
L(\name\()_min\p):
        cmn     w11, #0x800, lsl #12
        b.eq    L(\name\()_raised\p)
        each_row higher, \set
        b       L(\name\()_raised\p)
.endm

.macro steady name
        bl      L(\name\()_inputs)
        first_weights 0
        each_row bias, %(OPEN - 1)
6:      .set    p, 0
        .rept   OPEN
        steady_column \name, 0
        .if     S == 2
        steady_column \name, 1
        .endif
        find_set %(OPEN - 1)
        raise   \name, %p, %set
        cbz     w12, 7f
        each_row lower_to_max, %set
7:      each_row store_and_open, %set
        add     x14, x14, x8
        .set    p, p + 1
        .endr
        sub     x15, x15, #OPEN
        cmp     x15, #OPEN
        b.hs    6b
        sub     x13, x13, #COLUMN       // the inputs there will be loaded again
        b       2f
        raise_rarely \name
.endm

// All pixels of R rows of a panel.
.macro piece rows, name
        .set    R, \rows
        mov     x13, x20
        mov     x14, x21
        mov     x15, x1
        .if     R < ROWS
        cmp     x19, #2
        cset    x22, hs
        sub     x26, x0, #4
        .endif

1:      age
        .if     K * S == 10
        both_columns \name
        .else
        column  0, \name
        .if     S == 2
        tst     w17, #((1 << (K / 2)) - 1)
        b.eq    2f                      // behind the last window
        column  1, \name
2:
        .endif
        .endif
        tbz     w17, #(OPEN - 1), 1b
        cmn     w11, #0x800, lsl #12
        b.eq    2f                      // min is -infinity
        limit   below_min, put_min, %(OPEN - 1)
2:      cbz     w12, 2f
        limit   above_max, put_max, %(OPEN - 1)
2:
        .if     R == ROWS
        each_row store, %(OPEN - 1)
        .else
        store_few %((OPEN - 1) * R), %((OPEN - 1) * R + 1), \name
        .endif
        add     x14, x14, x8
        .if     R == ROWS
        cmp     x15, #OPEN
        b.lo    2f
        cmn     w12, #0x800, lsl #12
        b.eq    2f                      // max is -0, and fmin would lower +0
        .if     IN_ORDER * (K == 3)
        ldr     x9, [sp, #16]
        cbnz    x9, L(\name\()_inorder)
        .endif
        steady  \name
L(\name\()_steady_end):
2:
        .endif
        tst     w17, #((1 << (OPEN - 1)) - 1)
        b.ne    1b
.endm

// Only the steady loop is another: the tile jumps there and back.
.macro tiles_inorder name, rows
fn qn_dwconv_f32_\name\()_\rows\()x4_neon_inorder
        mov     x10, #1
        b       L(\name\()_start)
        tiles_frame
        .set    R, ROWS
L(\name\()_inorder):
        steady_inorder \name
endfn qn_dwconv_f32_\name\()_\rows\()x4_neon_inorder
.endm

// What the unwinder must know of the frame of these functions, without having seen how it came about.
.macro tiles_frame
        .cfi_def_cfa_offset 160 + FRAME
        .set    i, -16
        .irp    a, x19, x21, x23, x25, x27, x29, d8, d10, d12, d14
        .cfi_offset \a, i
        .set    i, i - 16
        .endr
        .set    i, -8
        .irp    b, x20, x22, x24, x26, x28, x30, d9, d11, d13, d15
        .cfi_offset \b, i
        .set    i, i - 16
        .endr
        .cfi_negate_ra_state
.endm

        .set    FRAME, 32 + 16 * (5 + 2)

// What all functions begin and end with: x14 the return address, in x30 that into the function.
.macro frames
        .cfi_startproc
        .cfi_register x30, x14
L(tiles_enter):
        mov     x13, x30
        mov     x30, x14
        .cfi_restore x30
        ldp     x8, x9, [sp]
        save    x19, x20
        save    x21, x22
        save    x23, x24
        save    x25, x26
        save    x27, x28
        sign
        save    x29, x30
        save    d8, d9
        save    d10, d11
        save    d12, d13
        save    d14, d15
        ldp     w11, w12, [x9]
        dup     v30.4s, w11
        dup     v31.4s, w12
        eor     w12, w12, #0x7f800000   // infinity
        sub     sp, sp, #FRAME
        .cfi_adjust_cfa_offset FRAME
        stp     xzr, xzr, [sp]          // zeros
        str     x10, [sp, #16]          // for cores in order?
        mov     w17, #0
        ret     x13
        .cfi_endproc

        .cfi_startproc
        tiles_frame
L(tiles_leave):
        add     sp, sp, #FRAME
        .cfi_adjust_cfa_offset -FRAME
        restore d14, d15
        restore d12, d13
        restore d10, d11
        restore d8, d9
        restore x29, x30
        authenticate
        restore x27, x28
        restore x25, x26
        restore x23, x24
        restore x21, x22
        restore x19, x20
        ret
.endm

.macro tiles name, kernel, stride, rows
        .set    K, \kernel
        .set    S, \stride
        .set    ROWS, \rows
        .set    OPEN, (K + S - 1) / S
        .set    INPUTS, (ROWS - 1) * S + K
        .set    COLUMN, 4 * INPUTS
        .set    WEIGHTS, OPEN * ROWS + INPUTS
        .if     IN_ORDER * (K == 3)
        tiles_inorder \name, \rows
        .endif
fn qn_dwconv_f32_\name\()_\rows\()x4_neon
        .if     IN_ORDER * (K == 3)
        mov     x10, #0
L(\name\()_start):
        .endif
        mov     x14, x30
        .cfi_register x30, x14
        bl      L(tiles_enter)
        .cfi_restore x30
        tiles_frame

0:      mov     x9, sp                  // a panel
        sub     x16, x9, x4
        .if     K == 3
        weights %WEIGHTS, 0, 9
        .endif
        mov     x19, x2
        mov     x20, x3
        mov     x21, x6
        cmp     x0, #4
        b.lo    L(\name\()_few)
        cmp     x19, #\rows
        b.lo    L(\name\()_few)
        piece   \rows, \name
        b       L(\name\()_next)
        choose_all \name
        all_inputs \name
        few_inputs \name
L(\name\()_few):
        piece   2, \name
        subs    x19, x19, #2
        add     x20, x20, #(8 * S)
        add     x21, x21, x7, lsl #1
        b.hi    L(\name\()_few)
        b       L(\name\()_next)
        store_rarely %((OPEN - 1) * R), %((OPEN - 1) * R + 1), \name
L(\name\()_next):
        add     x4, x4, #16
        add     x5, x5, #(16 * (K * K + 1))
        add     x6, x6, #16
        subs    x0, x0, #4
        b.hi    0b
        b       L(tiles_leave)
        .ifc    \name, k3s1
        .cfi_endproc
        frames
        .endif
endfn qn_dwconv_f32_\name\()_\rows\()x4_neon
.endm

        tiles   k3s1, 3, 1, 4
        tiles   k3s2, 3, 2, 4
        tiles   k5s1, 5, 1, 3
        tiles   k5s2, 5, 2, 4

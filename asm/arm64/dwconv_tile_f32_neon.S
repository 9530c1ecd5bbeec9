// C[y][x][c] = clamp(bias[c] + sum over K * K taps of A * W), tiles of several rows x 4 channels, stride S.
// Contract: src/kernel/dwconv.h
//
//   args   x0 channels  x1 pixels  x2 rows  x3 offsets  x4 a  x5 w  x6 c  x7 row_stride  [sp] c_stride  p
//   panel  x0 channels left  x4 a, x5 W and x6 C at its channels  x16 zeros - a
//   piece  of R rows: x19 rows left  x20 offsets  x21 C
//   column x13 its offsets  x9 x10 some of them, or in the steady loop x19-x29 those of the next column
//   pixel  x14 C of the oldest open one  x15 those still to open     x8 c_stride
//   w17    bit g: there is an open pixel of age g
//   acc    pixel of age g, row r in v(g R + r)     A  from v(OPEN R)
//   W      from v(WEIGHTS): nine taps of 3x3; of 5x5 one column, or in the steady loop one tap of each pixel
//   clamp  v30 min  v31 max     w11 min  w12 0 where nothing is above max     v27-v29 masks
//
// The columns of A pass once, and each is multiplied for all the windows it lies in: those of R rows, and of the OPEN =
// K / S (rounded up) pixels whose sums are still open.  A step takes S columns; before it every open pixel grows older
// by one, and the next one opens; after it, the oldest is complete.  Pixels that are not open take no part.
// Where all are open for OPEN steps, the steady loop takes these.  So, with ROWS rows, K * K * R FMAs take loads of A,
// W, biases and offsets: 3x3 36 FMAs and 13 loads, or 32 with stride 2; 5x5 75 FMAs and 39 loads, or 100 and 63.
// Pieces of one row also take the last panel, which may have fewer than 4 channels.
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
        .set    j, 0
        .rept   K
        weight  %(WEIGHTS + j), %(K * \x + j)
        .set    j, j + 1
        .endr
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
        .if     R > 1
        ldr     q\to, [x4, x9]
        .else
        bl      6b
        copy    \to, 29
        .endif
.endm

// A subroutine: v29 = as many channels as are left of the row at x9.
.macro load_some
6:      cmp     x0, #4
        b.lo    7f
        ldr     q29, [x4, x9]
        ret
7:      tbnz    w0, #1, 8f
        ldr     s29, [x4, x9]
        ret
8:      add     x9, x4, x9
        ldr     d29, [x9], #8
        tbz     w0, #0, 9f
        ld1     {v29.s}[2], [x9]
9:      ret
.endm

// A column of A.
.macro inputs
        .set    i, 0
        .if     R > 1
        .rept   ((R - 1) * S + K) / 2
        load_pair %(OPEN * R + i), %(OPEN * R + i + 1), %(4 * i)
        .set    i, i + 2
        .endr
        .endif
        .rept   (R - 1) * S + K - i
        load    %(OPEN * R + i), %(4 * i)
        .set    i, i + 1
        .endr
        add     x13, x13, #COLUMN
.endm

// Column d of a step: kernel column d of the youngest pixel, d + S of the next one ...
.macro column d
        inputs
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        products %g, %(g * S + \d)
        .endif
        .set    g, g + 1
        .endr
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

// As many channels as are left.
.macro store_some acc
        cmp     x0, #4
        b.hs    4f
        mov     x10, x14
        tbz     w0, #1, 3f
        str     d\acc, [x10], #8
        dup     v\acc\().2d, v\acc\().d[1]
3:      tbz     w0, #0, 5f
        str     s\acc, [x10]
        b       5f
4:      str     q\acc, [x14]
5:
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
        inputs
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
        mov     w17, #0

1:      age
        column  0
        .if     S == 2
        tst     w17, #((1 << (K / 2)) - 1)
        b.eq    2f                      // behind the last window
        column  1
2:
        .endif
        tbz     w17, #(OPEN - 1), 1b
        cmn     w11, #0x800, lsl #12
        b.eq    2f                      // min is -infinity
        limit   below_min, put_min, %(OPEN - 1)
2:      cbz     w12, 2f
        limit   above_max, put_max, %(OPEN - 1)
2:
        .if     R > 1
        each_row store, %(OPEN - 1)
        .else
        each_row store_some, %(OPEN - 1)
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

        .if     R < ROWS
        sub     x19, x19, #R
        .endif
        .if     R + 1 < ROWS            // there may be more
        add     x20, x20, #(4 * S * R)
        .rept   R
        add     x21, x21, x7
        .endr
        .endif
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

// What the unwinder must know of a function's frame when it jumps into the middle of it.
.macro tiles_frame
        .cfi_def_cfa_offset 192
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
        stp     x10, x10, [sp, #-16]!   // for cores in order?
        .cfi_adjust_cfa_offset 16
        stp     xzr, xzr, [sp, #-16]!   // zeros
        .cfi_adjust_cfa_offset 16

0:      mov     x9, sp                  // a panel
        sub     x16, x9, x4
        .if     K == 3
        .irp    t, 0, 1, 2, 3, 4, 5, 6, 7, 8
        weight  %(WEIGHTS + \t), \t
        .endr
        .endif
        mov     x19, x2
        mov     x20, x3
        mov     x21, x6
        cmp     x0, #4
        b.lo    L(\name\()1)
        cmp     x19, #\rows
        b.lo    L(\name\()2)
        piece   \rows, \name
        b       L(\name\()_next)
        choose_all \name
        load_some
L(\name\()2):
        cmp     x19, #2
        b.lo    L(\name\()1)
        piece   2
        cbz     x19, L(\name\()_next)
L(\name\()1):
        piece   1
        cbnz    x19, L(\name\()1)
L(\name\()_next):
        add     x4, x4, #16
        add     x5, x5, #(16 * (K * K + 1))
        add     x6, x6, #16
        subs    x0, x0, #4
        b.hi    0b

        add     sp, sp, #32
        .cfi_adjust_cfa_offset -32
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
endfn qn_dwconv_f32_\name\()_\rows\()x4_neon
.endm

        tiles   k3s1, 3, 1, 4
        tiles   k3s2, 3, 2, 4
        tiles   k5s1, 5, 1, 3
        tiles   k5s2, 5, 2, 4

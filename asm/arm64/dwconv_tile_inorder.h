// The steady loop of 3x3 tiles (dwconv_tile_f32_neon.S) for cores that issue in order.
//
//   as there, but  x17 x4 + 8  x28 x29 bias  x10 where to store  x13 4 bytes before the next offsets
//
// A load of 128 bits takes two cycles in which nothing else is done.  So most inputs come in halves: ldr d for the low
// one, ldr x and ins for the high one.  Cortex-A53 has room in a cycle for a multiply-add and an integer instruction, ldr
// x being one, or for ldr d and ins; Cortex-A55 for any of them beside a multiply-add.  Where no multiply-add is left
// to go beside it, an input is loaded whole.
//
// A step is 36 multiply-adds, beside which go loads of offsets, the gathering of their signs and most ldr x.  With both
// limits it takes 65 cycles, with stride 2, where it loads 18 inputs instead of 6, 89 (64 and 89 on Cortex-A55).
#ifndef QN_ASM_ARM64_DWCONV_TILE_INORDER_H
#define QN_ASM_ARM64_DWCONV_TILE_INORDER_H

// The input whose place is free next: 0, 1, 2 .., with stride 2 0, 1, 3 .., 2, 4 ..
.macro next_input do
        .set    in, taken
        .if     (S == 2) * (taken > 0)
        .set    in, 2 * taken - 1
        .if     in >= INPUTS
        .set    in, in - INPUTS + 2
        .endif
        .endif
        .set    taken, taken + 1
        \do     %(OPEN * R + in), %(19 + in)
.endm

// The high half takes three cycles to come: that of the input before the last one goes in beside.
.macro load_halves to, offset
        ldr     d\to, [x4, x\offset]
        insert_high
        ldr     x\offset, [x17, x\offset]
        .set    coming, in
.endm

.macro load_whole to, offset
        ldr     q\to, [x4, x\offset]
.endm

// Of the two high halves on their way, the one that was first.
.macro insert_high
        .if     next_coming >= 0
        insert  %(OPEN * R + next_coming), 1, %(19 + next_coming)
        .endif
        .set    next_coming, coming
        .set    coming, -1
.endm

.macro insert to, half, from
        ins     v\to\().d[\half], x\from
.endm

// Offsets of the next column, as many as there are too few products for: pairs of them take a cycle of their own.
.macro first_offsets d
        .set    fetched, 0
        .set    gathered, 1
        .if     \d
        insert_high
        prepare
        insert_high
        prepare
        fetch_pairs 3
        prepare
        prepare
        .elseif S == 2
        fetch_pairs 1
        .endif
.endm

.macro fetch_pairs count
        .rept   \count
        fetch_pair %(19 + fetched), %(20 + fetched), %fetched
        .set    fetched, fetched + 2
        .endr
.endm

.macro fetch_pair offset, beside, i
        ldp     w\offset, w\beside, [x13, #(4 * \i + 4)]
.endm

// Another one, if few are on their way, or the sign of one.
.macro prepare
        .if     (fetched < INPUTS) * ((fetched < gathered + 4) | (fetched == INPUTS - 1))
        fetch_offset %(19 + fetched), %fetched
        .set    fetched, fetched + 1
        .elseif gathered < INPUTS
        gather  %(19 + gathered)
        .set    gathered, gathered + 1
        .endif
.endm

// The last one takes x13 to the next column.
.macro fetch_offset offset, i
        .if     \i < INPUTS - 1
        ldr     w\offset, [x13, #(4 * \i + 4)]
        .else
        ldr     w\offset, [x13, #(4 * \i + 4)]!
        .endif
.endm

// Row r of kernel row j of column d: the products of the open pixels.  From j = S on, inputs of the next column take
// the places of those that have been multiplied for the last time.
.macro products_inorder d
        .if     (S == 1) * (((j == 1) * (r < 2)) | ((j == 2) * (r > 0)))
        next_input load_halves
        .endif
        .set    g, 0
        .rept   OPEN
        .if     g * S + \d < K
        find_set g
        .if     j < S
        prepare
        .elseif S == 2
        next_input load_halves
        .endif
        multiply %(set * R + r), %(WEIGHTS + K * (g * S + \d) + j), %(OPEN * R + r * S + j)
        .endif
        .set    g, g + 1
        .endr
.endm

// Between the offsets and the inputs of the next column.
.macro choose_inorder name, d
        .rept   2 * INPUTS
        prepare
        .endr
        tbz     w9, #31, 7f
        bl      L(\name\()_choose)
7:      .if     \d
        .rept   4
        next_input load_whole
        .endr
        .endif
.endm

.macro column_inorder name, d
        first_offsets \d
        .set    taken, 0
        .set    coming, -1
        .set    next_coming, -1
        .set    j, 0
        .rept   K
        .if     j == S
        choose_inorder \name, \d
        .endif
        .set    r, 0
        .rept   R
        products_inorder \d
        .set    r, r + 1
        .endr
        .set    j, j + 1
        .endr
        next_input load_whole
.endm

// As soon as a sum is stored, the next one begins with the bias.
.macro store_inorder acc
        st1     {v\acc\().4s}, [x10], x7
        open_low \acc
.endm

.macro open_low acc
        insert  \acc, 0, 28
.endm

// What the next pixel, or the next iteration, needs goes in beside.
.macro open_high acc
        insert  \acc, 1, 29
        .if     r == 0
        mov     x10, x14
        .elseif (r == 1) * (p == OPEN - 1)
        sub     x15, x15, #OPEN
        .elseif (r == 2) * (p == OPEN - 1)
        cmp     x15, #OPEN
        .endif
.endm

.macro steady_inorder name
        add     x17, x4, #8
        bl      L(\name\()_inputs)
        mov     x10, x14
        sub     x13, x13, #4
        ldp     x28, x29, [x5]
        each_row bias, %(OPEN - 1)
6:      .set    p, 0
        .rept   OPEN
        column_inorder \name, 0
        .if     S == 2
        column_inorder \name, 1
        .endif
        insert_high
        add     x14, x14, x8
        insert_high
        find_set %(OPEN - 1)
        raise   \name\()_inorder, %p, %set
        cbz     w12, 7f
        each_row lower_to_max, %set
7:      each_row store_inorder, %set
        each_row open_high, %set
        .set    p, p + 1
        .endr
        b.hs    6b
        sub     x13, x13, #(COLUMN - 4)
        mov     w17, #((1 << OPEN) - 1)
        b       L(\name\()_steady_end)
        raise_rarely \name\()_inorder
.endm

#endif

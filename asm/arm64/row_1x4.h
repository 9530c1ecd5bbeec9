// gemm of one row of bytes x 4 channels, without dot products, whatever becomes of the sums.
//
//   args   x1 channels left  x2 k(bytes)  x3 a  x5 w  x6 c  x8 p      A  x9     x10 bytes of k left
//   acc    v16-v19, four sums of each channel
//   load   v0 16 k of A  v4-v7 16 k of each channel     v20-v23 sums of two products
//
// 16 k are 12 instructions that multiply or add, and 3 loads (of 16 or 32 bytes).
#ifndef QN_ASM_ARM64_ROW_1X4_H
#define QN_ASM_ARM64_ROW_1X4_H

.macro one_row
        ldp     q4, q5, [x5]
        ldp     q6, q7, [x5, #32]
        add     x5, x5, #64
        smull   v20.8h, v0.8b, v4.8b
        smull   v21.8h, v0.8b, v5.8b
        smull   v22.8h, v0.8b, v6.8b
        smull   v23.8h, v0.8b, v7.8b
        smlal2  v20.8h, v0.16b, v4.16b
        smlal2  v21.8h, v0.16b, v5.16b
        smlal2  v22.8h, v0.16b, v6.16b
        smlal2  v23.8h, v0.16b, v7.16b
        sadalp  v16.4s, v20.8h
        sadalp  v17.4s, v21.8h
        sadalp  v18.4s, v22.8h
        sadalp  v19.4s, v23.8h
.endm

// Adds all k, then the four sums of each channel, which are those of v16 afterwards.
.macro row_sums
        mov     x9, x3
        subs    x10, x2, #16
        b.lo    2f
1:      ldr     q0, [x9], #16
        subs    x10, x10, #16
        one_row
        b.hs    1b
2:      adds    x10, x10, #16           // the last bytes, fewer than 16, as in `singly_bytes`
        b.eq    3f
        add     x9, x9, x10
        tbz     x10, #0, 4f
        ldr     b0, [x9, #-1]!
4:      tbz     x10, #1, 4f
        sub     x9, x9, #2
        shl     v0.2d, v0.2d, #16
        ld1     {v0.h}[0], [x9]
4:      tbz     x10, #2, 4f
        sub     x9, x9, #4
        shl     v0.2d, v0.2d, #32
        ld1     {v0.s}[0], [x9]
4:      tbz     x10, #3, 4f
        sub     x9, x9, #8
        ins     v0.d[1], v0.d[0]
        ld1     {v0.d}[0], [x9]
4:      one_row
3:
        addp    v16.4s, v16.4s, v17.4s
        addp    v18.4s, v18.4s, v19.4s
        addp    v16.4s, v16.4s, v18.4s
.endm

#endif

// What depthwise tiles of bytes share: the walk over panels and, in each, over passes of two rows of C, or of one with
// stride 2.
//
//   args   rdi channels  rsi pixels  rdx rows  rcx offsets  r8 a  r9 w  [rsp+8] c  row_stride  c_stride  p  zero
//   panel  r9 W of the upper row   r14 W of the lower row   r8 a, r13 C at its channels   r12 p
//          rbx zero, any bytes of it
//   column rcx its offsets in this pass   rdi from there to the last one
//   pixel  r10 C   r11 pixels left
//   masks  k1 the channels that exist: the others are neither read nor written
//
// The rows of A that a pass needs become groups of four: a dword holds the bytes of a channel.  The weights of the lower
// row, which begin a row of A later, are those of the upper one moved by a byte, and lie in the frame.
// A kernel says how large its FRAME is.  Its whole tiles have four rows of C.
#ifndef QN_ASM_X86_DWCONV_TILE_QS8C_H
#define QN_ASM_X86_DWCONV_TILE_QS8C_H

#include "tile_avx512vnni.h"

#define CHANNELS qword ptr [rsp]        // left
#define OFFSETS qword ptr [rsp + 8]
#define PIXELS qword ptr [rsp + 16]
#define C_STRIDE qword ptr [rsp + 24]
#define ROW_STRIDE qword ptr [rsp + 32]
#define ROWS qword ptr [rsp + 40]
#define ROWS_LEFT qword ptr [rsp + 48]  // of this panel
#define FIRST qword ptr [rsp + 56]      // offsets of the first column, from the upper row of this pass on
#define C_ROW qword ptr [rsp + 64]      // its C
#define ENDS rsp + 72                   // 12 bytes
#define LOWER rsp + 88                  // weights of the lower row, in what can be aligned to 64
#define ARGS rsp + FRAME + 56           // c  row_stride  c_stride  p  zero

.macro begin_tile
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     CHANNELS, rdi
        mov     PIXELS, rsi
        mov     ROWS, rdx
        mov     OFFSETS, rcx
        mov     r13, [ARGS]
        mov     rax, [ARGS + 8]
        mov     ROW_STRIDE, rax
        mov     rax, [ARGS + 16]
        mov     C_STRIDE, rax
        mov     r12, [ARGS + 24]
        mov     rbx, [ARGS + 32]
        prepare_ends ENDS, r12, eax
.endm

.macro begin_passes
        mov     rax, ROWS
        mov     ROWS_LEFT, rax
        mov     rcx, OFFSETS
        mov     r10, r13
.endm

// Of stride 1, two rows of C need kernel + 1 rows of A.  A row alone needs one less: the last one stands for it as well.
.macro begin_pass kernel, stride
        mov     FIRST, rcx
        mov     C_ROW, r10
        .if     \stride == 1
        xor     edi, edi
        cmp     ROWS_LEFT, 2
        setae   dil
        lea     edi, [rdi * 4 + 4 * \kernel - 4]
        .endif
        mov     r11, PIXELS
.endm

// Elsewhere if the pass has one row.
.macro skip_lower kernel, to
        cmp     edi, 4 * \kernel
        jne     \to
.endm

.macro next_pixel again
        add     r10, C_STRIDE
        dec     r11
        jnz     \again
.endm

.macro next_pass stride, again
        mov     rcx, FIRST
        add     rcx, 8
        mov     r10, C_ROW
        add     r10, ROW_STRIDE
        .if     \stride == 1
        add     r10, ROW_STRIDE
        .endif
        sub     ROWS_LEFT, 3 - \stride
        ja      \again
.endm

.macro next_panel channels, w, again
        add     r9, \w
        add     r8, \channels
        add     r13, \channels
        add     r12, REQUANTIZE_SCALES + 4 * \channels
        sub     CHANNELS, \channels
        ja      \again
.endm

.macro end_tile
        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

#endif

// Gemm kernels of tiles of bytes (AMX): 256 rows x 32 channels, whatever a sum becomes.
//
//   args   rdi mr  rsi nc  rdx k  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   C      r10 stride   r12 -stride   r8 r14 what find_rows says
//   masks  k2 the bytes of a row in the first step; the others, and blocks: tile_amxint8.h
//
// A panel takes S steps of four dot products of tiles.  All steps have 16 dwords of k, if there are so many, so the one
// that ends k may begin within the step before it; there its copy of A is 0.  It is the first step:
//
//   37 dwords, S = 3     0 .. 15 | 16 .. 31 | 32 .. 36     first step: dwords 21 to 36, as eleven zeros and 32 to 36
//
// All of a block of A is copied if rows of its tiles would cross cache lines in several steps: such a tile takes 53 cycles
// to load, not 8.  A single step loads each tile once, which takes no longer than a copy.
//
// Who includes this defines, beside what tile_amxint8.h asks for,
//   C_BYTES       of an element of C
//   COPIED_STEPS  blocks with more steps are not copied, but for their first steps
//   OWN_BYTES     of scratch memory of its own, at OWN
// and these macros:
//   begin_call    rdi, rsi, rdx, rcx and r8 are still arguments, and r15 is scratch memory.  Leaves in r9 how many bytes of
//                 a row count.
//   begin_panels  no sums are stored yet
//   keep_panel    the panel at r9 has been multiplied; keeps what its sums will end with, beside its EPILOGUE
#ifndef QN_ASM_X86_GEMM_AMXINT8_H
#define QN_ASM_X86_GEMM_AMXINT8_H

// The frame, ten pages.  Scratch memory begins at a multiple of 64 bytes behind the variables; the first 16 bytes are the
// including file's own.
#define VARIABLES 272
#define FRAME 40960
#define A qword ptr [rsp + 16]          // of the block
#define A_STRIDE qword ptr [rsp + 24]
#define WEIGHTS qword ptr [rsp + 32]
#define CHANNELS qword ptr [rsp + 40]
#define LEFT qword ptr [rsp + 48]       // channels from this panel on
#define ROWS qword ptr [rsp + 56]       // rows from this block on
#define BLOCK qword ptr [rsp + 64]      // rows of a block
#define SECOND qword ptr [rsp + 72]     // the row of a block with which tile 1 begins
#define STEPS qword ptr [rsp + 80]      // of a panel, without the first one
#define STEP_A qword ptr [rsp + 88]     // bytes of a row of A in a step
#define STEP_W qword ptr [rsp + 96]     // bytes of W in a step
#define FIRST qword ptr [rsp + 104]     // from a row of A to its part of the first step
#define FIRST_W qword ptr [rsp + 112]   // from a panel to its part of the first step
#define PANEL qword ptr [rsp + 120]     // bytes of a panel
#define COPIES qword ptr [rsp + 128]    // steps to copy: 0, 1 or all of them
#define FIRST_A0 qword ptr [rsp + 136]  // the tiles of A in the first step, and their stride
#define FIRST_A1 qword ptr [rsp + 144]
#define FIRST_STRIDE qword ptr [rsp + 152]
#define NEXT_A qword ptr [rsp + 160]    // from the A of a step to that of the next one
#define C qword ptr [rsp + 168]         // of the block
#define EPILOGUE qword ptr [rsp + 176]  // of the panel
#define OTHER_A0 qword ptr [rsp + 184]  // the tiles of A in the second step, with stride rdx
#define OTHER_A1 qword ptr [rsp + 192]
#define PANEL_C qword ptr [rsp + 200]   // C of the panel
#define END_SOME qword ptr [rsp + 208]
#define STORED qword ptr [rsp + 216]
#define STORED_ROWS qword ptr [rsp + 224]
#define STORED_LEFT qword ptr [rsp + 232]
#define STORED_P qword ptr [rsp + 240]
#define STORED_C qword ptr [rsp + 248]  // their PANEL_C
#define TILE_2 qword ptr [rsp + 256]
#define ARGS rsp + FRAME + 56           // c  c_stride  p

#include "gemm.h"
#include "tile_amxint8.h"

#define STEP_BYTES 2048                 // of a copy: 32 rows of 64 bytes
#define COPY (SUMS + 2 * SUMS_BYTES)    // in scratch memory, behind the sums: the first step, then the others
#define OWN (COPY + COPIED_STEPS * STEP_BYTES)
#if VARIABLES + 64 + OWN + OWN_BYTES > FRAME
#error "the frame is too small"
#endif

// Four products, of A at rbx and rbp and W at rax.  W streams, so that A stays in the L1 cache for all panels.
.macro step between
        tileloadd tmm4, [rbx + rdx]
        tileloaddt1 tmm6, [rax + rcx]
        tdpbssd tmm0, tmm4, tmm6
        \between
        tileloaddt1 tmm7, [rax + rcx + 64]
        tdpbssd tmm1, tmm4, tmm7
        \between
        tileloadd tmm5, [rbp + rdx]
        tdpbssd tmm2, tmm5, tmm6
        \between
        tdpbssd tmm3, tmm5, tmm7
        \between
        add     rbx, NEXT_A
        add     rbp, NEXT_A
        add     rax, STEP_W
        dec     rdi
.endm

// The tiles of A in the first step.
.macro first_a
        mov     rsi, FIRST_STRIDE
        mov     rax, FIRST_A0
        tileloadd tmm4, [rax + rsi]
        mov     rax, FIRST_A1
        tileloadd tmm5, [rax + rsi]
.endm

.macro gemm_256x32 name
fn \name
        save    rbx, rbp, r12, r13, r14, r15
        frame_of_pages FRAME
        lea     r15, [rsp + VARIABLES + 63]
        and     r15, -64
        mov     A, rcx
        mov     A_STRIDE, r8
        mov     WEIGHTS, r9
        mov     CHANNELS, rsi
        mov     ROWS, rdi
        mov     rax, [ARGS]
        mov     C, rax
        begin_call

        make_blocks
        mov     SECOND, rax
        shl     rax, 7
        mov     TILE_2, rax

        lea     r10, [r9 + 3]           // dwords of k
        shr     r10, 2
        lea     r12, [r10 + 15]         // S
        shr     r12, 4
        choose_end_some r12, rdx
        mov     r11d, 16                // dwords of a step
        cmp     r10, r11
        cmovb   r11, r10

        lea     edx, [r11 * 4]
        configure dx, r11b

        mov     STEP_A, rdx
        lea     rax, [r10 + 1]
        shl     rax, 7
        mov     PANEL, rax
        mov     rax, r11
        shl     rax, 7
        mov     STEP_W, rax
        sub     r10, r11
        lea     rbx, [r10 * 4]
        mov     FIRST, rbx
        inc     r10
        shl     r10, 7
        mov     FIRST_W, r10
        lea     rsi, [r12 - 1]
        mov     STEPS, rsi
        imul    rsi, rdx
        sub     rsi, rbx                // bytes of the first step that another one has, too
        mov     rax, r9
        sub     rax, rbx                // where k ends in the first step
        mov     rdi, -1
        bzhi    rax, rdi, rax
        shrx    rax, rax, rsi
        shlx    rax, rax, rsi
        kmovq   k2, rax                 // bytes of the first step

        mov     rax, r12                // steps to copy: the first one, if steps do not divide k
        imul    rax, rdx
        xor     ebx, ebx
        cmp     rax, r9
        setne   bl
        mov     rax, rcx                // all, if rows do not begin at multiples of a line
        or      rax, r8
        test    al, 63
        jz      1f
        lea     rax, [r12 - 2]          // but for a single step
        cmp     rax, COPIED_STEPS - 2
        cmovbe  rbx, r12
1:      mov     COPIES, rbx

        begin_sums [ARGS + 16]
        begin_panels
        mov     ecx, 128
        mov     r10, [ARGS + 8]
        mov     r12, r10
        neg     r12

        // A block.
0:      mov     rdx, A_STRIDE
        mov     rbx, A
        mov     rdi, BLOCK
        sub     rdi, ROWS
        jbe     1f                      // the last block has fewer rows: it begins earlier
        mov     rsi, rdx
        imul    rsi, rdi
        sub     rbx, rsi
        imul    rdi, [ARGS + 8]
        sub     C, rdi
1:      mov     rax, FIRST
        lea     rsi, [rbx + rax]        // its tiles: the first step, and the others
        mov     FIRST_A0, rsi
        mov     rbp, SECOND
        imul    rbp, rdx
        add     rbp, rbx
        add     rax, rbp
        mov     FIRST_A1, rax
        mov     FIRST_STRIDE, rdx
        mov     rax, STEP_A
        mov     NEXT_A, rax
        mov     OTHER_A0, rbx
        mov     OTHER_A1, rbp
        cmp     COPIES, 0
        je      4f

        lea     r9, [r15 + COPY]        // a copy of the first step
        mov     FIRST_A0, r9
        mov     rax, SECOND
        shl     rax, 6
        add     rax, r9
        mov     FIRST_A1, rax
        mov     FIRST_STRIDE, 64
        mov     rdi, BLOCK
2:      vmovdqu8 zmm4{k2}{z}, [rsi]
        vmovdqa64 [r9], zmm4
        add     rsi, rdx
        add     r9, 64
        dec     rdi
        jnz     2b

        mov     rbp, COPIES             // and of all others
        dec     rbp
        jz      4f
        lea     r9, [r15 + COPY + STEP_BYTES]
2:      mov     rsi, rbx
        mov     rax, r9
        mov     rdi, BLOCK
3:      vmovdqu64 zmm4, [rsi]           // these 64 bytes are of one row, even if a step has fewer
        vmovdqa64 [rax], zmm4
        add     rsi, rdx
        add     rax, 64
        dec     rdi
        jnz     3b
        add     rbx, STEP_A
        add     r9, STEP_BYTES
        dec     rbp
        jnz     2b
        lea     rbx, [r15 + COPY + STEP_BYTES]
        mov     rbp, SECOND
        shl     rbp, 6
        add     rbp, rbx
        mov     edx, 64
        mov     NEXT_A, STEP_BYTES
        mov     OTHER_A0, rbx
        mov     OTHER_A1, rbp

4:      mov     r9, WEIGHTS
        mov     rax, CHANNELS
        mov     LEFT, rax
        mov     rax, [ARGS + 16]
        mov     EPILOGUE, rax
        mov     rax, C
        mov     PANEL_C, rax

        // A panel, whose tiles of A in the first step are there.
        first_a
1:      mov     rdi, STORED
        mov     rbp, TILE_2
        add     rbp, rdi
        mov     rax, FIRST_W
        add     rax, r9
        tileloadd tmm6, [rax + rcx]
        turn    0, rdi, 0, r9, 4, 6
        end_some
        tileloadd tmm7, [rax + rcx + 64]
        turn    1, rdi, 64, r9, 4, 7
        end_some
        turn    2, rbp, 0, r9, 5, 6
        end_some
        turn    3, rbp, 64, r9, 5, 7
        end_some

        mov     rdi, STEPS
        test    rdi, rdi
        jz      3f
        mov     rbx, OTHER_A0
        mov     rbp, OTHER_A1
        lea     rax, [r9 + 128]
        steps   4f
4:      first_a

3:      end_panel
        mov     rax, PANEL_C
        mov     STORED_C, rax
        add     rax, 32 * C_BYTES
        mov     PANEL_C, rax
        keep_panel
        add     r9, PANEL
        sub     rsi, 32
        mov     LEFT, rsi
        ja      1b

        mov     rax, BLOCK              // the next block
        mov     rdx, rax
        imul    rdx, A_STRIDE
        add     A, rdx
        mov     rdx, rax
        imul    rdx, [ARGS + 8]
        add     C, rdx
        sub     ROWS, rax
        ja      0b

        end_kernel
endfn \name
.endm

#endif

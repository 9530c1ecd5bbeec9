// C[m][n] = requantize(bias[n] + sum over k of A[m][k] * W[k][n]) of bytes, by tiles: 128 rows x 32 channels.
// Contract: src/kernel/gemm.h; panels have the format k4, sums times scales fit 32 bits
//
//   args   rdi mr  rsi nc  rdx k  rcx a  r8 a_stride  r9 w  [rsp+8] c  c_stride  p
//   masks  k1 the channels that exist   k2 the bytes of a row in the first step
//   tiles  0-3 sums: rows r and channels c of a block are tile 2r+c   4 5 A, rows 0 and 1   6 7 W, channels 0 and 1
//
// A block is up to 32 rows, half of them in each tile.  All blocks have the same number of rows; the last one begins
// within the one before it if need be, and computes some rows again.
//
// A panel takes S steps of four dot products of tiles.  All steps have the same number of dwords of k, so the one that
// ends k may begin within the step before it; there its copy of A is 0.  It is the first step:
//
//   10 dwords, S = 3     0 1 2 3 | 4 5 6 7 | 8 9     first step: dwords 6 to 9, as 0 0 8 9
//
// All of a block of A is copied if rows of its tiles would cross cache lines: these take 53 cycles to load, not 8.
//
// The sums of a panel are stored in the first step of the next one, and end between its dot products: so long as tiles
// are in use, other operations on vectors take twice as long, and most of the time is spent there.
#include "gemm.h"
#include "tile_avx512vnni.h"

#define COPIED_STEPS 15                 // blocks with more steps are not copied, but for their first steps
#define STEP_BYTES 2048                 // of a copy: 32 rows of 64 bytes

// Scratch memory, at r15.
#define SUMS 64                         // behind the configuration: 33 rows of 32 sums
#define COPY 4352                       // the first step, then the others

// The frame, nine pages.  Scratch memory begins at a multiple of 64 bytes behind the variables.
#define VARIABLES 208
#define FRAME 36864
#if VARIABLES + 64 + COPY + COPIED_STEPS * STEP_BYTES > FRAME
#error "the frame is too small"
#endif
#define ENDS rsp                        // 12 bytes
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
#define ARGS rsp + FRAME + 56           // c  c_stride  p

// Ends a pair of rows of sums, at r13: the even row of C is at r8, the odd one at r8 + r14.  Behind an odd last row is
// none: r14 is 0, and the even row is stored last, over it.  r11d pairs are left.
.macro end_two
        vmovdqa32 zmm4, [r13]
        vmovdqa32 zmm5, [r13 + 64]
        vmovdqa32 zmm6, [r13 + 128]
        vmovdqa32 zmm7, [r13 + 192]
        end_row_16 4, 5, zmm0, zmm1
        end_row_16 6, 7, zmm0, zmm1
        end_pair 4, 6
        vextracti64x4 ymm5, zmm4, 1
        vmovdqu8 [r8 + r14]{k1}, ymm5
        vmovdqu8 [r8]{k1}, ymm4
        mov     r14, r10
        sub     r8, r10
        sub     r8, r10
        sub     r13, 256
        dec     r11d
.endm

// The sums of a tile go to memory.  It begins again with the biases of the panel at r9, and its first product.
.macro turn tile, sums, place, a, w
        tilestored [\sums + rcx + \place], tmm\tile
        tileloadd tmm\tile, [r9 + \place]
        tdpbssd tmm\tile, tmm\a, tmm\w
.endm

fn qn_gemm_qs8c_128x32_amxint8
        save    rbx, rbp, r12, r13, r14, r15
        lea     rax, [rsp - FRAME]
        .cfi_def_cfa rax, FRAME + 56
1:      sub     rsp, 4096               // touches the pages in order
        or      qword ptr [rsp], 0
        cmp     rsp, rax
        ja      1b
        .cfi_def_cfa_register rsp
        lea     r15, [rsp + VARIABLES + 63]
        and     r15, -64
        mov     A, rcx
        mov     A_STRIDE, r8
        mov     WEIGHTS, r9
        mov     CHANNELS, rsi
        mov     ROWS, rdi
        mov     rax, [ARGS]
        mov     C, rax
        mov     rax, [ARGS + 16]
        prepare_ends ENDS, rax, r10d
        load_ends ENDS
        mov     r9, rdx                 // k

        lea     eax, [rdi + 31]         // rows of a block: ceil(mr / ceil(mr / 32))
        shr     eax, 5
        mov     r10d, eax
        lea     eax, [rdi + r10 - 1]
        xor     edx, edx
        div     r10d
        mov     BLOCK, rax
        lea     edi, [rax + 1]          // of tile 0
        shr     edi, 1
        mov     esi, eax                // of tile 1, at least one
        mov     edx, 1
        shr     esi, 1
        cmovz   esi, edx
        sub     eax, esi
        mov     SECOND, rax

        lea     r10, [r9 + 3]           // dwords of k
        shr     r10, 2
        lea     r12, [r10 + 15]         // S
        shr     r12, 4
        lea     rax, [r10 + r12 - 1]    // dwords of a step
        xor     edx, edx
        div     r12
        mov     r11, rax

        vpxor   xmm0, xmm0, xmm0        // shapes of tiles: bytes of a row, then the number of rows
        vmovdqa64 [r15], zmm0
        mov     byte ptr [r15], 1
        lea     edx, [r11 * 4]
        mov     eax, 0x400040
        mov     [r15 + 16], eax
        mov     [r15 + 20], eax
        mov     [r15 + 24], dx
        mov     [r15 + 26], dx
        mov     [r15 + 28], eax
        mov     [r15 + 48], dil
        mov     [r15 + 49], dil
        mov     [r15 + 50], sil
        mov     [r15 + 51], sil
        mov     [r15 + 52], dil
        mov     [r15 + 53], sil
        mov     [r15 + 54], r11b
        mov     [r15 + 55], r11b
        ldtilecfg [r15]

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
        mov     rax, rcx                // all, but if rows begin at multiples of a power of two that is their length
        or      rax, r8
        or      rax, rdx
        lea     edi, [rdx - 1]
        and     eax, edi
        jle     1f
        cmp     r12, COPIED_STEPS
        cmovbe  rbx, r12
1:      mov     COPIES, rbx

        xor     r11d, r11d
        mov     ecx, 128

        // A block.
0:      mov     rax, BLOCK
        mov     rdx, A_STRIDE
        mov     rbx, A
        mov     rdi, rax
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

        mov     r12, COPIES             // and of all others
        sub     r12, 1
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
        dec     r12
        jnz     2b
        lea     rbx, [r15 + COPY + STEP_BYTES]
        mov     rbp, SECOND
        shl     rbp, 6
        add     rbp, rbx
        mov     edx, 64
        mov     NEXT_A, STEP_BYTES
4:      mov     OTHER_A0, rbx
        mov     OTHER_A1, rbp

        mov     r9, WEIGHTS
        mov     rax, CHANNELS
        mov     LEFT, rax
        mov     rax, [ARGS + 16]
        mov     EPILOGUE, rax
        mov     rax, C
        mov     PANEL_C, rax
        mov     r12, SECOND
        shl     r12, 7
        lea     r12, [r15 + r12 + SUMS]

        // A panel.
1:      mov     rsi, FIRST_STRIDE
        mov     rax, FIRST_A0
        tileloadd tmm4, [rax + rsi]
        mov     rax, FIRST_W
        add     rax, r9
        tileloadd tmm6, [rax + rcx]
        turn    0, r15 + SUMS, 0, 4, 6
        tileloadd tmm7, [rax + rcx + 64]
        turn    1, r15 + SUMS, 64, 4, 7
        mov     rax, FIRST_A1
        tileloadd tmm5, [rax + rsi]
        turn    2, r12, 0, 5, 6
        turn    3, r12, 64, 5, 7

        mov     rdi, STEPS
        test    rdi, rdi
        jz      3f
        mov     rbx, OTHER_A0
        mov     rbp, OTHER_A1
        lea     rax, [r9 + 128]
2:      tileloadd tmm4, [rbx + rdx]
        tileloadd tmm6, [rax + rcx]
        tdpbssd tmm0, tmm4, tmm6
        tileloadd tmm7, [rax + rcx + 64]
        tdpbssd tmm1, tmm4, tmm7
        call    L(end_some)
        tileloadd tmm5, [rbp + rdx]
        tdpbssd tmm2, tmm5, tmm6
        tdpbssd tmm3, tmm5, tmm7
        call    L(end_some)
        add     rbx, NEXT_A
        add     rbp, NEXT_A
        add     rax, STEP_W
        dec     rdi
        jnz     2b

3:      test    r11d, r11d              // the rest of the sums of the panel before
        jz      4f
2:      end_two
        jnz     2b

4:      mov     rax, EPILOGUE           // this panel's sums are next
        load_scales rax
        add     rax, REQUANTIZE_SCALES + 128
        mov     EPILOGUE, rax
        mov     rsi, LEFT
        lanes   k1, rsi, esi, eax
        mov     r10, [ARGS + 8]
        mov     r11, BLOCK
        lea     r13, [r11 - 1]          // the last even row
        and     r13, -2
        mov     r8, r13
        imul    r8, r10
        add     r8, PANEL_C
        shl     r13, 7
        lea     r13, [r15 + r13 + SUMS]
        xor     r14d, r14d
        test    r11d, 1
        cmovz   r14, r10
        inc     r11d
        shr     r11d, 1
        add     PANEL_C, 32
        add     r9, PANEL
        sub     rsi, 32
        mov     LEFT, rsi
        ja      1b

        mov     rax, BLOCK              // the next block
        mov     rdx, rax
        imul    rdx, A_STRIDE
        add     A, rdx
        mov     rdx, rax
        imul    rdx, r10
        add     C, rdx
        sub     ROWS, rax
        ja      0b

        tilestored [r15 + rcx + SUMS], tmm0
        tilestored [r15 + rcx + SUMS + 64], tmm1
        tilestored [r12 + rcx], tmm2
        tilestored [r12 + rcx + 64], tmm3
1:      end_two
        jnz     1b

        tilerelease
        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret

L(end_some):                            // up to two pairs of rows of the panel before
        test    r11d, r11d
        jz      1f
        end_two
        jz      1f
        end_two
1:      ret
endfn qn_gemm_qs8c_128x32_amxint8

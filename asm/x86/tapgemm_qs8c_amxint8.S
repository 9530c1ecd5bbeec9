// C(m)[n] = requantize(bias[n] + sum over taps t, bytes k of A(t, m)[k] * W[t][k][n]), by tiles: 256 rows x 32 channels.
// Contract: src/kernel/tapgemm.h; panels have the format k4, sums times scales fit 32 bits
//
//   args   rdi mr  rsi nc  rdx kc  rcx ks  r8 offsets  r9 a  [rsp+8] a_stride  w  c  p
//   A      rbx the block's row 0   rbp from the rows of tile 0 to those of tile 1   rdx stride
//   taps   r9 the end of offsets   rdi from -ks up to 0
//   C      r8 addresses of a pair of rows   r12 from the first address to the second one   r10 from an address to the
//          channels of the panel
//   masks  and blocks: tile_amxint8.h
//
// A tap is a step of four dot products of tiles.

// The frame, three pages.  Scratch memory begins at a multiple of 64 bytes behind the variables.
#define VARIABLES 208
#define FRAME 12288
#define ENDS rsp                        // 12 bytes
#define A qword ptr [rsp + 16]          // of the block
#define C qword ptr [rsp + 24]          // addresses of the rows of the block
#define WEIGHTS qword ptr [rsp + 32]
#define CHANNELS qword ptr [rsp + 40]
#define LEFT qword ptr [rsp + 48]       // channels from this panel on
#define ROWS qword ptr [rsp + 56]       // rows from this block on
#define BLOCK qword ptr [rsp + 64]
#define TILE_2 qword ptr [rsp + 72]
#define MINUS_TAPS qword ptr [rsp + 80]
#define STEP_W qword ptr [rsp + 88]     // bytes of W in a step
#define PANEL qword ptr [rsp + 96]      // bytes of a panel
#define PANEL_W qword ptr [rsp + 104]   // the panel
#define CHANNEL qword ptr [rsp + 112]   // its first channel
#define EPILOGUE qword ptr [rsp + 120]
#define END_SOME qword ptr [rsp + 128]
#define STORED qword ptr [rsp + 136]
#define STORED_ROWS qword ptr [rsp + 144]
#define STORED_LEFT qword ptr [rsp + 152]
#define STORED_P qword ptr [rsp + 160]
#define STORED_C qword ptr [rsp + 168]  // their C and CHANNEL
#define STORED_CHANNEL qword ptr [rsp + 176]
#define ARGS rsp + FRAME + 56           // a_stride  w  c  p

#include "gemm.h"
#include "requantize_amxint8.h"

#if VARIABLES + 64 + SUMS + 2 * SUMS_BYTES > FRAME
#error "the frame is too small"
#endif

// Behind an odd last row is none: r12 is 0, and the even row is stored last, over it.
.macro find_rows
        mov     r10, STORED_CHANNEL
        mov     r8, STORED_C
        lea     r8, [r8 + r13 * 8]
        xor     r12d, r12d
        mov     eax, 8
        test    r11d, 1
        cmovz   r12d, eax
.endm

.macro store_rows
        mov     r14, [r8 + r12]
        vmovdqu8 [r14 + r10]{k1}, ymm5
        mov     r14, [r8]
        vmovdqu8 [r14 + r10]{k1}, ymm4
        mov     r12d, 8
        sub     r8, 16
.endm

// Four products.  W streams, so that A stays in the L1 cache for all panels.
.macro step between
        mov     rsi, [r9 + rdi * 8]
        add     rsi, rbx
        tileloadd tmm4, [rsi + rdx]
        tileloaddt1 tmm6, [rax + rcx + 128]
        tdpbssd tmm0, tmm4, tmm6
        \between
        tileloaddt1 tmm7, [rax + rcx + 192]
        tdpbssd tmm1, tmm4, tmm7
        \between
        add     rsi, rbp
        tileloadd tmm5, [rsi + rdx]
        tdpbssd tmm2, tmm5, tmm6
        \between
        tdpbssd tmm3, tmm5, tmm7
        \between
        add     rax, STEP_W
        inc     rdi
.endm

fn qn_tapgemm_qs8c_256x32_amxint8
        save    rbx, rbp, r12, r13, r14, r15
        frame_of_pages FRAME
        lea     r15, [rsp + VARIABLES + 63]
        and     r15, -64
        mov     CHANNELS, rsi
        mov     ROWS, rdi
        mov     A, r9
        mov     rax, [ARGS + 8]
        mov     WEIGHTS, rax
        mov     rax, [ARGS + 16]
        mov     C, rax
        mov     rax, [ARGS + 24]
        prepare_ends ENDS, rax, r10d
        load_ends ENDS

        lea     r9, [r8 + rcx * 8]      // the end of the offsets
        mov     rax, rcx
        neg     rax
        mov     MINUS_TAPS, rax
        choose_end_some rcx, r10
        mov     r8, rdx                 // kc
        shl     rdx, 5                  // kc / 4 rows of 128 bytes
        mov     STEP_W, rdx
        imul    rcx, rdx
        add     rcx, 128
        mov     PANEL, rcx

        make_blocks
        mov     rbp, [ARGS]
        imul    rbp, rax
        shl     rax, 7
        mov     TILE_2, rax

        mov     r10d, r8d
        shr     r10d, 2
        configure r8w, r10b

        begin_sums [ARGS + 24]
        mov     ecx, 128
        mov     rdx, [ARGS]

        // A block.
0:      mov     rbx, A
        mov     rdi, BLOCK
        sub     rdi, ROWS
        jbe     1f                      // the last block has fewer rows: it begins earlier
        mov     rsi, rdx
        imul    rsi, rdi
        sub     rbx, rsi
        shl     rdi, 3
        sub     C, rdi
1:      mov     rax, WEIGHTS
        mov     PANEL_W, rax
        mov     rsi, CHANNELS
        mov     LEFT, rsi
        mov     rsi, [ARGS + 24]
        mov     EPILOGUE, rsi
        mov     CHANNEL, 0

        // A panel.
1:      mov     rdi, MINUS_TAPS
        mov     rsi, [r9 + rdi * 8]
        add     rsi, rbx
        tileloadd tmm4, [rsi + rdx]
        add     rsi, rbp
        tileloadd tmm5, [rsi + rdx]
        mov     rsi, STORED
        tileloaddt1 tmm6, [rax + rcx + 128]
        turn    0, rsi, 0, rax, 4, 6
        end_some
        tileloaddt1 tmm7, [rax + rcx + 192]
        turn    1, rsi, 64, rax, 4, 7
        end_some
        add     rsi, TILE_2
        turn    2, rsi, 0, rax, 5, 6
        end_some
        turn    3, rsi, 64, rax, 5, 7
        end_some
        add     rax, STEP_W
        inc     rdi
        jz      3f
        steps   3f

3:      end_panel
        mov     rax, C
        mov     STORED_C, rax
        mov     rax, CHANNEL
        mov     STORED_CHANNEL, rax
        add     rax, 32
        mov     CHANNEL, rax
        mov     rax, PANEL_W
        add     rax, PANEL
        mov     PANEL_W, rax
        sub     rsi, 32
        mov     LEFT, rsi
        ja      1b

        mov     rax, BLOCK              // the next block
        mov     rsi, rax
        imul    rsi, rdx
        add     A, rsi
        lea     rsi, [rax * 8]
        add     C, rsi
        sub     ROWS, rax
        ja      0b

        end_kernel
endfn qn_tapgemm_qs8c_256x32_amxint8

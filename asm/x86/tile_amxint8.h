// Tiles of bytes (AMX): what kernels of 256 rows x 32 channels share.
//
//   tiles  0-3 sums: rows r and channels c of a block are tile 2r+c   4 5 A, rows 0 and 1   6 7 W, channels 0 and 1
//   rcx    128: from one row of sums, or of W, to the next   r15 scratch memory, which begins with the configuration
//   ends   r13 sums of a pair of rows   r11d pairs that are left   zmm0-3 zmm28-31 what they end with   zmm4-7 free
//   masks  k1 the channels that exist   k3-k7 free
//
// A block is up to 32 rows, half of them in each tile.  All blocks have the same number of rows; the last one begins
// within the one before it if need be, and computes some rows again.
//
// The sums of a panel are stored in the first step of the next one, and end between the dot products of the one after.
// So long as tiles are in use, other operations on vectors take twice as long, and most of the time is spent there.  Sums
// do not end sooner, because a load of what a tile has just stored waits for all stores before it.
//
// A kernel has six registers on its stack, a frame, and in it
//   BLOCK EPILOGUE LEFT   rows of a block, the epilogue of the panel at hand, the channels from this panel on
//   TILE_2                bytes from the sums of tile 0 to those of tile 2
//   END_SOME              the function that ends as many pairs of rows as end between two dot products
//   STORED STORED_ROWS    where the sums of tiles are stored next, and how many rows; none in the first panel
//   STORED_P STORED_LEFT  their EPILOGUE and LEFT
// and these macros:
//   begin_tile    sums begin, with what the panel holds for it or with 0
//   find_rows     says where the rows of C are that STORED_ROWS counts, given the last even one in r13
//   step          the products of a step, with its argument between them; flags say whether more steps follow
//   load_channels loads what the sums of a panel end with, given its epilogue
//   next_channels goes on to the epilogue of the next panel
//   end_two       ends the pair of rows at r13, stores it, and goes on to the pair before it.  Microcode of tiles takes
//                 half of what the processor decodes, so few instructions matter here.
#ifndef QN_ASM_X86_TILE_AMXINT8_H
#define QN_ASM_X86_TILE_AMXINT8_H

#include "tile_avx512vnni.h"

// Scratch memory: behind the configuration twice the sums, 33 rows of 32.
#define SUMS 64
#define SUMS_BYTES 4224

// A frame that may be larger than a page: touches its pages in order.
.macro frame_of_pages bytes
        lea     rax, [rsp - \bytes]
        .cfi_def_cfa rax, \bytes + 56
1:      sub     rsp, 4088
        push    rax
        cmp     rsp, rax
        ja      1b
        .cfi_def_cfa_register rsp
.endm

// edi rows in blocks of ceil(mr / ceil(mr / 32)).  edi and esi are those of tiles 0 and 1, eax the row of a block with
// which tile 1 begins.
.macro make_blocks
        lea     eax, [rdi + 31]
        shr     eax, 5
        mov     r10d, eax
        lea     eax, [rdi + r10 - 1]
        xor     edx, edx
        div     r10d
        mov     BLOCK, rax
        lea     edi, [rax + 1]
        shr     edi, 1
        mov     esi, eax
        mov     edx, 1
        shr     esi, 1
        cmovz   esi, edx                // at least one
        sub     eax, esi
.endm

// The shapes of tiles: bytes of a row, which are 64 but for A, then the number of rows.
.macro configure bytes_of_a, rows_of_w
        vpxor   xmm0, xmm0, xmm0
        vmovdqa64 [r15], zmm0
        mov     byte ptr [r15], 1
        mov     eax, 0x400040
        mov     [r15 + 16], eax
        mov     [r15 + 20], eax
        mov     [r15 + 24], \bytes_of_a
        mov     [r15 + 26], \bytes_of_a
        mov     [r15 + 28], eax
        mov     [r15 + 48], dil
        mov     [r15 + 49], dil
        mov     [r15 + 50], sil
        mov     [r15 + 51], sil
        mov     [r15 + 52], dil
        mov     [r15 + 53], sil
        mov     [r15 + 54], \rows_of_w
        mov     [r15 + 55], \rows_of_w
        ldtilecfg [r15]
.endm

// ---- the end of sums

// The functions that end 4, 3, 2 or 1 pairs, if there are so many, and all that are left.  Behind the kernel.
.macro end_up_to pairs
L(end_\pairs):
        test    r11d, r11d
        jz      L(end_none)
        end_two
.endm

.macro end_functions
        end_up_to 4
        end_up_to 3
        end_up_to 2
        end_up_to 1
L(end_none):
        ret

L(end_all):
        test    r11d, r11d
        jz      2f
1:      end_two
        jnz     1b
2:      ret
.endm

.macro end_some
        notrack call END_SOME
.endm

// END_SOME for panels of so many steps: at least 16 pairs end between their 4 dot products each.
.macro choose_end_some steps, scratch
        xor     eax, eax
        mov     \scratch, 4
        sub     \scratch, \steps
        cmovb   \scratch, rax
        lea     rax, [rip + L(end_1)]
        lea     r11, [rip + L(end_2)]
        sub     r11, rax
        imul    \scratch, r11
        add     rax, \scratch
        mov     END_SOME, rax
.endm

// No sums are stored yet.
.macro begin_sums p
        xor     r11d, r11d
        mov     STORED_ROWS, r11
        mov     rax, \p
        mov     STORED_P, rax
        lea     rax, [r15 + SUMS]
        mov     STORED, rax
.endm

// The sums that are stored are the next ones to end, from the last pair of rows on.
.macro begin_ends
        mov     rax, STORED_P
        load_channels rax
        mov     rsi, STORED_LEFT
        lanes   k1, rsi, esi, eax
        mov     r11, STORED_ROWS
        lea     r13, [r11 - 1]
        and     r13, -2
        find_rows
        shl     r13, 7
        add     r13, STORED
        inc     r11d
        shr     r11d, 1
.endm

// After the last step of a panel: all sums before those that are stored have ended.  The panel's own are stored next.
// Leaves its LEFT in rsi.
.macro end_panel
        begin_ends
        lea     rax, [r15 * 2 + 2 * SUMS + SUMS_BYTES]
        sub     rax, STORED
        mov     STORED, rax             // the other place
        mov     rax, BLOCK
        mov     STORED_ROWS, rax
        mov     rsi, LEFT
        mov     STORED_LEFT, rsi
        mov     rax, EPILOGUE
        mov     STORED_P, rax
        next_channels rax
        mov     EPILOGUE, rax
.endm

// After the last panel.
.macro end_sums
        call    L(end_all)
        mov     rsi, STORED
        tilestored [rsi + rcx], tmm0
        tilestored [rsi + rcx + 64], tmm1
        add     rsi, TILE_2
        tilestored [rsi + rcx], tmm2
        tilestored [rsi + rcx + 64], tmm3
        begin_ends
        call    L(end_all)
.endm

// The sums of a tile, at `sums`, are stored.  The tile begins again, for the panel at `panel`, with its first product.
.macro turn tile, sums, place, panel, a, w
        tilestored [\sums + rcx + \place], tmm\tile
        begin_tile \tile, \panel, \place
        tdpbssd tmm\tile, tmm\a, tmm\w
.endm

// The steps of a panel but for the first one, then on to `done`, which stands behind them: sums end until none are left.
.macro steps done
2:      test    r11d, r11d
        jz      2f
        step    end_some
        jnz     2b
        jmp     \done
2:      step
        jnz     2b
.endm

// After the last block: to the end of the kernel, and the functions behind it.
.macro end_kernel
        end_sums
        tilerelease
        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret

        end_functions
.endm

#endif

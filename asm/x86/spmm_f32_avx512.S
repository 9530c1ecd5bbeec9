// C[n][p] = clamp(start[n][p] + sum over the stored k of W[n][k] * A[k][p]), 64 pixels.  Contract: src/kernel/spmm.h
//
//   args   rdi pixels  rsi sets  rdx set  rcx index  r8 w  r9 a  [rsp+8] a_stride  c  c_stride  bias  p
//   keep   r12 a_stride  r14 c_stride     zmm30 min  zmm31 max
//
// There is a variant for each width: V vectors, or those and one pixel more, which takes the place of a vector in the
// sums of the channels of a block.  A jump at the start chooses it for all sets.
#include "spmm_avx512.h"

#define ARGS rsp + 64                   // a_stride  c  c_stride  bias  p
#define CLAMPS rsp + 4                  // 0: from -infinity to infinity, which takes no instructions

.macro begin
        save    rbx, rbp, r12, r13, r14, r15, rdi
        mov     r12, [ARGS]
        mov     r14, [ARGS + 16]
        mov     rax, [ARGS + 32]
        vbroadcastss zmm30, dword ptr [rax + MINMAX_MIN]
        vbroadcastss zmm31, dword ptr [rax + MINMAX_MAX]
        mov     ebx, [rax + MINMAX_MIN]
        mov     ebp, [rax + MINMAX_MAX]
        xor     ebx, 0xff800000
        xor     ebp, 0x7f800000
        or      ebx, ebp
        mov     [CLAMPS], ebx
.endm

.macro end
        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15, rdi
        ret
.endm

// Where the variant with V vectors, and maybe one pixel more, begins.
.macro entry_with_one name
        mov     eax, edi                // 16 q + r pixels: place 2 q + min(r, 2), counted from 1
        shr     eax, 4
        add     eax, eax
        and     edi, 15
        cmp     edi, 1
        sbb     eax, -1
        cmp     edi, 2
        sbb     eax, -1
        entry   rdi, rax, \name, rbx
.endm

.macro clamp acc
        vmaxps  zmm\acc, zmm30, zmm\acc // a NaN in the second operand is the result
        vminps  zmm\acc, zmm31, zmm\acc
.endm

.macro clamp_vectors V, acc
        .set    v, 0
        .rept   \V
        clamp   %(\acc + v)
        .set    v, v + 1
        .endr
.endm

// The same for R = 2 or 4 channels side by side: their biases are at r10, their C at rdi, three c_strides are r13.
// Channel r has zmm(4 r) .., and of one pixel more a lane of xmm24.

.macro channels_from_bias R, V, one
        .if     \V
        from_bias \V, 0, r10
        from_bias \V, 4, r10+4
        .if     \R == 4
        from_bias \V, 8, r10+8
        from_bias \V, 12, r10+12
        .endif
        .endif
        .if     \one
        .if     \R == 4
        vmovups xmm24, [r10]
        .else
        vmovsd  xmm24, qword ptr [r10]
        .endif
        .endif
.endm

.macro channels_from_c R, V, one
        .if     \V
        from_c  \V, 0, rdi
        from_c  \V, 4, rdi+r14
        .if     \R == 4
        from_c  \V, 8, rdi+r14*2
        from_c  \V, 12, rdi+r13
        .endif
        .endif
        .if     \one
        vmovss  xmm24, dword ptr [rdi + 64 * \V]
        vinsertps xmm24, xmm24, dword ptr [rdi + r14 + 64 * \V], 0x10
        .if     \R == 4
        vinsertps xmm24, xmm24, dword ptr [rdi + r14 * 2 + 64 * \V], 0x20
        vinsertps xmm24, xmm24, dword ptr [rdi + r13 + 64 * \V], 0x30
        .endif
        .endif
.endm

.macro channels_to_c R, V, one
        cmp     dword ptr [CLAMPS], 0
        jbe     6f
        .if     \V
        clamp_vectors \V, 0
        clamp_vectors \V, 4
        .if     \R == 4
        clamp_vectors \V, 8
        clamp_vectors \V, 12
        .endif
        .endif
        .if     \one
        vmaxps  xmm24, xmm30, xmm24
        vminps  xmm24, xmm31, xmm24
        .endif
6:
        .if     \V
        to_c    \V, 0, rdi
        to_c    \V, 4, rdi+r14
        .if     \R == 4
        to_c    \V, 8, rdi+r14*2
        to_c    \V, 12, rdi+r13
        .endif
        .endif
        .if     \one
        vmovss  dword ptr [rdi + 64 * \V], xmm24
        vextractps dword ptr [rdi + r14 + 64 * \V], xmm24, 1
        .if     \R == 4
        vextractps dword ptr [rdi + r14 * 2 + 64 * \V], xmm24, 2
        vextractps dword ptr [rdi + r13 + 64 * \V], xmm24, 3
        .endif
        .endif
.endm

.macro product acc, in
        vfmadd231ps zmm\acc, zmm20, zmm\in
.endm

// ---- csr: two channels.  V and ONE (one pixel more) are assembly variables.
//
//   set    rdi C of f  rbp C of s  r10 r11 their biases
//   step   r11d steps left  r10d places  rax rbx r13 r15 rows of A
//   acc    f: zmm0 ..  s: zmm4 ..     load  zmm16 four W  zmm17 .. one each     one pixel more: xmm(V), xmm(4 + V)
//
// A step with V = 4 is 16 FMAs (8 cycles) and 19 loads (9.5 cycles): one for its four weights, one for their places, one
// that fetches weights.  Rows of A are found a step before their products, for the first step of the next set, too.

.macro multiply acc, w, at, v
        vfmadd231ps zmm\acc, zmm\w, [\at + 64 * \v]
.endm

.macro one_multiplied acc, w, at, v
        vfmadd231ss xmm\acc, xmm\w, dword ptr [\at + 64 * \v]
.endm

.macro one_fetched acc, at, v
        vmovss  xmm\acc, dword ptr [\at + 64 * \v]
.endm

.macro one_clamped acc
        vmaxss  xmm\acc, xmm30, xmm\acc
        vminss  xmm\acc, xmm31, xmm\acc
.endm

.macro one_stored acc, at, v
        vmovss  dword ptr [\at + 64 * \v], xmm\acc
.endm

.macro csr_from_bias acc, at
        .if     V
        from_bias V, \acc, \at
        .endif
        .if     ONE
        one_fetched %(\acc + V), \at, 0
        .endif
.endm

.macro csr_from_c acc, at
        from_c  V, \acc, \at
        .if     ONE
        one_fetched %(\acc + V), \at, %V
        .endif
.endm

.macro csr_clamp acc
        clamp_vectors V, \acc
        .if     ONE
        one_clamped %(\acc + V)
        .endif
.endm

.macro csr_to_c acc, at
        to_c    V, \acc, \at
        .if     ONE
        one_stored %(\acc + V), \at, %V
        .endif
.endm

.macro csr_products acc, i, w, row
        vpermilps zmm\w, zmm16, 0x55 * \i
        .set    v, 0
        .rept   V
        multiply %(\acc + v), \w, \row, %v
        .set    v, v + 1
        .endr
        .if     ONE
        one_multiplied %(\acc + V), \w, \row, %V
        .endif
.endm

.macro csr_entry acc, i, low, row
        csr_products \acc, \i, %(17 + \i), \row
        csr_find \i, \low, \row
.endm

.macro csr width, one
        .set    V, \width
        .set    ONE, \one
L(csr\width\one):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        movzx   ebp, word ptr [rdx + SPMM_SET_SECOND]
        mov     r11, [ARGS + 24]        // bias
        lea     r10, [r11 + rdi * 4]
        imul    rdi, r14
        add     rdi, [ARGS + 8]         // c
        test    r11, r11
        lea     r11, [r11 + rbp * 4]
        jz      1f
        csr_from_bias 0, r10
        csr_from_bias 4, r11
        imul    rbp, r14
        add     rbp, [ARGS + 8]
        jmp     2f
1:      imul    rbp, r14
        add     rbp, [ARGS + 8]
        csr_from_c 0, rdi
        csr_from_c 4, rbp
2:      movzx   r11d, word ptr [rdx + SPMM_SET_STEPS]
        add     rdx, SPMM_SET_BYTES
        test    r11d, r11d
        jz      4f
        .p2align 5
3:      csr_places
        vbroadcastf32x4 zmm16, [r8]
        csr_entry 0, 0, eax, rax
        csr_entry 4, 1, ebx, rbx
        csr_entry 0, 2, r13d, r13
        csr_entry 4, 3, r15d, r15
        add     r8, 16
        prefetcht0 [r8 + AHEAD]
        dec     r11d
        jnz     3b
4:      cmp     dword ptr [CLAMPS], 0
        jbe     6f
        csr_clamp 4
        csr_clamp 0
6:      csr_to_c 4, rbp
        csr_to_c 0, rdi
        dec     rsi
        jnz     0b
        jmp     L(csr_end)
.endm

        rodata
        places  csr, 01, 10, 11, 20, 21, 30, 31, 40

fn qn_spmm_f32_csr_64x2_avx512
        begin
        entry_with_one csr
        csr_places
        csr_find 0, eax, rax
        csr_find 1, ebx, rbx
        csr_find 2, r13d, r13
        csr_find 3, r15d, r15
        enter   rdi
        .irp    vectors, 4, 3, 2, 1
        csr     \vectors, 0
        .endr
        .irp    vectors, 3, 2, 1, 0
        csr     \vectors, 1
        .endr
L(csr_end):
        end
endfn qn_spmm_f32_csr_64x2_avx512

// ---- csr: four channels, which lie side by side.  V and ONE (one pixel more) are assembly variables.
//
//   set    rdi C of the channels  r10 their biases  r13 3 c_strides  rcx numbers of entries, then index
//   step   eax entries left of the pattern  rbp index  r8 W  r11 row of A
//   acc    channel r: zmm(4 r) ..     load  zmm16 .. A  zmm20 W     one pixel more: xmm24 acc  xmm25 A  xmm26 W  k1
//
// An entry of m channels with V = 4 is 4 m FMAs (2 m cycles) and m + 6 loads: one for its place, one that fetches
// weights.  The sums of the one pixel more are one for each channel, in one vector; its lanes of the others must not
// change, lest infinity times nothing becomes a NaN.

.macro begin_pattern bits
        .if     ONE * (4 - weights)
        mov     r11d, \bits
        kmovw   k1, r11d
        .endif
.endm

.macro find_entry
        .set    v, 0
        .rept   V
        fetch   %(16 + v), r11, %v
        .set    v, v + 1
        .endr
        .if     ONE
        vbroadcastss xmm25, dword ptr [r11 + 64 * V]
        .if     weights == 1
        vfmadd231ps xmm24{k1}, xmm25, dword ptr [r8]{1to4}
        .elseif weights == 4
        vfmadd231ps xmm24, xmm25, [r8]
        .else
        vexpandps xmm26{k1}{z}, [r8]
        vfmadd231ps xmm24{k1}, xmm25, xmm26
        .endif
        .endif
        .if     V / 3
        prefetcht0 [r8 + AHEAD]
        .endif
.endm

.macro entry_products r, w
        .if     V
        vbroadcastss zmm20, dword ptr [r8 + 4 * \w]
        .endif
        .set    v, 0
        .rept   V
        product %(4 * \r + v), %(16 + v)
        .set    v, v + 1
        .endr
.endm

.macro fours width, one
        .set    V, \width
        .set    ONE, \one
L(fours\width\one):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        mov     rax, [ARGS + 24]        // bias
        lea     r10, [rax + rdi * 4]
        imul    rdi, r14
        add     rdi, [ARGS + 8]         // c
        test    rax, rax
        jz      1f
        channels_from_bias 4, \width, \one
        jmp     2f
1:      channels_from_c 4, \width, \one
2:      csr_patterns
        channels_to_c 4, \width, \one
        add     rdx, SPMM_SET_BYTES
        dec     rsi
        jnz     0b
        jmp     L(fours_end)
.endm

        rodata
        places  fours, 01, 10, 11, 20, 21, 30, 31, 40

fn qn_spmm_f32_csr_64x4_avx512
        begin
        lea     r13, [r14 + r14 * 2]
        entry_with_one fours
        enter   rdi
        .irp    vectors, 4, 3, 2, 1
        fours   \vectors, 0
        .endr
        .irp    vectors, 3, 2, 1, 0
        fours   \vectors, 1
        .endr
L(fours_end):
        end
endfn qn_spmm_f32_csr_64x4_avx512

// ---- b1xN: R = 2 or 4 channels at a time, N / R times with the same index.
//
//   set    rdi C of R channels  r10 their biases or 0  r8 their W     [rsp] times left  r13 3 c_strides
//   step   eax steps left  rbp index  rbx W  r11 row of A  r15 row of A eight steps on, to come from the L2 cache
//   acc    channel r: zmm(4 r) ..     load  zmm16 .. A  zmm20 W     one pixel more: xmm24 acc  xmm25 A  xmm26 W
//
// A step with R = V = 4 is 16 FMAs (8 cycles) and 15 loads, prefetches among them.  The sums of the one pixel more are one for each channel, in
// one vector.

.macro products V, acc, r
        vbroadcastss zmm20, dword ptr [rbx + 4 * \r]
        .set    v, 0
        .rept   \V
        product %(\acc + v), %(16 + v)
        .set    v, v + 1
        .endr
.endm

.macro fetch_ahead v
        prefetcht0 [r15 + 64 * \v]
.endm

.macro blocks name, N, R, V, one
        .set    again, \N - \R
        .set    ahead, \R * \V >= 12
L(\name\V\one):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        mov     rax, [ARGS + 24]        // bias
        lea     r10, [rax + rdi * 4]
        test    rax, rax
        cmovz   r10, rax
        imul    rdi, r14
        add     rdi, [ARGS + 8]         // c
        .if     again
        mov     dword ptr [rsp], \N / \R
        .endif
5:      test    r10, r10
        jz      1f
        channels_from_bias \R, \V, \one
        .if     again
        add     r10, 16
        .endif
        jmp     2f
1:      channels_from_c \R, \V, \one
2:      mov     rbp, rcx
        mov     rbx, r8
        movzx   eax, word ptr [rdx + SPMM_SET_STEPS]
        test    eax, eax
        jz      4f
        .if     (\V - 1) * (\V - 2)     // the others are tails
        .p2align 5
        .endif
3:      movzx   r11d, word ptr [rbp]
        .if     ahead
        movzx   r15d, word ptr [rbp + 2 * 8]
        imul    r15, r12
        add     r15, r9
        .endif
        add     rbp, 2
        imul    r11, r12
        add     r11, r9
        .set    v, 0
        .rept   \V
        fetch   %(16 + v), r11, %v
        .if     ahead
        fetch_ahead %v
        .endif
        .set    v, v + 1
        .endr
        .if     \V
        products \V, 0, 0
        products \V, 4, 1
        .if     \R == 4
        products \V, 8, 2
        products \V, 12, 3
        .endif
        .endif
        .if     \one
        vbroadcastss xmm25, dword ptr [r11 + 64 * \V]
        .if     \R == 4
        vfmadd231ps xmm24, xmm25, [rbx]
        .else
        vmovsd  xmm26, qword ptr [rbx]
        vfmadd231ps xmm24, xmm25, xmm26
        .endif
        .endif
        add     rbx, 4 * \N
        .if     (\V - 1) * (\V - 2)
        prefetcht0 [rbx + AHEAD]
        .endif
        dec     eax
        jnz     3b
4:      channels_to_c \R, \V, \one
        .if     again
        lea     rdi, [rdi + r14 * 4]
        add     r8, 16
        dec     dword ptr [rsp]
        jnz     5b
        .endif
        lea     r8, [rbx - 4 * again]
        mov     rcx, rbp
        add     rdx, SPMM_SET_BYTES
        dec     rsi
        jnz     0b
        jmp     L(\name\()_end)
.endm

        rodata
        places  two, 01, 10, 20, 30, 40

fn qn_spmm_f32_b1x2_64x2_avx512
        begin
        entry_vectors two
        enter   rdi
        blocks  two, 2, 2, 4, 0
        blocks  two, 2, 2, 3, 0
        blocks  two, 2, 2, 2, 0
        blocks  two, 2, 2, 1, 0
        blocks  two, 2, 2, 0, 1
L(two_end):
        end
endfn qn_spmm_f32_b1x2_64x2_avx512

.macro by_four name, N
        rodata
        places  \name, 01, 10, 11, 20, 21, 30, 31, 40

fn qn_spmm_f32_b1x\N\()_64x\N\()_avx512
        begin
        lea     r13, [r14 + r14 * 2]
        entry_with_one \name
        enter   rdi
        .irp    vectors, 4, 3, 2, 1
        blocks  \name, \N, 4, \vectors, 0
        .endr
        .irp    vectors, 3, 2, 1, 0
        blocks  \name, \N, 4, \vectors, 1
        .endr
L(\name\()_end):
        end
endfn qn_spmm_f32_b1x\N\()_64x\N\()_avx512
.endm

        by_four four, 4
        by_four eight, 8
        by_four sixteen, 16

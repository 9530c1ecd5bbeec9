// C[n][p] = clamp(start[n][p] + sum over the stored k of W[n][k] * A[k][p]), 48 or 24 pixels.
// Contract: src/kernel/spmm.h
//
//   args   rdi pixels  rsi sets  rdx set  rcx index  r8 w  r9 a  [rsp+8] a_stride  c  c_stride  bias  p
//   keep   r12 a_stride  r14 c_stride
//
// There is a variant for each width: V vectors, or those and one pixel more, which takes the place of a vector in the
// sums of the channels of a block.  A jump at the start chooses it for all sets.  V, ONE, APART (accumulators from one
// channel to the next), and for blocks N and R are assembly variables.
//
// The rows of a step are found while the one before it multiplies, be it of another set, so that their loads can begin at
// once: csr gains a tenth.  Nobody asks whether there is a next step; hence the indices that are read beyond the last.
#include "spmm.h"

#define ARGS rsp + 56                   // a_stride  c  c_stride  bias  p

        .altmacro

.macro begin
        save    rbx, rbp, r12, r13, r14, r15
        mov     r12, [ARGS]
        mov     r14, [ARGS + 16]
.endm

.macro end name
L(\name\()_end):
        .cfi_remember_state
        vzeroupper
        restore rbx, rbp, r12, r13, r14, r15
        ret
        .cfi_restore_state
.endm

// After a set: the next one, or the end.
.macro next_set name
        add     rdx, SPMM_SET_BYTES
        dec     rsi
        jnz     0b
        jmp     L(\name\()_end)
.endm

// Jumps to variant 0 for one pixel, to V for up to 8 V of them.
.macro enter_vectors name
        lea     eax, [rdi + 7]
        shr     eax, 3
        cmp     edi, 2
        sbb     eax, -1
        entry   rdi, rax, \name, rbx
.endm

// A macro for the accumulators first .. first+V-1 of one channel and the numbers 0 .. V-1 of their vectors.
.macro vectors do, first, at:vararg
        .set    v, 0
        .rept   V
        .ifb    \at                     // clang counts an empty argument, too
        \do     %(\first + v), %v
        .else
        \do     %(\first + v), %v, \at
        .endif
        .set    v, v + 1
        .endr
.endm

.macro fetch acc, v, at
        vmovups ymm\acc, [\at + 32 * \v]
.endm

.macro everywhere acc, v, at
        vbroadcastss ymm\acc, dword ptr [\at]
.endm

.macro get_range at
        mov     \at, [ARGS + 32]
        vbroadcastss ymm14, dword ptr [\at + MINMAX_MIN]
        vbroadcastss ymm15, dword ptr [\at + MINMAX_MAX]
.endm

.macro clamp_store acc, v, at
        vmaxps  ymm\acc, ymm14, ymm\acc // a NaN in the second operand is the result
        vminps  ymm\acc, ymm15, ymm\acc
        vmovups [\at + 32 * \v], ymm\acc
.endm

// ---- csr: two channels.
//
//   set    rdi C of f  rbp C of s
//   step   r11d steps left  r10d places  rax rbx r13 r15 rows of A
//   acc    f: ymm0 ..  s: ymm(APART) ..     load  ymm12 four W  ymm13 one     then ymm14 min  ymm15 max
//
// A step with V = 6 is 24 FMAs (12 cycles) and 26 loads (13 cycles): one for its four weights, one for their places.

.macro csr_start acc, bias
        .if     V
        vectors everywhere, \acc, \bias
        .else
        vmovss  xmm\acc, dword ptr [\bias]
        .endif
.endm

.macro csr_resume acc, c
        .if     V
        vectors fetch, \acc, \c
        .else
        vmovss  xmm\acc, dword ptr [\c]
        .endif
.endm

.macro csr_finish acc, c
        .if     V
        vectors clamp_store, \acc, \c
        .else
        vmaxss  xmm\acc, xmm14, xmm\acc
        vminss  xmm\acc, xmm15, xmm\acc
        vmovss  dword ptr [\c], xmm\acc
        .endif
.endm

.macro multiply acc, v, row
        vfmadd231ps ymm\acc, ymm13, [\row + 32 * \v]
.endm

.macro csr_entry acc, i, low, row
        .if     V
        vpermilps ymm13, ymm12, 0x55 * \i
        vectors multiply, \acc, \row
        .else
        vmovss  xmm12, dword ptr [\row]
        vfmadd231ss xmm\acc, xmm12, dword ptr [r8 + 4 * \i]
        .endif
        csr_find \i, \low, \row
.endm

.macro csr width
        .set    V, \width
L(csr\width):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        movzx   ebp, word ptr [rdx + SPMM_SET_SECOND]
        mov     r11, [ARGS + 24]        // biases
        lea     r10, [r11 + rbp * 4]
        lea     r11, [r11 + rdi * 4]
        imul    rdi, r14
        imul    rbp, r14
        add     rdi, [ARGS + 8]         // c
        add     rbp, [ARGS + 8]
        cmp     qword ptr [ARGS + 24], 0
        je      1f
        csr_start 0, r11
        csr_start %APART, r10
        jmp     2f
1:      csr_resume 0, rdi
        csr_resume %APART, rbp
2:      movzx   r11d, word ptr [rdx + SPMM_SET_STEPS]
        test    r11d, r11d
        jz      4f
        .p2align 5
3:      csr_places
        .if     V
        vbroadcastf128 ymm12, xmmword ptr [r8]
        .endif
        csr_entry 0, 0, eax, rax
        csr_entry %APART, 1, ebx, rbx
        csr_entry 0, 2, r13d, r13
        csr_entry %APART, 3, r15d, r15
        add     r8, 16
        dec     r11d
        jnz     3b
4:      get_range r11
        csr_finish %APART, rbp
        csr_finish 0, rdi
        next_set csr
.endm

        .set    APART, 6
        rodata
        places  csr, 0, 1, 2, 3, 4, 5, 6

fn qn_spmm_f32_csr_48x2_avx2
        begin
        enter_vectors csr
        csr_places
        csr_find 0, eax, rax
        csr_find 1, ebx, rbx
        csr_find 2, r13d, r13
        csr_find 3, r15d, r15
        enter   rdi
        end     csr
        .irp    width, 6, 5, 4, 3, 2, 1, 0
        csr     \width
        .endr
endfn qn_spmm_f32_csr_48x2_avx2

// ---- b1xN: R = 2 or 4 channels at a time, N / R times with the same index.
//
//   set    rdi C of R channels  r10 their biases or 0     N > R: r8 their W  rcx index  r15 times left     r13 3 c_strides
//   step   eax steps left  rbp index  rbx W  r11 row of A, of the next step once the loads of this one are under way
//   acc    channel r: ymm(APART r) ..     then ymm14 min  ymm15 max
//   load   R = 4: ymm12 .. A  ymm15 W     R = 2: ymm12 ymm13 W  ymm14 A  r15 its row
//   one    xmm2 acc  xmm5 A  xmm8 W: its sums are one for each channel, in one vector
//
// A step with R = 4 and V = 3, or R = 2 and V = 6, is 12 FMAs (6 cycles) and 8 or 9 loads.

// A macro for each channel: its number, where its C is.
.macro channels do
        \do     0, rdi
        \do     1, rdi+r14
        .if     R == 4
        \do     2, rdi+r14*2
        \do     3, rdi+r13
        .endif
.endm

.macro start r, c
        vectors everywhere, %(APART * \r), r10+4*\r
.endm

.macro resume r, c
        vectors fetch, %(APART * \r), \c
        .if     ONE
        vinsertps xmm2, xmm2, dword ptr [\c + 32 * V], 0x10 * \r
        .endif
.endm

.macro finish r, c
        vectors clamp_store, %(APART * \r), \c
        .if     ONE
        vextractps dword ptr [\c + 32 * V], xmm2, \r
        .endif
.endm

.macro row
        movzx   r11d, word ptr [rbp]
        add     rbp, 2
        imul    r11, r12
        add     r11, r9
.endm

.macro first_row
        mov     rbp, rcx
        mov     rbx, r8
        row
.endm

// Four channels with three vectors at most: all of A, then the products of each channel.
.macro add_product acc, v
        product \acc, %(12 + \v)
.endm

.macro product acc, in
        vfmadd231ps ymm\acc, ymm15, ymm\in
.endm

.macro channel_products r, c
        vbroadcastss ymm15, dword ptr [rbx + 4 * \r]
        vectors add_product, %(APART * \r)
.endm

.macro products_4
        vectors fetch, 12, r11
        row
        channels channel_products
.endm

// Two channels with six vectors at most: both weights, then the products of each vector.
.macro vector_products acc, v
        fetch   14, \v, r15
        vfmadd231ps ymm\acc, ymm12, ymm14
        add_second %(APART + \acc)
.endm

.macro add_second acc
        vfmadd231ps ymm\acc, ymm13, ymm14
.endm

.macro products_2
        mov     r15, r11
        row
        vbroadcastss ymm12, dword ptr [rbx]
        vbroadcastss ymm13, dword ptr [rbx + 4]
        vectors vector_products, 0
.endm

// R floats that lie side by side.
.macro fetch_channels to, at
        .if     R == 4
        vmovups \to, [\at]
        .else
        vmovsd  \to, qword ptr [\at]
        .endif
.endm

.macro products_of_one
        vbroadcastss xmm5, dword ptr [r11 + 32 * V]
        fetch_channels xmm8, rbx
        vfmadd231ps xmm2, xmm5, xmm8
.endm

.macro step
        .if     ONE
        products_of_one
        .endif
        .if     V == 0
        row
        .elseif R == 4
        products_4
        .else
        products_2
        .endif
        add     rbx, 4 * N
.endm

.macro blocks name, width, one
        .set    V, \width
        .set    ONE, \one
L(\name\width\one):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        mov     rax, [ARGS + 24]        // bias
        lea     r10, [rax + rdi * 4]
        test    rax, rax
        cmovz   r10, rax
        imul    rdi, r14
        add     rdi, [ARGS + 8]         // c
        .if     N > R
        mov     r15d, N / R
5:      first_row
        .endif
        test    r10, r10
        jz      1f
        channels start
        .if     ONE
        fetch_channels xmm2, r10
        .endif
        .if     N > R
        add     r10, 4 * R
        .endif
        jmp     2f
1:      channels resume
2:      movzx   eax, word ptr [rdx + SPMM_SET_STEPS]
        test    eax, eax
        jz      4f
        .p2align 5
3:      step
        dec     eax
        jnz     3b
4:      get_range rax
        .if     ONE
        vmaxps  xmm2, xmm14, xmm2
        vminps  xmm2, xmm15, xmm2
        .endif
        channels finish
        .if     N > R
        lea     rdi, [rdi + r14 * R]
        add     r8, 4 * R
        dec     r15d
        jnz     5b
        lea     r8, [rbx - 4 * (N - R)]
        lea     rcx, [rbp - 2]
        .endif
        next_set \name
.endm

        .set    N, 2
        .set    R, 2
        .set    APART, 6
        rodata
        places  two, 01, 10, 20, 30, 40, 50, 60

fn qn_spmm_f32_b1x2_48x2_avx2
        begin
        enter_vectors two
        first_row
        enter   rdi
        end     two
        .irp    width, 6, 5, 4, 3, 2, 1
        blocks  two, \width, 0
        .endr
        blocks  two, 0, 1
endfn qn_spmm_f32_b1x2_48x2_avx2

        .set    R, 4
        .set    APART, 3

.macro by_four name, outputs
        .set    N, \outputs
        rodata
        places  \name, 01, 10, 11, 20, 21, 30

fn qn_spmm_f32_b1x\outputs\()_24x\outputs\()_avx2
        begin
        lea     r13, [r14 + r14 * 2]
        mov     eax, edi                // 8 q + r pixels: place 2 q + min(r, 2), counted from 1
        shr     eax, 3
        add     eax, eax
        and     edi, 7
        cmp     edi, 1
        sbb     eax, -1
        cmp     edi, 2
        sbb     eax, -1
        entry   rdi, rax, \name, rbx
        .if     N == R
        first_row
        .endif
        enter   rdi
        end     \name
        blocks  \name, 3, 0
        blocks  \name, 2, 1
        blocks  \name, 2, 0
        blocks  \name, 1, 1
        blocks  \name, 1, 0
        blocks  \name, 0, 1
endfn qn_spmm_f32_b1x\outputs\()_24x\outputs\()_avx2
.endm

        by_four four, 4
        by_four eight, 8
        by_four sixteen, 16

// ---- csr: four channels, which lie side by side.
//
//   set    rdi C of the channels  r10 their biases  r13 3 c_strides  rcx numbers of entries, then index
//   step   eax entries left of the pattern  rbp index  r8 W  r11 row of A
//   acc    channel r: ymm(APART r) ..     load  ymm12 .. A  ymm15 W     then ymm14 min  ymm15 max
//
// An entry of m channels with V = 3 is 3 m FMAs (1.5 m cycles) and m + 4 loads: one for its place.

.macro begin_pattern bits
.endm

.macro find_entry
        .if     V
        vectors fetch, 12, r11
        .else
        vmovss  xmm12, dword ptr [r11]
        .endif
        .if     V == 3
        prefetcht0 [r8 + AHEAD]
        .endif
.endm

.macro entry_products r, w
        .if     V
        vbroadcastss ymm15, dword ptr [r8 + 4 * \w]
        vectors add_product, %(APART * \r)
        .else
        multiply_one %(APART * \r), \w
        .endif
.endm

.macro multiply_one acc, w
        vfmadd231ss xmm\acc, xmm12, dword ptr [r8 + 4 * \w]
.endm

.macro four_start r, c
        csr_start %(APART * \r), r10+4*\r
.endm

.macro four_resume r, c
        csr_resume %(APART * \r), \c
.endm

.macro four_finish r, c
        csr_finish %(APART * \r), \c
.endm

.macro fours width
        .set    V, \width
L(fours\width):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        mov     rax, [ARGS + 24]        // biases
        lea     r10, [rax + rdi * 4]
        imul    rdi, r14
        add     rdi, [ARGS + 8]         // c
        test    rax, rax
        jz      1f
        channels four_start
        jmp     2f
1:      channels four_resume
2:      csr_patterns
        get_range rax
        channels four_finish
        next_set fours
.endm

        rodata
        places  fours, 0, 1, 2, 3

fn qn_spmm_f32_csr_24x4_avx2
        begin
        lea     r13, [r14 + r14 * 2]
        enter_vectors fours
        enter   rdi
        end     fours
        .irp    width, 3, 2, 1, 0
        fours   \width
        .endr
endfn qn_spmm_f32_csr_24x4_avx2

// C[n][p] = requantize(start[n][p] + sum over the stored k of W[n][k] * A[k][p]) of bytes, 64 pixels, or the bare sums.
// Contract: src/kernel/spmm.h; biases make up for the 128 that are added to A
//
//   args   rdi pixels  rsi sets  rdx set  rcx index  r8 w  r9 a  [rsp+8] a_stride  c  c_stride  bias  p
//   keep   r12 a_stride  r14 c_stride
//   set    rdi C of four channels  r10 their biases or 0  r8 their W     in the frame: times left, their scales or 0
//   step   eax steps left  rbp index  rbx W  r11 r15 rows of A, or one eight steps on, to come from the L2 cache
//   acc    channel r: zmm(4 r) ..  of one pixel: the lanes of xmm0
//   load   zmm16-zmm19 four bytes of each pixel  zmm20 W     joined: zmm20-zmm23 pairs of bytes
//   ends   zmm24 signs  zmm25 the zero point in 16 bits  zmm26 the least byte  zmm27 the most  zmm28 the order of bytes
//          zmm29 a limit: a float beyond all bytes, but not beyond 32 bits, as larger ones would become negative numbers
//          (It limits the bits of floats as integers, which have the same order if the limit is positive: a minimum of
//          floats would wait for the unit that conversions need.)
//
// Sets are computed four channels at a time, N / 4 times with the same index.  There is a variant for each width: V
// vectors, or one pixel.  A jump at the start chooses it for all sets.
//
// A step with V = 4 is 16 dot products (16 cycles where they take one each).  Blocks of four inputs load 8 vectors and
// prefetch 5 for it; blocks of one input also load 8, and interleave bytes 8 times.
#include "spmm_avx512.h"

#define FRAME 16
#define LEFT dword ptr [rsp]            // times
#define SCALES qword ptr [rsp + 8]
#define ARGS rsp + FRAME + 56           // a_stride  c  c_stride  bias  p

        rodata
PLACES(order):                          // four channels of four pixels each: the channels of a pixel together
        .byte   0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15

.macro begin
        save    rbx, rbp, r12, r13, r14, r15
        frame   FRAME
        mov     r12, [ARGS]
        mov     r14, [ARGS + 16]
        lea     r13, [r14 + r14 * 2]
        mov     eax, 0x47800000         // 65536
        vpbroadcastd zmm29, eax
        mov     eax, 0x80808080
        vpbroadcastd zmm24, eax
        mov     rax, [ARGS + 32]
        test    rax, rax
        jz      1f
        vpbroadcastw zmm25, word ptr [rax + REQUANTIZE_ZERO]
        vpbroadcastb zmm26, byte ptr [rax + REQUANTIZE_MIN]
        vpbroadcastb zmm27, byte ptr [rax + REQUANTIZE_MAX]
        vbroadcasti32x4 zmm28, [rip + PLACES(order)]
1:
.endm

.macro end
        vzeroupper
        unframe FRAME
        restore rbx, rbp, r12, r13, r14, r15
        ret
.endm

// ---- sums of four channels: their biases are at r10, their C at rdi, three c_strides are r13

.macro sums_from_bias V
        .if     \V
        from_bias \V, 0, r10
        from_bias \V, 4, r10+4
        from_bias \V, 8, r10+8
        from_bias \V, 12, r10+12
        .else
        vmovups xmm0, [r10]
        .endif
.endm

.macro sums_from_c V
        .if     \V
        from_c  \V, 0, rdi
        from_c  \V, 4, rdi+r14
        from_c  \V, 8, rdi+r14*2
        from_c  \V, 12, rdi+r13
        .else
        vmovd   xmm0, dword ptr [rdi]
        vpinsrd xmm0, xmm0, dword ptr [rdi + r14], 1
        vpinsrd xmm0, xmm0, dword ptr [rdi + r14 * 2], 2
        vpinsrd xmm0, xmm0, dword ptr [rdi + r13], 3
        .endif
.endm

.macro sums_to_c V
        .if     \V
        to_c    \V, 0, rdi
        to_c    \V, 4, rdi+r14
        to_c    \V, 8, rdi+r14*2
        to_c    \V, 12, rdi+r13
        .else
        vmovd   dword ptr [rdi], xmm0
        vpextrd dword ptr [rdi + r14], xmm0, 1
        vpextrd dword ptr [rdi + r14 * 2], xmm0, 2
        vpextrd dword ptr [rdi + r13], xmm0, 3
        .endif
.endm

.macro scale acc, r
        vcvtdq2ps zmm\acc, zmm\acc
        vmulps  zmm\acc, zmm\acc, dword ptr [rax + 4 * \r]{1to16}
        vpminsd zmm\acc, zmm\acc, zmm29
        vcvtps2dq zmm\acc, zmm\acc
.endm

// A vector of each channel.
.macro end_vector a, b, c, d, v
        scale   \a, 0
        scale   \b, 1
        scale   \c, 2
        scale   \d, 3
        vpackssdw zmm\a, zmm\a, zmm\b
        vpackssdw zmm\c, zmm\c, zmm\d
        vpaddsw zmm\a, zmm\a, zmm25
        vpaddsw zmm\c, zmm\c, zmm25
        vpacksswb zmm\a, zmm\a, zmm\c
        vpmaxsb zmm\a, zmm\a, zmm26
        vpminsb zmm\a, zmm\a, zmm27
        vpshufb zmm\a, zmm\a, zmm28
        vmovups [rdi + 64 * \v], zmm\a
.endm

// The scales are at rax.
.macro bytes_to_c V
        .if     \V
        .set    v, 0
        .rept   \V
        end_vector %(v), %(4 + v), %(8 + v), %(12 + v), %v
        .set    v, v + 1
        .endr
        .else
        vcvtdq2ps xmm0, xmm0
        vmulps  xmm0, xmm0, [rax]
        vpminsd xmm0, xmm0, xmm29
        vcvtps2dq xmm0, xmm0
        vpackssdw xmm0, xmm0, xmm0
        vpaddsw xmm0, xmm0, xmm25
        vpacksswb xmm0, xmm0, xmm0
        vpmaxsb xmm0, xmm0, xmm26
        vpminsb xmm0, xmm0, xmm27
        vmovd   dword ptr [rdi], xmm0
        .endif
.endm

// ---- products

.macro dot acc, in
        vpdpbusd zmm\acc, zmm\in, zmm20
.endm

.macro dots V, acc, r
        vpbroadcastd zmm20, dword ptr [rbx + 4 * \r]
        .set    v, 0
        .rept   \V
        dot     %(\acc + v), %(16 + v)
        .set    v, v + 1
        .endr
.endm

// Flips the signs, which adds 128 to bytes.
.macro flipped to, at, v
        vpxord  zmm\to, zmm24, [\at + 64 * \v]
.endm

// The row whose number is entry i of the index.
.macro row_of to, low, i
        movzx   \low, word ptr [rbp + 2 * \i]
        imul    \to, r12
        add     \to, r9
.endm

.macro fetch_ahead v
        prefetcht0 [r15 + 64 * \v]
.endm

// Four inputs lie together in a row.
.macro fetch_row V
        row_of  r11, r11d, 0
        .if     \V >= 3
        row_of  r15, r15d, 8
        .endif
        add     rbp, 2
        .if     \V
        .set    v, 0
        .rept   \V
        flipped %(16 + v), r11, %v
        .if     \V >= 3
        fetch_ahead %v
        .endif
        .set    v, v + 1
        .endr
        .else
        vpxord  xmm16, xmm24, dword ptr [r11]{1to4}
        .endif
.endm

// Four rows of 64 pixels are joined: of each pixel, a byte of all rows.
.macro fetch_joined V
        row_of  r11, r11d, 0
        row_of  r15, r15d, 1
        .if     \V
        flipped 16, r11, 0
        flipped 17, r15, 0
        .else
        vpinsrb xmm16, xmm16, byte ptr [r11], 0
        vpinsrb xmm16, xmm16, byte ptr [r15], 1
        .endif
        row_of  r11, r11d, 2
        row_of  r15, r15d, 3
        add     rbp, 8
        .if     \V
        flipped 18, r11, 0
        flipped 19, r15, 0
        vpunpcklbw zmm20, zmm16, zmm17
        vpunpcklbw zmm22, zmm18, zmm19
        .if     \V > 2
        vpunpckhbw zmm21, zmm16, zmm17
        vpunpckhbw zmm23, zmm18, zmm19
        .endif
        vpunpcklwd zmm16, zmm20, zmm22
        .if     \V > 1
        vpunpckhwd zmm17, zmm20, zmm22
        .endif
        .if     \V > 2
        vpunpcklwd zmm18, zmm21, zmm23
        .endif
        .if     \V > 3
        vpunpckhwd zmm19, zmm21, zmm23
        .endif
        .else
        vpinsrb xmm16, xmm16, byte ptr [r11], 2
        vpinsrb xmm16, xmm16, byte ptr [r15], 3
        vpbroadcastd xmm16, xmm16
        vpxord  xmm16, xmm16, xmm24
        .endif
.endm

.macro blocks name, N, V, do_fetch
        .set    again, \N - 4
L(\name\()\V):
0:      movzx   edi, word ptr [rdx + SPMM_SET_FIRST]
        mov     rax, [ARGS + 24]        // bias
        lea     r10, [rax + rdi * 4]
        test    rax, rax
        cmovz   r10, rax
        mov     rax, [ARGS + 32]        // p
        lea     r11, [rax + rdi * 4 + REQUANTIZE_SCALES]
        test    rax, rax
        cmovz   r11, rax
        mov     SCALES, r11
        imul    rdi, r14
        add     rdi, [ARGS + 8]         // c
        .if     again
        mov     LEFT, \N / 4
        .endif
5:      test    r10, r10
        jz      1f
        sums_from_bias \V
        .if     again
        add     r10, 16
        .endif
        jmp     2f
1:      sums_from_c \V
2:      mov     rbp, rcx
        mov     rbx, r8
        movzx   eax, word ptr [rdx + SPMM_SET_STEPS]
        test    eax, eax
        jz      4f
        .if     \V / 3                  // the others are tails
        .p2align 5
        .endif
3:      \do_fetch \V
        .if     \V
        dots    \V, 0, 0
        dots    \V, 4, 1
        dots    \V, 8, 2
        dots    \V, 12, 3
        .else
        vpdpbusd xmm0, xmm16, [rbx]
        .endif
        add     rbx, 4 * \N
        .if     \V / 3
        prefetcht0 [rbx + AHEAD]
        .endif
        dec     eax
        jnz     3b
4:      mov     rax, SCALES
        test    rax, rax
        jz      6f
        bytes_to_c \V
        .if     again
        add     SCALES, 16
        .endif
        jmp     7f
6:      sums_to_c \V
7:
        .if     again
        lea     rdi, [rdi + r14 * 4]
        add     r8, 16
        dec     LEFT
        jnz     5b
        .endif
        lea     r8, [rbx - 4 * again]
        mov     rcx, rbp
        add     rdx, SPMM_SET_BYTES
        dec     rsi
        jnz     0b
        .if     \V                      // the last variant leads to the end
        jmp     L(\name\()_end)
        .endif
.endm

.macro kernel inputs, N, name, do_fetch
        rodata
        places  \name, 0, 1, 2, 3, 4

fn qn_spmm_qs8c_b\inputs\()x\N\()_64x\N\()_avx512vnni
        begin
        entry_vectors \name
        enter   rdi
        .irp    vectors, 4, 3, 2, 1, 0
        blocks  \name, \N, \vectors, \do_fetch
        .endr
L(\name\()_end):
        end
endfn qn_spmm_qs8c_b\inputs\()x\N\()_64x\N\()_avx512vnni
.endm

        kernel  4, 4, four, fetch_row
        kernel  4, 8, eight, fetch_row
        kernel  4, 16, sixteen, fetch_row
        kernel  1, 4, joined_four, fetch_joined
        kernel  1, 8, joined_eight, fetch_joined
        kernel  1, 16, joined_sixteen, fetch_joined

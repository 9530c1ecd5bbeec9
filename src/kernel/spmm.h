// spmm (sparse weights times pixels): C[n][p] = end(start[n][p] + sum over the stored k of W[n][k] * A[k][p])
//
// A and C hold some pixels of every channel, side by side. start[n][p] is bias[n], or the value that C[n][p] had
// before. In type f32 all of them are floats, and end() clamps.
//
// In type qs8c A and W are bytes, and sums and biases are 32-bit integers. C holds the sums until all k have been
// added. Then they end as bytes (requantize.h), four channels side by side: the first of the four rows of C gets them,
// and the other three stay as they are.
//
//     sums, integers:   row f      C[f][0]   C[f][1] ..       bytes, row f:  C[f][0] C[f+1][0] C[f+2][0] C[f+3][0]
//                       row f + 1  C[f+1][0] C[f+1][1] ..                    C[f][1] C[f+1][1] ..
//
// Packed weights W: sets of output channels, in any order, and the entries of each set. There are three packings:
//
//     csr    pairs: a set has two channels, f and s. Each step holds two entries of both channels, in turns; the
//     entries of a channel ascend in k. The channel with fewer entries gets additional ones of weight 0:
//
//            index, bytes:       k(f,0) k(s,0) k(f,1) k(s,1)      step 0        k(f,2) k(s,2) k(f,3) k(s,3)  ...
//            w, floats:          W(f,0) W(s,0) W(f,1) W(s,1)                    W(f,2) W(s,2) W(f,3) W(s,3)  ...
//
//            If a set names the same channel as f and s, the result of f counts.
//     csr    fours: a set has four successive channels f .. f+3. An entry is a k and the weights of those channels that
//     have a weight at this k. The entry's pattern, 1 to 15, says which ones they are: it is the sum of 1 for f, 2 for
//     f+1, 4 for f+2 and 8 for f+3. Entries are sorted by pattern, and within a pattern by k:
//
//            index, 16 bits:     the number of entries of pattern 1, 2, .. 15   then k of each entry
//            w, floats:          pattern 1:  W[f][k]                            pattern 2:  W[f+1][k]
//                                pattern 3:  W[f][k] W[f+1][k]                  pattern 4:  W[f+2][k]            ...
//     bIxN   blocks: a set has N successive channels f .. f+N-1, N = 2, 4, 8 or 16. Each step is one k, in ascending
//     order, with the weights of all N channels:
//
//            index, 16 bits:     k(0)                             step 0        k(1)                         ...
//            w:                  W[f][k(0)] .. W[f+N-1][k(0)]                   W[f][k(1)] .. W[f+N-1][k(1)] ...
//
//     That is for type f32. In type qs8c four weights of a channel lie together. If I is 4, a step is a row r of A,
//     which holds four successive k of each pixel, side by side; where a tap has no more input channels, their weights
//     are 0:
//
//            A, bytes:           A[4 r][0] A[4 r + 1][0] A[4 r + 2][0] A[4 r + 3][0]   A[4 r][1] ..
//            index, 16 bits:     r(0)                             step 0        r(1)                         ...
//            w, bytes:           W[f][4 r(0)] .. W[f][4 r(0) + 3] W[f+1][4 r(0)] .. W[f+N-1][4 r(0) + 3]     ...
//
//     If I is 1, a step is any four k in ascending order. Weights of 0, at any k that occurs before, fill up the last
//     step. Kernels join the four bytes of each pixel by interleaving, so a row of A has its pixels in the order of
//     deal.h, from which they come out right.
//
//            index, 16 bits:     k(0) k(1) k(2) k(3)              step 0        k(4) ..
//            w, bytes:           W[f][k(0)] .. W[f][k(3)] W[f+1][k(0)] .. W[f+N-1][k(3)]                     ...
//
//     If a kernel adds 128 to A (panel.h), the biases are less by 128 times the sum of the weights.
//
// Arguments  pixels    1 <= pixels <= PIXELS
//            sets      >= 1
//            set       for each set: the number of its steps, which may be 0 (fours do not use it), and its channels f
//                      and s (s: pairs only)
//            index, w  the entries of all sets, one set after the other
//            a         row k (or r) of the pixels at a + k * a_stride bytes
//            c         row n at c + n * c_stride bytes
//            bias      bias[n] for the channels of the sets; NULL: start with the values that C holds
//            p         f32: the clamp. qs8c: NULL if the sums stay sums. Otherwise a qn_requantize, and the scales of
//                      all channels from 0 on; those of channels that do not exist may be anything
//
// Memory     Rows of A and C have spmm_width() pixels, as a rule whole vectors; if I is 1, bytes of A have
//            spmm_a_width(). A kernel reads the rows of A whose k occurs. It writes the rows of C that the sets name;
//            it also reads them if bias is NULL. It reads exactly the sets, their entries, biases and scales, and *p;
//            and spmm_beyond bytes after the last index, which may hold anything: kernels look up rows of A before they
//            need them. Addresses and strides of A and C are multiples of 4; multiples of the vector's size are faster. (A
//            single pixel of bytes may lie anywhere.) C overlaps nothing.
// Numbers    f32: Each output is one chain of fused multiply-adds in the order of its entries; a level without FMA (ref)
//            rounds each product first. For the same packed weights all FMA levels give the same bits. In pairs and
//            blocks the entries of a channel ascend in k; their bits are those of gemm.h, except that zeros which are
//            not stored contribute nothing. Clamp as in gemm.h.
//            The levels of 32-bit ARM flush denormals as in gemm.h, but a channel without entries keeps a denormal
//            start.
//            qs8c: Sums of 32 bits wrap around, as in gemm.h. They end as requantize() says.
// Machine    As gemm.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernel/deal.h"
#include "kernel/minmax.h"
#include "kernel/panel.h"
#include "kernel/requantize.h"
#include "kernel/row.h"

extern "C" {

struct qn_spmm_set {
  uint16_t steps, first, second;
};

typedef void (*qn_spmm_fn)(size_t pixels, size_t sets, const qn_spmm_set* set, const void* index, const void* w,
                           const void* a, size_t a_stride, void* c, size_t c_stride, const void* bias, const void* p);

#define QN_SPMM_ROW(type, packing, inputs, block, pixels, lanes, alone, panel, demands, isa, layout, name) \
  QN_DECLARE_KERNEL(qn_spmm_fn, name)
#include "kernel/spmm.inc"

}  // extern "C"

namespace quern {

enum class SpmmPacking { pairs, fours, blocks };

struct SpmmRow : Row {
  SpmmPacking packing;
  uint32_t inputs;    // input channels in a block of weights, I; 1 or 4
  uint32_t block;     // output channels in a block of weights, N; 1: csr
  uint32_t pixels;    // PIXELS, the most pixels of a call
  uint32_t lanes;     // pixels of a vector
  uint32_t alone;     // after up to this many vectors, a single last pixel takes one float instead of a vector
  PanelFormat panel;  // how many successive weights of a channel lie together, and whether 128 is added to A
  qn_spmm_fn run;

  bool pairs() const { return packing == SpmmPacking::pairs; }
  bool fours() const { return packing == SpmmPacking::fours; }
  size_t channels() const { return pairs() ? 2 : fours() ? 4 : block; }  // channels of a set
  size_t together() const { return pairs() ? 1 : channels(); }           // successive channels that a set names at once
  // The number of index entries of a step of blocks.
  size_t places() const { return panel.kr / inputs; }
  size_t index_bytes() const { return pairs() ? 1 : 2; }
  size_t max_k() const { return pairs() ? 0x100 : 0x10000; }
};

// The number of patterns of fours, and so of the counts that stand before the k of a set.
constexpr size_t spmm_patterns = 15;

// Kernels may read this many bytes after the last index.
constexpr size_t spmm_beyond = 16;

// Bytes of a pixel in a row of A. In a row of C, it has four.
inline size_t spmm_bytes(const SpmmRow& row) {
  return has_integers ? row.inputs * bytes_of(info_of(row.type).activations) : sizeof(float);
}

// The number of pixels in a row of A or C.
inline size_t spmm_width(const SpmmRow& row, size_t pixels) {
  const size_t vectors = pixels / row.lanes, left = pixels % row.lanes;
  return left == 0 || (left == 1 && vectors <= row.alone) ? pixels : (vectors + 1) * row.lanes;
}

// The same for a row of A: single bytes of a pixel are interleaved in whole vectors.
inline size_t spmm_a_width(const SpmmRow& row, size_t pixels) {
  const size_t width = spmm_width(row, pixels), together = dealt_pixels(row.lanes);
  return spmm_bytes(row) == 4 || pixels == 1 ? width : (width + together - 1) / together * together;
}

// For each packing and block the best level comes first. The references are last and run everywhere.
std::span<const SpmmRow> spmm_rows();

}  // namespace quern

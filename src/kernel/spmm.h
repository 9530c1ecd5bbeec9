// spmm (sparse weights times pixels): C[n][p] = clamp(start[n][p] + sum over the stored k of W[n][k] * A[k][p])
//
// A and C hold, for every channel, some pixels side by side; start[n][p] is bias[n], or what C[n][p] held before.
//
// Packed weights W: sets of output channels, in any order, and for each its entries:
//
//     csr    pairs: two channels f, s. They take turns, two entries each a step, ascending in k; one that has fewer
//     gets entries of weight 0:
//
//            index, bytes:       k(f,0) k(s,0) k(f,1) k(s,1)      step 0        k(f,2) k(s,2) k(f,3) k(s,3)  ...
//            w, floats:          W(f,0) W(s,0) W(f,1) W(s,1)                    W(f,2) W(s,2) W(f,3) W(s,3)  ...
//
//            A set may name one channel twice: its first place counts.
//     csr    fours: four successive channels f .. f+3. An entry is a k and the weights of those channels that have one;
//     which these are is its pattern, 1 to 15, the sum of 1 for f, 2 for f+1, 4 for f+2, 8 for f+3. Entries of pattern
//     1 come first, those of pattern 15 last, and ascend in k within each:
//
//            index, 16 bits:     how many entries have pattern 1, 2, .. 15      then k of each entry
//            w, floats:          pattern 1:  W[f][k]                            pattern 2:  W[f+1][k]
//                                pattern 3:  W[f][k] W[f+1][k]                  pattern 4:  W[f+2][k]            ...
//     b1xN   blocks: N successive channels f .. f+N-1, N = 2, 4, 8 or 16, and one k a step, ascending:
//
//            index, 16 bits:     k(0)                             step 0        k(1)                         ...
//            w, floats:          W[f][k(0)] .. W[f+N-1][k(0)]                   W[f][k(1)] .. W[f+N-1][k(1)] ...
//
// Arguments  pixels    1 <= pixels <= PIXELS
//            sets      >= 1
//            set       of each: its steps, which may be 0 (not of fours), and its channels f and s (s: pairs only)
//            index, w  of all sets, one after the other
//            a         row k of the pixels at a + k * a_stride bytes
//            c         row n at c + n * c_stride bytes
//            bias      bias[n] for the channels of the sets; NULL: begin with what C holds
//            p         clamp
//
// Memory     Rows of A and C are as wide as spmm_width() says, which is whole vectors of pixels: those of A whose k
//            occurs are read, those of C that a set names are written, and read if there is no bias. Reads exactly the
//            sets, their entries and biases, spmm_beyond bytes behind the last index, of any value, because kernels
//            find rows of A ahead of their products, and *p. A, C: any address and stride that is a multiple of 4; a
//            multiple of the vector is faster. C overlaps nothing.
// Numbers    Each output is one chain of fused multiply-adds in the order of its entries; a level without FMA (ref)
//            rounds the product first. All levels take the same packed weights to the same bits. Where entries ascend
//            in k, all but fours, these are the bits of gemm.h, but for zeros that are not stored. Clamp as gemm.h.
//            The levels of 32-bit ARM flush, as gemm.h says; a denormal that a chain without entries begins with stays.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

struct qn_spmm_set {
  uint16_t steps, first, second;
};

typedef void (*qn_spmm_fn)(size_t pixels, size_t sets, const qn_spmm_set* set, const void* index, const void* w,
                           const void* a, size_t a_stride, void* c, size_t c_stride, const void* bias, const void* p);

#define QN_SPMM_ROW(type, packing, inputs, block, pixels, lanes, alone, isa, layout, name) \
  QN_DECLARE_KERNEL(qn_spmm_fn, name)
#include "kernel/spmm.inc"

}  // extern "C"

namespace quern {

enum class SpmmPacking { pairs, fours, blocks };

struct SpmmRow : Row {
  SpmmPacking packing;
  size_t inputs;  // a block of weights: so many input channels,
  size_t block;   // and N output channels; 1: csr
  size_t pixels;  // PIXELS
  size_t lanes;   // pixels of a vector
  size_t alone;   // up to so many vectors, one pixel more takes no vector of its own
  qn_spmm_fn run;

  bool pairs() const { return packing == SpmmPacking::pairs; }
  bool fours() const { return packing == SpmmPacking::fours; }
  size_t channels() const { return pairs() ? 2 : fours() ? 4 : block; }  // of a set
  size_t together() const { return pairs() ? 1 : channels(); }           // channels that lie side by side
  size_t index_bytes() const { return pairs() ? 1 : 2; }
  size_t max_k() const { return pairs() ? 0x100 : 0x10000; }
};

// Of fours: patterns, and so numbers before the k of a set.
constexpr size_t spmm_patterns = 15;

// Bytes that can be read behind the last index.
constexpr size_t spmm_beyond = 16;

// Floats of a row of A and C.
inline size_t spmm_width(const SpmmRow& row, size_t pixels) {
  const size_t vectors = pixels / row.lanes, left = pixels % row.lanes;
  return left == 0 || (left == 1 && vectors <= row.alone) ? pixels : (vectors + 1) * row.lanes;
}

// By packing and block, best level first; the references are last and run everywhere.
std::span<const SpmmRow> spmm_rows();

}  // namespace quern

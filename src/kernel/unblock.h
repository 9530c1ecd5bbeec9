// unblock: D[p] = A[p], copies the pixels p of one channel, whose blocks may lie apart or next to each other
// split:   D[r][y][x] = A[y][x * step + r], deals the pixels of each row out to planes r
//
// Elements have 32 bits.
//
//     step 2, 5 columns, 2 planes:   A  0 1 2 3 4      D[0]  0 2 4    D[1]  1 3
//
// Arguments  unblock   pixels    >= 1
//                      a, d      pixel p at a + p / BLOCK * a_stride bytes + p % BLOCK * 4, d the same
//            split     rows, columns, step, planes     >= 1, planes <= step
//                      a         row y at a + y * a_stride bytes
//                      d         row y of plane r at d + r * d_plane + y * d_stride bytes
// Memory     Reads exactly the pixels of A and writes exactly those of D. Addresses are multiples of 4. D overlaps
//            nothing.
// Numbers    Bits are copied.
// Machine    As gemm.h.
#pragma once

#include <cstddef>

#include "kernel/row.h"

extern "C" {

typedef void (*qn_unblock_fn)(size_t pixels, const void* a, size_t a_stride, void* d, size_t d_stride);
typedef void (*qn_split_fn)(size_t rows, size_t columns, size_t step, size_t planes, const void* a, size_t a_stride,
                            void* d, size_t d_stride, size_t d_plane);

#define QN_UNBLOCK_ROW(type, block, isa, layout, name) QN_DECLARE_KERNEL(qn_unblock_fn, name)
#define QN_SPLIT_ROW(type, isa, layout, name) QN_DECLARE_KERNEL(qn_split_fn, name)
#include "kernel/unblock.inc"

}  // extern "C"

namespace quern {

struct UnblockRow : Row {
  size_t block;  // pixels of a block
  qn_unblock_fn run;
};

struct SplitRow : Row {
  qn_split_fn run;
};

// Best first; the references are last and run everywhere.
std::span<const UnblockRow> unblock_rows();
std::span<const SplitRow> split_rows();

}  // namespace quern

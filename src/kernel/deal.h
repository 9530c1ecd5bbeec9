// deal: C[4 r + j][place of p] = byte j of A[r][p], deals the four bytes of each pixel out to four rows, for the kernels
// of spmm.h that take single bytes
//
// Pixels are dealt in groups of 16 L, with L = max(1, LANES / 4): pixel 4 (L v + l) + j of a group comes to place
// 16 l + 4 v + j, with l < L and v, j < 4. That is what interleaving of bytes within the L parts of a vector undoes.
//
// Arguments  rows, groups  >= 1
//            a             row r at a + r * a_stride bytes
//            c             row i at c + i * c_stride bytes
// Memory     Reads exactly `groups` groups of pixels, four bytes each, in the rows of A; writes exactly `groups`
//            groups, a byte each, in the 4 * rows rows of C. Any addresses. C overlaps nothing.
// Numbers    Bits are copied.
// Machine    As gemm.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernel/row.h"

extern "C" {

typedef void (*qn_deal_fn)(size_t rows, size_t groups, const void* a, size_t a_stride, void* c, size_t c_stride);

#define QN_DEAL_ROW(type, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_deal_fn, name)
#include "kernel/deal.inc"

}  // extern "C"

namespace quern {

struct DealRow : Row {
  uint32_t lanes;  // of the kernels that it works for
  qn_deal_fn run;
};

// The pixels of a group.
constexpr size_t dealt_pixels(size_t lanes) { return 16 * std::max<size_t>(1, lanes / 4); }
// The place of a pixel of a group.
constexpr size_t dealt_place(size_t lanes, size_t pixel) {
  const size_t parts = dealt_pixels(lanes) / 16, four = pixel / 4;
  return four % parts * 16 + four / parts * 4 + pixel % 4;
}

std::span<const DealRow> deal_rows();

}  // namespace quern

// gather: C[r][p] = A[r][from(p)], or 0, for successive output pixels p, elements of 32 bits
//
// Rows of C are cut into vectors of LANES pixels, and each vector is put together from pieces. A piece stands for a
// load of a whole vector at `offset` bytes from the beginning of the row of A, of which only the lanes in the mask
// `lanes` are kept. No two pieces of a vector name the same lane; lanes that no piece names become 0. In the last piece
// of a vector, `last` is 1:
//
//     LANES 4, vectors 2:   {offset, 0b0011, 0}  {offset, 0b1100, 1}     {offset, 0b0111, 1}
//                           lanes 0 1            lanes 2 3               lanes 0 1 2, and 3 is 0
//
// Arguments  rows, vectors  >= 1
//            pieces    the pieces of all vectors of a row; every row uses the same ones
//            a, c      row r at a + r * a_stride, c + r * c_stride bytes
// Memory     Reads exactly the pieces and the lanes that they name; writes exactly `vectors` vectors in each row.
//            Addresses are multiples of 4. C overlaps nothing.
// Numbers    Bits are copied.
// Machine    As gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/row.h"

extern "C" {

struct qn_gather_piece {
  int32_t offset;
  uint16_t lanes, last;
};

typedef void (*qn_gather_fn)(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a, size_t a_stride,
                             void* c, size_t c_stride);

#define QN_GATHER_ROW(type, lanes, isa, layout, name) QN_DECLARE_KERNEL(qn_gather_fn, name)
#include "kernel/gather.inc"

}  // extern "C"

namespace quern {

struct GatherRow : Row {
  uint32_t lanes;
  qn_gather_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const GatherRow> gather_rows();

}  // namespace quern

// transpose: C[j][i] = A[i][j], elements of 32 bits
//
// Arguments  rows, columns  of A, >= 1
//            a         addresses of the rows of A
//            c         row j of C at c + j * c_stride bytes
// Memory     Reads exactly `columns` elements of each row of A, and the addresses of these rows; writes exactly `rows`
//            elements in each row of C. Rows of both begin at any addresses: they may be bytes, four to an element.
//            C overlaps nothing; rows of A may overlap each other.
// Numbers    Bits are copied.
// Machine    As gemm.h.
#pragma once

#include <cstddef>

#include "kernel/row.h"

extern "C" {

typedef void (*qn_transpose_fn)(size_t rows, size_t columns, const void* const* a, void* c, size_t c_stride);

#define QN_TRANSPOSE_ROW(type, isa, layout, name) QN_DECLARE_KERNEL(qn_transpose_fn, name)
#include "kernel/transpose.inc"

}  // extern "C"

namespace quern {

struct TransposeRow : Row {
  qn_transpose_fn run;
};

// Best first; the reference is last and runs everywhere.
std::span<const TransposeRow> transpose_rows();

}  // namespace quern

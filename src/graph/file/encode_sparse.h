// Makes the segments of sparse constants.
#pragma once

#include "base/vector.h"
#include "graph/file/sparse.h"

namespace quern {

// How a matrix takes the fewest bytes.
struct SparsePlan {
  size_t block = 0;  // rows that share a position; 0: dense is no larger
  uint64_t positions = 0;
  uint64_t bytes = 0;
};
// Of the blocks that take equally few bytes, the largest.
qn_status plan_sparse(const Constant& constant, size_t rows, SparsePlan* plan);

// The segment; `plan` is what plan_sparse said.
qn_status encode_sparse(const Constant& constant, size_t rows, const SparsePlan& plan, Vector<unsigned char>* segment);

}  // namespace quern

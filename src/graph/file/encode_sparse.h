// Makes the segments that hold sparse constants in a file.
#pragma once

#include "base/vector.h"
#include "graph/file/sparse.h"

namespace quern {

// The way to store a matrix in the fewest bytes.
struct SparsePlan {
  size_t block = 0;  // rows that share a position; 0: store it dense, because no block takes fewer bytes
  uint64_t positions = 0;
  uint64_t bytes = 0;
};
// Finds the block that takes the fewest bytes; of several equal ones, the largest.
qn_status plan_sparse(const Constant& constant, size_t rows, SparsePlan* plan);

// Makes the segment of a matrix by the plan that plan_sparse() has found for it.
qn_status encode_sparse(const Constant& constant, size_t rows, const SparsePlan& plan, Vector<unsigned char>* segment);

}  // namespace quern

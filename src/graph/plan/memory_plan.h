// Where blocks of memory with known lifetimes lie in one arena.
#pragma once

#include "base/vector.h"

namespace quern {

struct Block {
  size_t bytes;
  size_t first, last;  // steps during which it is in use, both included
  size_t offset;       // the answer, a multiple of the cache line
};

// Sets the offsets so that blocks that are in use at the same step do not overlap. `arena` receives the bytes needed.
// Fails with QN_OUT_OF_MEMORY when these overflow.
//
// Greedy by size: the largest block first, each at the lowest offset that is free during its lifetime.
qn_status plan_memory(Vector<Block>& blocks, size_t* arena);

}  // namespace quern

// Places blocks of memory with known lifetimes in one arena.
#pragma once

#include "base/vector.h"

namespace quern {

struct Block {
  size_t bytes;
  size_t first, last;  // the block is in use from step `first` to step `last`, both included
  size_t offset;       // the result: a multiple of the cache line
};

// Sets the offsets so that blocks in use at the same step do not overlap, and `arena` to the bytes that all of them
// need. Fails with QN_OUT_OF_MEMORY when that number overflows.
//
// The algorithm is greedy: it takes the largest block first, and puts each at the lowest offset that is free during its
// lifetime.
qn_status plan_memory(Vector<Block>& blocks, size_t* arena);

}  // namespace quern

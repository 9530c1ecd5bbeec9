#include "graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "base/status.h"

namespace quern {
namespace {

bool live_together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

qn_status plan_memory(Vector<Block>& blocks, size_t* arena) {
  Vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Not stable_sort, which takes memory of its own.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });

  Vector<size_t> placed;  // by offset
  *arena = 0;
  for (const size_t index : order) {
    Block& block = blocks[index];
    size_t offset = 0, end;
    for (const size_t other : placed) {
      const Block& b = blocks[other];
      if (!live_together(block, b)) continue;
      if (b.offset >= offset && b.offset - offset >= block.bytes) break;  // it fits into the gap below b
      offset = std::max(offset, round_up(b.offset + b.bytes, cache_line));
    }
    if (!checked_add(offset, block.bytes, &end) || end > static_cast<size_t>(PTRDIFF_MAX)) {
      return fail(QN_OUT_OF_MEMORY, "the size of the activations overflows");
    }
    block.offset = offset;
    *arena = std::max(*arena, end);
    const auto below = [&](size_t other, size_t at) { return blocks[other].offset < at; };
    placed.insert(std::lower_bound(placed.begin(), placed.end(), offset, below), index);
  }
  return QN_OK;
}

}  // namespace quern

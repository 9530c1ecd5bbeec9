#include "graph/plan/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "base/status.h"

namespace quern {
namespace {

// Images often take a multiple of a large power of two. With one right after the other, pixels of what an operator
// reads and of what it writes compete for the same cache sets; a few lines between them prevent that.
constexpr size_t image_bytes = size_t{32} << 10, image_gap = 5 * cache_line;

size_t end_of(const Block& b) {
  return round_up(b.offset + b.bytes, cache_line) + (b.bytes < image_bytes ? 0 : image_gap);
}

bool live_together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

qn_status plan_memory(Vector<Block>& blocks, size_t* arena) {
  Vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  heap_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
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
      offset = std::max(offset, end_of(b));
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

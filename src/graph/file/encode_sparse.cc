#include "graph/file/encode_sparse.h"

#include <algorithm>

#include "base/math.h"
#include "base/status.h"

namespace quern {
namespace {

constexpr size_t blocks[] = {1, 2, 4, 8, 16};
constexpr size_t widest = 16;

// One mask for each position of a row: bit r is set if row r of the strip is not 0 there. -0 counts as 0, because
// pruning multiplies weights by masks, which turns negative weights into -0.
using Masks = Vector<uint16_t>;

void find_nonzeros(const float* strip, size_t rows, Masks* masks) {
  std::fill(masks->begin(), masks->end(), uint16_t{0});
  for (size_t r = 0; r < rows; ++r) {
    for (size_t p = 0; p < masks->size(); ++p) {
      const bool other = strip[r * masks->size() + p] != 0;
      (*masks)[p] = static_cast<uint16_t>((*masks)[p] | static_cast<unsigned>(other) << r);
    }
  }
}

// Calls visit(position, delta) for the positions that a block row stores: those where a row of `of` is not 0 and, if
// the next of these is more than a step away, some in between.
template <class Visit>
void each_stored(const Masks& masks, unsigned of, Visit&& visit) {
  size_t next = 0;  // the position after the last one stored
  for (size_t p = 0; p < masks.size(); ++p) {
    if ((masks[p] & of) == 0) continue;
    for (; p - next >= longest_step; next += longest_step) visit(next + longest_step - 1, longest_step - 1);
    visit(p, p - next);
    next = p + 1;
  }
}

unsigned rows_of(size_t block, size_t first) { return ((1U << block) - 1) << first; }

}  // namespace

qn_status plan_sparse(const Constant& constant, size_t rows, SparsePlan* plan) {
  FloatRows from(constant, rows);
  Masks masks(from.depth());
  uint64_t positions[std::size(blocks)] = {};
  for (size_t first = 0; first < rows; first += widest) {
    const size_t count = std::min(widest, rows - first);
    const float* strip;
    QN_TRY(from.read(first, count, &strip));
    find_nonzeros(strip, count, &masks);
    for (size_t i = 0; i < std::size(blocks); ++i) {
      for (size_t row = 0; row < count; row += blocks[i]) {
        each_stored(masks, rows_of(blocks[i], row), [&](size_t, size_t) { ++positions[i]; });
      }
    }
  }
  *plan = {0, 0, constant.bytes};
  for (size_t i = 0; i < std::size(blocks); ++i) {
    const uint64_t bytes = sparse_parts(divide_up(rows, blocks[i]), positions[i], blocks[i]).total();
    const bool smaller = plan->block == 0 ? bytes < plan->bytes : bytes <= plan->bytes;
    if (smaller && positions[i] <= UINT32_MAX) *plan = {blocks[i], positions[i], bytes};
  }
  return QN_OK;
}

qn_status encode_sparse(const Constant& constant, size_t rows, const SparsePlan& plan, Vector<unsigned char>* segment) {
  const SparseParts parts = sparse_parts(divide_up(rows, plan.block), plan.positions, plan.block);
  segment->assign(parts.total(), 0);
  auto* start = reinterpret_cast<uint32_t*>(segment->data());
  unsigned char* delta = segment->data() + parts.starts;
  auto* value = reinterpret_cast<float*>(delta + parts.deltas);
  FloatRows from(constant, rows);
  Masks masks(from.depth());
  for (size_t row = 0; row < rows; row += plan.block) {
    const size_t count = std::min(plan.block, rows - row);
    const float* strip;
    QN_TRY(from.read(row, count, &strip));
    find_nonzeros(strip, count, &masks);
    uint32_t stored = *start;
    each_stored(masks, rows_of(plan.block, 0), [&](size_t position, size_t distance) {
      ++stored;
      *delta++ = static_cast<unsigned char>(distance);
      for (size_t r = 0; r < count; ++r) value[r] = strip[r * masks.size() + position];
      value += plan.block;
    });
    *++start = stored;
  }
  return QN_OK;
}

}  // namespace quern

#include "graph/file/sparse.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/math.h"
#include "base/status.h"
#include "graph/file/mapped_file.h"

namespace quern {

SparseParts sparse_parts(size_t block_rows, uint64_t positions, size_t block) {
  return {(uint64_t{block_rows} + 1) * sizeof(uint32_t), round_up<uint64_t>(positions, sizeof(float)),
          positions * block * sizeof(float)};
}

qn_status SparseConstant::read(std::span<const unsigned char> segment, size_t rows, size_t depth, size_t block,
                               Shared<const SparseConstant>* constant) {
  if (!std::has_single_bit(block) || block > 16) {
    return fail(QN_BAD_MODEL, "its blocks have %zu rows, not 1, 2, 4, 8 or 16", block);
  }
  const size_t block_rows = divide_up(rows, block);
  if (segment.size() / sizeof(uint32_t) <= block_rows) {
    return fail(QN_BAD_MODEL, "%zu bytes are too few for %zu rows", segment.size(), rows);
  }
  auto made = make_shared<SparseConstant>();
  made->segment_ = segment;
  made->rows_ = rows, made->row_bytes_ = depth * sizeof(float), made->item_ = sizeof(float);
  made->traffic_ = segment.size(), made->work_ = uint64_t{rows} * made->row_bytes_;
  made->block_ = block;
  Vector<uint32_t>& starts = made->starts_;
  starts.resize(block_rows + 1);
  std::memcpy(starts.data(), segment.data(), starts.size() * sizeof(uint32_t));
  if (starts[0] != 0) return fail(QN_BAD_MODEL, "its first row begins at position %u", starts[0]);
  for (size_t r = 0; r < block_rows; ++r) {
    if (starts[r + 1] < starts[r]) return fail(QN_BAD_MODEL, "row %zu has fewer than no positions", r * block);
  }
  const uint64_t size = sparse_parts(block_rows, starts.back(), block).total();
  if (size != segment.size()) {
    return fail(QN_BAD_MODEL, "%u positions take %llu bytes, not %zu", starts.back(),
                static_cast<unsigned long long>(size), segment.size());
  }
  for (size_t r = 0; r < block_rows; ++r) {
    if (!made->each_position(r, [](size_t, size_t) {})) {
      return fail(QN_BAD_MODEL, "a position of row %zu lies beyond its %zu elements", r * block, depth);
    }
  }
  *constant = std::move(made);
  return QN_OK;
}

const float* SparseConstant::values() const {
  const uint64_t before = sparse_parts(block_rows(), starts_.back(), 0).total();
  return reinterpret_cast<const float*>(segment_.data() + before);
}

// Calls visit(index, position) for all positions of a block row. Returns false if one lies beyond the row. Copies bytes
// before it looks at them, because a mapped file may change.
template <class Visit>
bool SparseConstant::each_position(size_t block_row, Visit&& visit) const {
  size_t next = 0;  // the position after the last one visited
  for (size_t at = starts_[block_row]; at < starts_[block_row + 1];) {
    unsigned char chunk[256];
    const size_t count = std::min<size_t>(sizeof chunk, starts_[block_row + 1] - at);
    std::memcpy(chunk, deltas() + at, count);
    for (size_t i = 0; i < count; ++i, ++at, ++next) {
      next += chunk[i];
      if (next >= depth()) return false;
      visit(at, next);
    }
  }
  return true;
}

qn_status SparseConstant::decode(size_t first, size_t count, void* to) const {
  std::memset(to, 0, count * row_bytes_);
  const size_t end = first + count;
  for (size_t r = first / block_; r * block_ < end; ++r) {
    const size_t begin_row = std::max(first, r * block_), end_row = std::min(end, (r + 1) * block_);
    float* rows = static_cast<float*>(to) + (begin_row - first) * depth();
    const float* from = values() + begin_row % block_;
    const bool inside = each_position(r, [&](size_t index, size_t position) {
      for (size_t c = 0; c < end_row - begin_row; ++c) rows[c * depth() + position] = from[index * block_ + c];
    });
    if (!inside) return fail(QN_BAD_MODEL, "sparse weights are not what they were when the model was loaded");
  }
  return QN_OK;
}

void SparseConstant::forget(size_t first, size_t count) const {
  const size_t begin = starts_[first / block_], end = starts_[divide_up(first + count, block_)];
  forget_pages(deltas() + begin, end - begin);
  forget_pages(values() + begin * block_, (end - begin) * block_ * sizeof(float));
}

}  // namespace quern

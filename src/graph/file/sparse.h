// Sparse constants: weights of which most are 0 and which stay in memory as nonzeros. model.fbs describes their
// segments.
#pragma once

#include <span>

#include "base/vector.h"
#include "graph/file/encoded.h"

namespace quern {

// A matrix of floats, which is read from the bytes of a segment without a copy of them. The owner of the object must
// keep these bytes alive.
class SparseConstant final : public EncodedConstant {
 public:
  // Checks the whole segment: sizes, counts and every position. Copies the counts but not the positions: decode()
  // checks each position again when it reads it, because a mapped file may change.
  static qn_status read(std::span<const unsigned char> segment, size_t rows, size_t depth, size_t block,
                        Shared<const SparseConstant>* constant);

  qn_status decode(size_t first, size_t count, void* to) const override;
  void forget(size_t first, size_t count) const override;

 private:
  size_t depth() const { return row_bytes_ / sizeof(float); }
  size_t block_rows() const { return starts_.size() - 1; }
  const unsigned char* deltas() const { return segment_.data() + starts_.size() * sizeof(uint32_t); }
  const float* values() const;
  template <class Visit>
  bool each_position(size_t block_row, Visit&& visit) const;

  size_t block_ = 0;
  Vector<uint32_t> starts_;  // index of each block row's first position; at the end the number of positions
};

// Each position is stored as one byte: the number of elements between it and the position before. If this many elements
// or more lie between two nonzeros, some of the zeros between them are stored, too.
constexpr size_t longest_step = 256;

// The sizes in bytes of a segment's parts, by the numbers of its block rows and positions. Values come last.
struct SparseParts {
  uint64_t starts, deltas, values;
  uint64_t total() const { return starts + deltas + values; }
};
SparseParts sparse_parts(size_t block_rows, uint64_t positions, size_t block);

}  // namespace quern

// Constants that stay as nonzeros: weights of which most are 0. model.fbs draws them.
#pragma once

#include <span>

#include "base/vector.h"
#include "graph/ir/ir.h"

namespace quern {

// A matrix of floats in the bytes of a segment, which are used where they lie; whoever holds this keeps them.
class SparseConstant {
 public:
  // Checks the whole segment: sizes, counts and every position. Copies the counts; of what is not copied, positions,
  // each decode() checks again what it reads, because a mapped file may change.
  static qn_status read(std::span<const unsigned char> segment, size_t rows, size_t depth, size_t block,
                        Shared<const SparseConstant>* constant);

  // Writes rows first .. first + count - 1, of depth() elements each.
  qn_status decode(size_t first, size_t count, float* to) const;
  // Lets go of the memory of those rows until they are read again; the file is mapped.
  void forget(size_t first, size_t count) const;

  size_t rows() const { return rows_; }
  size_t depth() const { return depth_; }
  size_t stored_bytes() const { return segment_.size(); }

 private:
  size_t block_rows() const { return starts_.size() - 1; }
  const unsigned char* deltas() const { return segment_.data() + starts_.size() * sizeof(uint32_t); }
  const float* values() const;
  template <class Visit>
  bool each_position(size_t block_row, Visit&& visit) const;

  std::span<const unsigned char> segment_;
  size_t rows_ = 0, depth_ = 0, block_ = 0;
  Vector<uint32_t> starts_;  // of each block row, in positions, and their number
};

// A distance between positions takes one byte; longer ones are made of several.
constexpr size_t longest_step = 256;

// The parts of a segment that has so many block rows and positions, in bytes; values come last.
struct SparseParts {
  uint64_t starts, deltas, values;
  uint64_t total() const { return starts + deltas + values; }
};
SparseParts sparse_parts(size_t block_rows, uint64_t positions, size_t block);

// Reads a constant that is a matrix of `rows` rows, sparse or not.
class ConstantRows {
 public:
  ConstantRows(const Constant& constant, size_t rows) : constant_(constant), rows_(rows) {}
  size_t depth() const { return constant_.bytes / sizeof(float) / rows_; }
  // Rows first .. first + count - 1, until the next call.
  qn_status read(size_t first, size_t count, const float** data);

 private:
  const Constant& constant_;
  size_t rows_;
  Vector<float> strip_;
};

// Bytes that the constant takes where it lies.
size_t stored_bytes(const Constant& constant);

// For who needs all elements at once: sparse constants become dense ones.
qn_status make_dense(Graph& graph);

}  // namespace quern

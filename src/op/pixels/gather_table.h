// Tables for the kernels of kernel/gather.h, which gather single pixels of a row into vectors.
#pragma once

#include "base/tensor.h"
#include "base/vector.h"
#include "kernel/gather.h"
#include "kernel/select.h"

namespace quern {

// Several tables for the kernel with `lanes` lanes. To make one: begin(), then add() for each pixel in order, then
// end().
class GatherTables {
 public:
  static constexpr size_t nowhere = SIZE_MAX;

  explicit GatherTables(size_t lanes)
      : row_(*select(gather_rows(), KernelType::f32, nullptr,
                     [&](const GatherRow& row) { return row.lanes == lanes; })) {}

  void begin() {
    tables_.push_back({pieces_.size(), 0});
    lane_ = 0;
  }
  // Adds the next pixel. It lies `offset` bytes after the beginning of a row, at most INT32_MAX; with `nowhere` it is
  // 0.
  void add(size_t offset) {
    if (lane_ == 0) first_ = pieces_.size(), ++tables_.back().vectors;
    if (offset != nowhere) {
      const auto at = static_cast<int32_t>(offset) - static_cast<int32_t>(lane_ * sizeof(float));
      if (pieces_.size() == first_ || pieces_.back().offset != at) pieces_.push_back({at, 0, 0});
      pieces_.back().lanes = static_cast<uint16_t>(pieces_.back().lanes | 1u << lane_);
    }
    if (++lane_ == row_.lanes) end();
  }
  // Ends the table; the rest of its last vector is 0.
  void end() {
    if (lane_ == 0) return;
    if (pieces_.size() == first_) pieces_.push_back({0, 0, 0});
    pieces_.back().last = 1;
    lane_ = 0;
  }

  void run(size_t table, size_t rows, const void* a, size_t a_stride, void* c, size_t c_stride) const {
    row_.run(rows, tables_[table].vectors, &pieces_[tables_[table].first], a, a_stride, c, c_stride);
  }

 private:
  struct Table {
    size_t first, vectors;
  };
  const GatherRow& row_;
  Vector<qn_gather_piece> pieces_;
  Vector<Table> tables_;
  size_t lane_ = 0, first_ = 0;  // next lane and first piece of the vector under construction
};

}  // namespace quern

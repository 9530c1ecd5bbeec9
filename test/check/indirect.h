// Rows of an image reached through a table of offsets, as igemm, dwconv and pool read them.
#pragma once

#include <functional>
#include <vector>

#include "checker.h"

namespace quern::check {

class IndirectRows {
 public:
  // Each of `entries` names a row of `length` floats; or none (padding), now and then, where `may_pad` allows it. Rows
  // occur several times or once, in no order.
  IndirectRows(size_t entries, size_t length, Values values, Random& random,
               const std::function<bool(size_t entry)>& may_pad);

  // The row of an entry, nullptr for padding.
  const float* row(size_t entry) const {
    return rows_[entry] < 0 ? nullptr : &data_[static_cast<size_t>(rows_[entry]) * length_];
  }
  bool pads() const;

  // Places the image with `gap` unused floats between its rows.
  void place(Guarded& image, Side side, size_t gap) const;
  // Places the first `entries` of the table; those for which `unused` holds name a row far away from everything.
  void place_table(Guarded& table, Side side, size_t gap, size_t entries,
                   const std::function<bool(size_t entry)>& unused) const;

 private:
  size_t length_, count_;
  std::vector<int32_t> rows_;  // number of the row for each entry
  std::vector<float> data_;
};

// Places zeros, or not a single byte when nobody may read them.
void place_zeros(Guarded& zero, Side side, size_t length, bool wanted);

}  // namespace quern::check

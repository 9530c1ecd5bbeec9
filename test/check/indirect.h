// Rows of an image reached through a table of offsets, as igemm, dwconv and pool read them.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "checker.h"

namespace quern::check {

// May this entry be padding?
using MayPad = std::function<bool(size_t entry)>;

// Each of `entries` names one of `rows` rows; or none (padding), now and then. Rows occur several times or once, in no
// order.
std::vector<int32_t> draw_entries(size_t entries, size_t rows, Random& random, const MayPad& may_pad);

template <class T>
class IndirectRows {
 public:
  // The values of the rows come from draw().
  template <class Draw>
  IndirectRows(size_t entries, size_t length, Draw&& draw, Random& random, const MayPad& may_pad)
      : table_{entries / 2 + 1, length, {}}, data_(table_.rows * length) {
    for (T& x : data_) x = draw();
    table_.entries = draw_entries(entries, table_.rows, random, may_pad);
  }

  // The row of an entry, nullptr for padding.
  const T* row(size_t entry) const {
    const int32_t number = table_.entries[entry];
    return number < 0 ? nullptr : &data_[static_cast<size_t>(number) * table_.length];
  }
  const operands::RowTable& table() const { return table_; }
  void make_padding(size_t entry) { table_.entries[entry] = -1; }

  // Fills the image, whose rows lie `gap` elements apart.
  void write(Guarded& image, size_t gap) const {
    for (size_t i = 0; i < table_.rows; ++i) {
      std::copy_n(&data_[i * table_.length], table_.length, image.as<T>() + i * (table_.length + gap));
    }
  }

 private:
  operands::RowTable table_;
  std::vector<T> data_;
};

// Makes entries of a table that nobody may read name a row far away from everything.
void spoil_entries(Guarded& table, const std::function<bool(size_t entry)>& unused);

// Fills what is read for padding, if it is.
template <class T>
void write_padding(Guarded& zero, T value) {
  std::fill_n(zero.as<T>(), zero.size() / sizeof(T), value);
}

}  // namespace quern::check

#include "indirect.h"

#include <algorithm>

namespace quern::check {

IndirectRows::IndirectRows(size_t entries, size_t length, Values values, Random& random,
                           const std::function<bool(size_t entry)>& may_pad)
    : length_(length), count_(entries / 2 + 1), rows_(entries), data_(count_ * length) {
  random.fill(data_, values);
  for (size_t i = 0; i < entries; ++i) {
    rows_[i] = may_pad(i) && random.below(5) == 0 ? -1 : static_cast<int32_t>(random.below(count_));
  }
  // Both ends of the image are in use, for it lies flush.
  rows_[0] = static_cast<int32_t>(count_ - 1);
  if (entries > 1) rows_[1] = 0;
}

bool IndirectRows::pads() const {
  return std::any_of(rows_.begin(), rows_.end(), [](int32_t row) { return row < 0; });
}

void IndirectRows::place(Guarded& image, Side side, size_t gap) const {
  const size_t stride = length_ + gap;
  image.place((count_ * stride - gap) * 4, side);
  for (size_t i = 0; i < count_; ++i) std::copy_n(&data_[i * length_], length_, image.floats() + i * stride);
}

void IndirectRows::place_table(Guarded& table, Side side, size_t gap, size_t entries,
                               const std::function<bool(size_t entry)>& unused) const {
  constexpr int32_t far_away = 0x7fff0000;
  const auto stride = static_cast<int32_t>((length_ + gap) * 4);
  table.place(entries * 4, side);
  for (size_t i = 0; i < entries; ++i) {
    table.ints()[i] = unused(i) ? far_away : rows_[i] < 0 ? -1 - static_cast<int32_t>(i % 3) * 4 : rows_[i] * stride;
  }
}

void place_zeros(Guarded& zero, Side side, size_t length, bool wanted) {
  zero.place(wanted ? length * 4 : 0, side);
  if (wanted) std::fill_n(zero.floats(), length, 0.0f);
}

}  // namespace quern::check

#include "operands/layout.h"

#include <algorithm>

namespace quern::operands {

bool RowTable::pads() const {
  return std::any_of(entries.begin(), entries.end(), [](int32_t row) { return row < 0; });
}

// Any negative number stands for padding, so several do.
void RowTable::write(int32_t* table, size_t count, size_t stride) const {
  for (size_t i = 0; i < count; ++i) {
    const auto padding = -1 - static_cast<int32_t>(i % 3) * 4;
    table[i] = entries[i] < 0 ? padding : entries[i] * static_cast<int32_t>(stride);
  }
}

RowTable column_table(size_t columns, size_t height, size_t channels) {
  RowTable table = {columns * height, channels, {}};
  for (size_t x = 0; x < columns; ++x) {
    for (size_t y = 0; y < height; ++y) table.entries.push_back(static_cast<int32_t>(y * columns + x));
  }
  return table;
}

RowTable neighbour_table(size_t kernel, size_t mr, size_t channels) {
  const size_t width = mr + kernel - 1;
  RowTable table = {kernel * width, channels, {}};
  for (size_t t = 0; t < kernel * kernel; ++t) {
    for (size_t m = 0; m < mr; ++m) {
      table.entries.push_back(static_cast<int32_t>(t / kernel * width + t % kernel + m));
    }
  }
  return table;
}

size_t points_bytes(size_t outputs, size_t rows, size_t columns, size_t stride, size_t point) {
  size_t last = 0;
  for_points(outputs, rows, columns, [&](size_t i, size_t j) { last = i * (outputs + 2) + j; });
  return last * stride + point;
}

}  // namespace quern::operands

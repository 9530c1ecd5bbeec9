#include "base/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

namespace quern {
namespace math_test {

template <class T, class Less = std::less<>>
void expect_sorted(std::vector<T> values, Less less = {}) {
  std::vector<T> sorted = values;
  std::sort(sorted.begin(), sorted.end(), less);
  heap_sort(values.data(), values.data() + values.size(), less);
  EXPECT_EQ(values, sorted);
}

TEST(HeapSort, SortsAllSizes) {
  std::mt19937 random(1);
  for (size_t count = 0; count < 200; ++count) {
    std::vector<uint16_t> few(count);
    for (uint16_t& value : few) value = static_cast<uint16_t>(random() % 20);
    expect_sorted(few);
    expect_sorted(few, std::greater<>());
  }
  expect_sorted<std::string_view>({"b", "", "abc", "a", "b", "ab"});
}

}  // namespace math_test
}  // namespace quern

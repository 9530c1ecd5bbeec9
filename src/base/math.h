// Integer helpers.  Sizes come from users and files: products and sums of them are checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace quern {

// False when the result does not fit.
template <class T>
[[nodiscard]] inline bool checked_mul(T a, T b, T* result) {
  return !__builtin_mul_overflow(a, b, result);
}
template <class T>
[[nodiscard]] inline bool checked_add(T a, T b, T* result) {
  return !__builtin_add_overflow(a, b, result);
}

template <class T>
constexpr T divide_up(T a, T b) {
  return (a + b - 1) / b;
}
template <class T>
constexpr T round_up(T a, T b) {
  return divide_up(a, b) * b;
}

// For what is sorted once in a while: std::sort is several times the code, and stable_sort takes memory of its own.
template <class Iterator, class Less>
void heap_sort(Iterator begin, Iterator end, Less less) {
  std::make_heap(begin, end, less);
  std::sort_heap(begin, end, less);
}

// A slice's bound in a dimension of this size: values below 0 count from behind, -1 is the size itself.
constexpr int64_t slice_bound(int64_t value, size_t size) {
  return value < 0 ? static_cast<int64_t>(size) + 1 + value : value;
}

}  // namespace quern

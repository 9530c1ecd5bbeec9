// Integer helpers.  Sizes come from users and files: products and sums of them are checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

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

// Adds modulo 2^32, as vector instructions do.
constexpr int32_t wrapping_add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

template <class T>
constexpr T divide_up(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}
template <class T>
constexpr T round_up(T a, std::type_identity_t<T> b) {
  return divide_up(a, b) * b;
}

// Sorts elements of `size` bytes each, at most 16, in ascending order.
void heap_sort_bytes(void* elements, size_t count, size_t size, bool (*less)(const void*, const void*, void*),
                     void* context);

// Sorts a range. Meant for code that sorts once in a while: std::sort takes several times the code, and all types share
// this one.
template <class T, class Less>
void heap_sort(T* begin, T* end, Less less) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  const auto compare = [](const void* a, const void* b, void* context) -> bool {
    return (*static_cast<Less*>(context))(*static_cast<const T*>(a), *static_cast<const T*>(b));
  };
  heap_sort_bytes(begin, static_cast<size_t>(end - begin), sizeof(T), compare, &less);
}

// Turns a slice's bound in a dimension of this size into an index: values below 0 count from the end, -1 is the size.
constexpr int64_t slice_bound(int64_t value, size_t size) {
  return value < 0 ? static_cast<int64_t>(size) + 1 + value : value;
}

}  // namespace quern

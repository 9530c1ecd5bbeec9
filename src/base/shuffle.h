// Permutes the elements of two vectors of the compiler's vector types.
#pragma once

#include <cstddef>

namespace quern {

// Returns a vector whose elements have these indices in `a` followed by `b`. It may have fewer elements than `a`.
template <int... index, class V>
[[gnu::always_inline]] inline auto shuffle(V a, V b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, index...);
#else  // GCC 11
  using Indices = decltype(a == b);
  constexpr int count = sizeof(V) / sizeof(a[0]);
  if constexpr (sizeof...(index) == count) {
    return __builtin_shuffle(a, b, Indices{index...});
  } else {
    auto element = a[0];
    typedef decltype(element) Result __attribute__((vector_size(sizeof...(index) * sizeof(element))));
    return Result{(index < count ? a : b)[index % count]...};
  }
#endif
}

}  // namespace quern

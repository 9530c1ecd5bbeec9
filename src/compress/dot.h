// Dot product of vectors of double.
#pragma once

#include <cstddef>
#include <numeric>

namespace quern {

inline double dot(const double* a, const double* b, size_t n) {
  constexpr size_t lanes = 8;  // sums that do not wait for one another
  double sums[lanes] = {}, rest = 0;
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (size_t k = 0; k < lanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) rest += a[i] * b[i];
  return std::accumulate(sums, sums + lanes, rest);
}

}  // namespace quern

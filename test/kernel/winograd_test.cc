// The transforms of winograd_math.h are what they claim to be: exactly, for their constants are.
#include "kernel/winograd_math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern {
namespace {

// Column `column` of the matrix that a transform is.
template <size_t n, size_t rows, class Transform>
void column_of(Transform transform, size_t column, double (&result)[rows]) {
  double unit[n] = {};
  unit[column] = 1;
  transform(unit, result);
}

// Output k of the correlation is the sum over taps t of w[t] * d[k + t], whatever w and d: so for units.
template <size_t m>
void check_identity() {
  constexpr size_t n = m + 2;
  double input[n][n], output[n][m];  // by columns
  for (size_t i = 0; i < n; ++i) {
    column_of<n>([](const double(&d)[n], double(&v)[n]) { Winograd<m>::input(d, v); }, i, input[i]);
    column_of<n>([](const double(&p)[n], double(&y)[m]) { Winograd<m>::output(p, y); }, i, output[i]);
  }
  for (size_t k = 0; k < m; ++k) {
    for (size_t tap = 0; tap < 3; ++tap) {
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) sum += output[j][k] * Winograd<m>::taps[j][tap] * input[i][j];
        EXPECT_NEAR(sum, i == k + tap ? 1 : 0, 1e-14) << "m=" << m << " k=" << k << " tap=" << tap << " i=" << i;
      }
    }
  }
}

TEST(WinogradMath, IsACorrelationWithThreeTaps) {
  check_identity<2>();
  check_identity<4>();
  check_identity<6>();
}

}  // namespace
}  // namespace quern

// The transforms of winograd_math.h are what they claim to be: exactly, for their constants are.
#include "kernel/winograd_math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern {
namespace winograd_test {

// Column `column` of the matrix that a transform is.
template <size_t n, size_t rows, class Transform>
void column_of(Transform transform, size_t column, double (&result)[rows]) {
  double unit[n] = {};
  unit[column] = 1;
  transform(unit, result);
}

// Output y of the correlation is the sum over taps t of w[t] * d[y + t], whatever w and d: so for units. Of `some`
// outputs, the last needs the last product, and it alone.
template <size_t m, size_t some = m>
void check_identity() {
  constexpr size_t n = some + 2;
  double input[n][n], output[n][some];  // by columns
  for (size_t i = 0; i < n; ++i) {
    column_of<n>([](const double(&d)[n], double(&v)[n]) { Winograd<m, some>::input(d, v); }, i, input[i]);
    column_of<n>([](const double(&p)[n], double(&y)[some]) { Winograd<m, some>::output(p, y); }, i, output[i]);
  }
  for (size_t y = 0; y < some; ++y) {
    EXPECT_EQ(output[n - 1][y] != 0, y == some - 1);
    for (size_t tap = 0; tap < 3; ++tap) {
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) {
          const size_t point = j + 1 < n ? j : m + 1;
          sum += output[j][y] * Winograd<m>::taps[point][tap] * input[i][j];
        }
        EXPECT_NEAR(sum, i == y + tap ? 1 : 0, 1e-14)
            << "m=" << m << " of which " << some << " y=" << y << " tap=" << tap << " i=" << i;
      }
    }
  }
}

TEST(WinogradMath, IsACorrelationWithThreeTaps) {
  check_identity<2>();
  check_identity<4>();
  check_identity<6>();
}

TEST(WinogradMath, FewerOutputsAreMadeWithTheSameWeights) {
  check_identity<4, 2>();
  check_identity<6, 4>();
  check_identity<6, 2>();
}

}  // namespace winograd_test
}  // namespace quern

// Ranges from histograms, against the values that were counted.
#include "compress/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "run.h"

namespace quern {
namespace ranges_test {

using namespace compress_test;

constexpr RangeMethod all_methods[] = {RangeMethod::minmax, RangeMethod::percentile, RangeMethod::mse, RangeMethod::kl,
                                       RangeMethod::admm};

Range range_of(const Floats& values, RangeMethod method) {
  Histogram histogram;
  const size_t half = values.size() / 2;  // as of two samples
  histogram.add(values.data(), half);
  histogram.add(values.data() + half, values.size() - half);
  return histogram.range(method);
}

Floats normal(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  Floats values(count);
  for (float& x : values) x = std::normal_distribution<float>()(generator);
  return values;
}

// What tensors look like: most values are small, one of a thousand is large.
Floats with_outliers(size_t count, unsigned seed) {
  Floats values = normal(count, seed);
  for (size_t i = 0; i < count; i += 1000) values[i] *= 5;
  return values;
}

// After an activation: half of them 0.
Floats activations(size_t count, unsigned seed) {
  Floats values = with_outliers(count, seed);
  for (float& x : values) x = std::max(x, 0.0f);
  return values;
}

double mean_square_error(const Floats& values, const Range& range) {
  const Quantization numbers = numbers_of(range);
  const double scale = double{numbers.scales[0]}, zero = numbers.zero_points[0];
  double sum = 0;
  for (const float x : values) {
    const double step = std::clamp(std::nearbyint(double{x} / scale) + zero, -128.0, 127.0);
    sum += std::pow(double{x} - (step - zero) * scale, 2);
  }
  return sum / static_cast<double>(values.size());
}

TEST(Ranges, AreOfOneValueAndOfNone) {
  for (const RangeMethod method : all_methods) {
    EXPECT_EQ(range_of({}, method), (Range{0, 0}));
    EXPECT_EQ(range_of({0, 0}, method), (Range{0, 0}));
    EXPECT_EQ(range_of({-3, -3}, RangeMethod::minmax), (Range{-3, 0}));
    const Range one = range_of(Floats(1000, 5), method);
    EXPECT_EQ(one.low, 0);
    EXPECT_NEAR(one.high, 5, 0.1) << range_methods[static_cast<int>(method)];
  }
}

TEST(Ranges, AreNotFiniteWhereAValueIsNot) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const RangeMethod method : all_methods) {
    for (const float wrong : {infinity, -infinity, nan, -nan}) {
      const Range range = range_of({1, wrong, 2}, method);
      EXPECT_FALSE(std::isfinite(range.low) && std::isfinite(range.high)) << wrong;
    }
  }
}

TEST(Ranges, OfMinmaxCoverAllValues) {
  const Range range = range_of({0.5f, -0.25f, 3, 1e-30f, 2}, RangeMethod::minmax);
  EXPECT_EQ(range, (Range{-0.25f, 3}));
}

TEST(Ranges, OfPercentileLeaveOutOneOfAHundredThousand) {
  Floats values = normal(400000, 1);
  values[7] = 1000, values[300007] = -500;  // of those at most 2 at either end
  const Range range = range_of(values, RangeMethod::percentile);
  const auto outside = std::count_if(values.begin(), values.end(), [&](float x) { return x > range.high; });
  const auto below = std::count_if(values.begin(), values.end(), [&](float x) { return x < range.low; });
  EXPECT_LE(outside, 2);
  EXPECT_LE(below, 2);
  EXPECT_LT(range.high, 8);
  EXPECT_GT(range.low, -8);
}

// No other pair of limits, tried on the values themselves, is better by more than what bins are off.
TEST(Ranges, OfLeastErrorHaveIt) {
  Floats skewed = normal(20000, 3);
  for (float& x : skewed) x = x * x * x - 0.5f;
  for (const Floats& values : {with_outliers(20000, 2), activations(20000, 2), skewed}) {
    const Range all = range_of(values, RangeMethod::minmax), found = range_of(values, RangeMethod::mse);
    double best = std::numeric_limits<double>::infinity();
    for (int low = 1; low <= 25; ++low) {
      for (int high = 1; high <= 25; ++high) {
        const Range range = {all.low * static_cast<float>(low) / 25, all.high * static_cast<float>(high) / 25};
        best = std::min(best, mean_square_error(values, range));
      }
    }
    EXPECT_LT(mean_square_error(values, found), 1.03 * best);
    EXPECT_LT(mean_square_error(values, found), mean_square_error(values, all));
  }
}

TEST(Ranges, OfAdmmReduceTheError) {
  for (const Floats& values : {with_outliers(20000, 4), activations(20000, 4)}) {
    const Range all = range_of(values, RangeMethod::minmax), found = range_of(values, RangeMethod::admm);
    EXPECT_LT(mean_square_error(values, found), 0.999 * mean_square_error(values, all));
    EXPECT_NEAR(found.low * all.high, found.high * all.low, 1e-5);
  }
}

// Zeros are exact in any range, so their number says nothing. One value far from all others must not widen the steps.
TEST(Ranges, OfLeastDivergenceLeaveOutWhatIsRare) {
  Floats values = activations(50000, 5);
  values[1234] = 400;
  const Range found = range_of(values, RangeMethod::kl);
  EXPECT_GT(found.high, 4);
  EXPECT_LT(found.high, 120);
  values.resize(500000);
  EXPECT_EQ(range_of(values, RangeMethod::kl), found);
  // Without such a value, all are covered.
  const Floats even = random(50000, 6, 0, 1);
  EXPECT_GT(range_of(even, RangeMethod::kl).high, 0.98f);
}

// The same as counting values that saturate, but for those in a bin with the limit: 1/128 of their size.
TEST(Ranges, SaturationIsThePartOutside) {
  const Floats values = activations(100'000, 3);
  Histogram histogram;
  histogram.add(values.data(), values.size());
  for (const RangeMethod method : all_methods) {
    const Quantization numbers = numbers_of(histogram.range(method));
    const double scale = double{numbers.scales[0]}, zero = numbers.zero_points[0];
    const auto outside = std::count_if(values.begin(), values.end(), [&](float x) {
      const double step = std::nearbyint(double{x} / scale) + zero;
      return step < -128 || step > 127;
    });
    const double expected = static_cast<double>(outside) / static_cast<double>(values.size());
    EXPECT_NEAR(histogram.saturation(numbers), expected, 0.05 * expected + 1e-5) << static_cast<int>(method);
    if (method == RangeMethod::minmax) {
      EXPECT_EQ(histogram.saturation(numbers), 0);
    }
  }
  EXPECT_EQ(Histogram().saturation(numbers_of({-1, 1})), 0);
  const Floats zeros(10, 0.0f), large = {-3, 5, 0, 0};
  Histogram some;
  some.add(zeros.data(), zeros.size());
  EXPECT_EQ(some.saturation(numbers_of({-1, 1})), 0);
  some.add(large.data(), large.size());
  EXPECT_NEAR(some.saturation(numbers_of({-1, 1})), 2.0 / 14, 1e-12);
}

}  // namespace ranges_test
}  // namespace quern

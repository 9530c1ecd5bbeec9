#include "compress/ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "compress/rounding.h"

namespace quern {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// A bin has the upper bits of an f32 in common: 128 bins for each power of 2, so that no range is needed beforehand.
constexpr unsigned bin_bits = 16;
constexpr size_t bins_of_a_sign = 0x8000;

using Bin = Histogram::Bin;

Range scaled(const Range& range, double low, double high) {
  return {static_cast<float>(double{range.low} * low), static_cast<float>(double{range.high} * high)};
}

double values_in(const Vector<Bin>& bins) {
  double sum = 0;
  for (const Bin& bin : bins) sum += bin.count;
  return sum;
}

// The steps of an int8 tensor with a range.
struct Steps {
  double scale, zero;

  explicit Steps(const Range& range) {
    const Quantization numbers = numbers_of(range);
    scale = double{numbers.scales[0]};
    zero = numbers.zero_points[0];
  }
  double nearest(double value) const { return std::clamp(std::nearbyint(value / scale) + zero, -128.0, 127.0) - zero; }
};

// ---- percentile -------------------------------------------------------------------------------

constexpr double outside = 1e-5;  // the part of the values but zeros that saturates, half of it at either end

Range covering(const Vector<Bin>& bins, const Range& all) {
  const double cut = values_in(bins) * outside / 2;
  Range range = all;
  double sum = 0;
  for (size_t i = 0; i + 1 < bins.size() && (sum += bins[i].count) <= cut; ++i)
    range.low = static_cast<float>(std::min(bins[i + 1].low, 0.0));
  sum = 0;
  for (size_t i = bins.size(); i-- > 1 && (sum += bins[i].count) <= cut;)
    range.high = static_cast<float>(std::max(bins[i - 1].high, 0.0));
  return range;
}

// ---- least mean square error ------------------------------------------------------------------

// The sum of squares of rounding errors and of what saturates.
double square_error(const Vector<Bin>& bins, const Range& range) {
  const Steps steps(range);
  double sum = 0;
  for (const Bin& bin : bins) {
    const double width = bin.high - bin.low, middle = bin.middle();
    const double error = middle - steps.nearest(middle) * steps.scale;
    // The values of a wide bin have any rounding error; those of a narrow one are about the middle.
    const bool any = width > steps.scale && std::abs(error) <= steps.scale / 2;
    sum += bin.count * (any ? steps.scale * steps.scale / 12 : error * error + width * width / 12);
  }
  return sum;
}

Range least_square_error(const Vector<Bin>& bins, const Range& all) {
  constexpr int parts = 100, rounds = 2;
  double best = square_error(bins, all), low = 1, high = 1;
  const auto attempt = [&](double try_low, double try_high) {
    const double error = square_error(bins, scaled(all, try_low, try_high));
    if (error < best) best = error, low = try_low, high = try_high;
  };
  for (int round = 0; round < rounds; ++round) {
    for (int i = 1; i < parts; ++i) attempt(low, i / double{parts});
    for (int i = 1; i < parts; ++i) attempt(i / double{parts}, high);
  }
  return scaled(all, low, high);
}

// ---- ADMM -------------------------------------------------------------------------------------

// The zero point remains that of all values.
Range alternated(const Vector<Bin>& bins, const Range& all) {
  constexpr int iterations = 100;
  Steps steps(all);
  const double first = steps.scale;
  for (int i = 0; i < iterations; ++i) {
    double products = 0, squares = 0;
    for (const Bin& bin : bins) {
      const double step = steps.nearest(bin.middle());
      products += bin.count * step * bin.middle();
      squares += bin.count * step * step;
    }
    if (!(products > 0)) break;
    steps.scale = products / squares;
  }
  return scaled(all, std::min(steps.scale / first, 1.0), std::min(steps.scale / first, 1.0));
}

// ---- Kullback-Leibler divergence --------------------------------------------------------------

constexpr size_t levels = 255, columns = 2048;

// The histogram with columns of one width, over all values.
Vector<double> even_histogram(const Vector<Bin>& bins, const Range& all) {
  const double width = (double{all.high} - double{all.low}) / columns;
  Vector<double> even(columns, 0.0);
  for (const Bin& bin : bins) {
    const double begin = std::max((bin.low - double{all.low}) / width, 0.0);
    const double end = std::clamp((bin.high - double{all.low}) / width, 0.0, double{columns});
    const auto first = std::min(static_cast<size_t>(begin), columns - 1);
    for (size_t c = first; c == first || (c < columns && static_cast<double>(c) < end); ++c) {
      const double part = std::min(end, static_cast<double>(c + 1)) - std::max(begin, static_cast<double>(c));
      even[c] += end - begin > 0 ? bin.count * std::clamp(part / (end - begin), 0.0, 1.0) : bin.count;
    }
  }
  return even;
}

// The divergence of columns first..last - 1 when those of a level are alike. What is outside saturates.
double divergence(const Vector<double>& even, size_t first, size_t last) {
  Vector<double> before(even.begin() + first, even.begin() + last);
  for (size_t c = 0; c < first; ++c) before.front() += even[c];
  for (size_t c = last; c < columns; ++c) before.back() += even[c];
  const size_t count = last - first;
  double sum = 0, inside = 0, total = 0;
  for (const double x : before) total += x;
  for (size_t c = first; c < last; ++c) inside += even[c];
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * count / levels, end = (level + 1) * count / levels;
    double values = 0, filled = 0;
    for (size_t c = begin; c < end; ++c) values += even[first + c], filled += even[first + c] > 0;
    for (size_t c = begin; c < end; ++c) {
      if (before[c] == 0) continue;
      const double p = before[c] / total, q = even[first + c] > 0 ? values / filled / inside : 0;
      sum += p * std::log(p / std::max(q, 1e-12));
    }
  }
  return sum;
}

Range least_divergence(const Vector<Bin>& bins, const Range& all) {
  constexpr size_t parts = 128;
  const Vector<double> even = even_histogram(bins, all);
  const double zero = -double{all.low} / (double{all.high} - double{all.low}) * columns;
  double best = std::numeric_limits<double>::infinity(), part = 1;
  for (size_t i = parts; i >= parts / 4; --i) {
    const double kept = static_cast<double>(i) / parts;
    const auto first = static_cast<size_t>(zero * (1 - kept));
    const auto last = std::min(static_cast<size_t>(std::ceil(zero + (columns - zero) * kept)), columns);
    const double loss = divergence(even, first, last);
    if (loss < best) best = loss, part = kept;
  }
  return scaled(all, part, part);
}

}  // namespace

void Range::add(const float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    low = std::min(low, data[i]);
    high = std::max(high, data[i]);
    if (std::isnan(data[i])) high = infinity;
  }
}

Quantization numbers_of(const Range& range) {
  const double width = double{range.high} - double{range.low};
  const float scale = width > 0 ? std::max(static_cast<float>(width / 255), smallest_scale) : 1.0f;
  const double zero = std::nearbyint(-128 - double{range.low} / double{scale});
  return {{scale}, {static_cast<int32_t>(std::clamp(zero, -128.0, 127.0))}, -1};
}

Range range_of(const Quantization& numbers) {
  const auto value_of = [&](int step) {
    return static_cast<float>((step - numbers.zero_points[0]) * double{numbers.scales[0]});
  };
  return {value_of(-128), value_of(127)};
}

Histogram::Histogram() : counts_(2 * bins_of_a_sign, 0) {}

void Histogram::add(const float* data, size_t count) {
  all_.add(data, count);
  for (size_t i = 0; i < count; ++i) ++counts_[std::bit_cast<uint32_t>(data[i]) >> bin_bits];
}

// Without zeros, which are exact in any range.
Vector<Histogram::Bin> Histogram::bins() const {
  Vector<Bin> bins;
  const auto edge = [](size_t index) { return double{std::bit_cast<float>(static_cast<uint32_t>(index << bin_bits))}; };
  for (size_t i = bins_of_a_sign; i-- > 1;) {
    const size_t at = i + bins_of_a_sign;
    if (counts_[at] != 0) bins.push_back({std::max(-edge(i + 1), double{all_.low}), -edge(i), double(counts_[at])});
  }
  for (size_t i = 1; i < bins_of_a_sign; ++i) {
    if (counts_[i] != 0) bins.push_back({edge(i), std::min(edge(i + 1), double{all_.high}), double(counts_[i])});
  }
  return bins;
}

double Histogram::saturation(const Quantization& numbers) const {
  const Range range = range_of(numbers);
  // A little more, because a range of all values may end a rounding error before the largest.
  const double half = double{numbers.scales[0]} * 0.500001;
  const double low = double{range.low} - half, high = double{range.high} + half;
  double saturated = 0, all = static_cast<double>(counts_[0] + counts_[bins_of_a_sign]);  // the zeros
  for (const Bin& bin : bins()) {
    all += bin.count;
    const double width = bin.high - bin.low, out = std::max({bin.high - high, low - bin.low, 0.0});
    if (out > 0) saturated += width > 0 ? bin.count * std::min(out / width, 1.0) : bin.count;
  }
  return all == 0 ? 0 : saturated / all;
}

Range Histogram::range(RangeMethod method) const {
  if (!std::isfinite(all_.low) || !std::isfinite(all_.high) || all_ == Range{}) return all_;
  switch (method) {
    case RangeMethod::minmax: return all_;
    case RangeMethod::percentile: return covering(bins(), all_);
    case RangeMethod::mse: return least_square_error(bins(), all_);
    case RangeMethod::kl: return least_divergence(bins(), all_);
    case RangeMethod::admm: return alternated(bins(), all_);
  }
  return all_;
}

}  // namespace quern

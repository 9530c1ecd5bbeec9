// Says whether affine steps may become one: what their roundings may lose, and where they overflow.
#include <limits>
#include <span>

#include "graph/pass/affine.h"

namespace quern {
namespace {

constexpr double largest_float = double{std::numeric_limits<float>::max()};
constexpr double smallest_float = double{std::numeric_limits<float>::min()};  // but for denormals
constexpr double largest = largest_float * (1 + 0x1p-22);  // a little more: the last bits of a scale do not count

// Half an ulp of a float, the most that it loses by rounding. A little more is taken for it: a value nearby may have been
// rounded in its place.
double half_ulp(double x) { return std::ldexp(1.0, std::max(std::ilogb(x * (1 + 0x1p-20)), -126) - 24); }

double of_product(double scale, double product) {
  int exponent;
  return std::abs(std::frexp(scale, &exponent)) == 0.5 && std::abs(product) >= smallest_float ? 0 : half_ulp(product);
}

double of_sum(double bias, double sum) { return bias == 0 ? 0 : half_ulp(sum); }

struct Line {
  double scale = 1, bias = 0;
};

// The steps for one channel, and what they become.
struct ChannelSteps {
  Vector<Line> steps;
  Line merged;
  double low, high;                    // the range of x that no step clamps
  double nearest_zero, farthest_zero;  // |x| at which a sum is 0; 1 if there is none

  // Sets low and high, nearest_zero and farthest_zero.
  void limit(std::span<const Affine> functions, double begin, double end) {
    low = std::max(begin, -largest_float);
    high = std::min(end, largest_float);
    Line line;
    nearest_zero = infinity, farthest_zero = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      line = {line.scale * steps[i].scale, line.bias * steps[i].scale + steps[i].bias};
      if (line.scale == 0) continue;
      if (const double zero = std::abs(line.bias / line.scale); zero > 0) {
        nearest_zero = std::min(nearest_zero, zero);
        farthest_zero = std::max(farthest_zero, zero);
      }
      const double ends[] = {(double{functions[i].min} - line.bias) / line.scale,
                             (double{functions[i].max} - line.bias) / line.scale};
      low = std::max(low, std::min(ends[0], ends[1]));
      high = std::min(high, std::max(ends[0], ends[1]));
    }
    if (farthest_zero == 0) nearest_zero = farthest_zero = 1;
  }

  // Whether results are close at x. They differ by no more than half an ulp for each rounding, and by what the floats of
  // `merged` have lost. Since both are floats, they differ by a multiple of the ulp of the smaller one.
  bool are_close(double x) const {
    double y = x, error = 0;
    Line line;
    for (const Line& step : steps) {
      const double product = step.scale * y;
      y = product + step.bias;
      error = error * std::abs(step.scale) + of_product(step.scale, product) + of_sum(step.bias, y);
      line = {line.scale * step.scale, line.bias * step.scale + step.bias};
    }
    const double product = merged.scale * x;
    error += of_product(merged.scale, product) + of_sum(merged.bias, product + merged.bias) +
             std::abs((merged.scale - line.scale) * x) + std::abs(merged.bias - line.bias);
    const double bound = 8 * half_ulp(std::max(std::abs(product), std::abs(merged.bias))) + 0x1p-126;
    return error < bound + 2 * half_ulp(std::max(std::abs(y) - error, 0.0));
  }

  // Whether the result overflows wherever a step does. Then only the rest of the range counts.
  bool overflow_alike() {
    const double end = largest_float / std::abs(merged.scale);
    low = std::max(low, -end);
    high = std::min(high, end);
    for (double y : {low, high}) {
      for (const Line& step : steps) {
        const double product = step.scale * y;
        y = product + step.bias;
        if (std::abs(product) > largest || (std::abs(y) > largest && &step != &steps.back())) return false;
      }
    }
    return true;
  }

  // Between two x at which one of the values reaches a power of two, no rounding changes: x on both sides are tried. Far
  // from all x at which a sum is 0, one power is as good as another, but for denormals: a few are tried.
  bool are_close_around_powers(const Line& line) const {
    for (int exponent = -150; line.scale != 0 && exponent < 128; ++exponent) {
      for (const double power : {std::ldexp(1.0, exponent), -std::ldexp(1.0, exponent)}) {
        const double x = (power - line.bias) / line.scale;
        const bool far = std::abs(x) < nearest_zero * 0x1p-10 || std::abs(x) > farthest_zero * 0x1p10;
        if (far && exponent % 16 != 0 && exponent != -126 && exponent != -148) continue;
        for (const double near : {x * (1 - 0x1p-18), x * (1 + 0x1p-18)}) {
          if (near >= low && near <= high && !are_close(near)) return false;
        }
      }
    }
    return true;
  }

  bool are_close_everywhere() const {
    Line line;
    for (const Line& step : steps) {
      line = {line.scale * step.scale, line.bias * step.scale};
      if (!are_close_around_powers(line)) return false;
      line.bias += step.bias;
      if (!are_close_around_powers(line)) return false;
    }
    return are_close_around_powers({merged.scale, 0}) && are_close(low) && are_close(high) &&
           (low > 0 || high < 0 || are_close(0));
  }
};

}  // namespace

bool is_close_to_steps(const Affine& merged, std::span<const Affine> functions, double low, double high) {
  constexpr size_t most_channels = 8192;  // each takes some 50 us
  const size_t channels = std::max(merged.scale.size(), merged.bias.size());
  for (size_t i = 0; i < channels; ++i) {
    if (i == most_channels) return false;
    ChannelSteps channel;
    for (const Affine& f : functions) channel.steps.push_back({element(f.scale, i), element(f.bias, i)});
    channel.merged = {double{static_cast<float>(element(merged.scale, i))},
                      double{static_cast<float>(element(merged.bias, i))}};
    channel.limit(functions, low, high);
    if (channel.low > channel.high) continue;
    if (!channel.overflow_alike() || !channel.are_close_everywhere()) return false;
  }
  return true;
}

}  // namespace quern

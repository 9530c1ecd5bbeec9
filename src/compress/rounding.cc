#include "compress/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern {

int8_t WeightFormat::nearest(double steps) const {
  const double least = bits == 4 ? -8 : -127, most = bits == 4 ? 7 : 127;
  return static_cast<int8_t>(std::clamp(std::nearbyint(steps), least, most));
}

WeightFormat format_of_layer(const WeightFormat& wanted, size_t weights) {
  constexpr size_t small = 3000;
  return weights < small ? WeightFormat() : wanted;
}

float least_scale(float bias, float input_scale) {
  if (input_scale == 0) return 0;
  return static_cast<float>(double{std::abs(bias)} / most_bias / double{input_scale});
}

float scale_of_weights(const double* weights, size_t count, const WeightFormat& format, float least) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::abs(weights[i]) > std::abs(largest)) largest = weights[i];
  }
  if (largest == 0) return std::max(1.0f, least);
  if (format.bits == 8) {
    const auto last = static_cast<float>(std::abs(largest) / 127);
    return std::max(std::max(last, smallest_scale), least);
  }
  constexpr int parts = 128;
  double best = 0, error = std::numeric_limits<double>::infinity();
  const double sign = format.block != 0 && largest > 0 ? -1 : 1;
  for (int i = parts / 2; i <= parts + parts / 2; ++i) {
    const double scale = sign * std::abs(largest) / 8 * i / parts;
    double sum = 0;
    for (size_t k = 0; k < count; ++k) {
      const double lost = weights[k] - format.nearest(weights[k] / scale) * scale;
      sum += lost * lost;
    }
    if (sum < error) error = sum, best = scale;
  }
  if (std::abs(best) < double{smallest_scale}) return smallest_scale;
  return std::abs(best) < double{least} ? least : static_cast<float>(best);
}

}  // namespace quern

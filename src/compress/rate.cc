#include "compress/rate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quern {

void LevelRates::count(std::span<const int8_t> levels) {
  std::array<double, 2 * most + 1> counts;
  counts.fill(0.02);
  for (const int8_t level : levels) ++counts[static_cast<size_t>(level + most)];
  // Neighbours lend some of their counts, because the coder's tables are smooth.
  std::array<double, 2 * most + 1> smooth = counts;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (const size_t other : {i - 1, i + 1}) {
      if (other < counts.size()) smooth[i] += 0.05 * counts[other];
    }
  }
  const double all = std::accumulate(smooth.begin(), smooth.end(), 0.0);
  for (size_t i = 0; i < counts.size(); ++i) bits_[i] = std::log2(all / smooth[i]);
}

int8_t LevelRates::choose(double steps, double weight, double price) const {
  const double nearest = std::clamp(std::nearbyint(steps), double{-most}, double{most});
  const int first = static_cast<int>(nearest), towards_zero = first > 0 ? -1 : 1;
  const auto cost = [&](int level) {
    const double error = steps - level;
    return weight * error * error + price * bits(level);
  };
  int best = first;
  double least = cost(first);
  for (int level = first; level != 0;) {
    level += towards_zero;
    const double error = steps - level;
    if (weight * error * error >= least) break;  // so is that of all after it
    if (const double now = cost(level); now < least) least = now, best = level;
  }
  return static_cast<int8_t>(best);
}

}  // namespace quern

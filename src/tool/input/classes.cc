#include "tool/input/classes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quern {

std::vector<size_t> best_classes(const std::vector<double>& scores, size_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto better = [&](size_t a, size_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) {
      const bool nan_a = std::isnan(scores[a]), nan_b = std::isnan(scores[b]);
      return nan_a != nan_b ? nan_b : a < b;
    }
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), better);
  order.resize(count);
  return order;
}

std::vector<double> probabilities(std::vector<double> scores) {
  constexpr double rounding = 1e-2;  // sums of a thousand float16 values included
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  const bool negative = std::any_of(scores.begin(), scores.end(), [](double s) { return s < 0; });
  if (scores.empty() || (!negative && std::fabs(sum - 1) <= rounding)) return scores;
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& s : scores) total += s = std::exp(s - largest);
  for (double& s : scores) s /= total;
  return scores;
}

}  // namespace quern

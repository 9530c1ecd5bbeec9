// The median, which benchmarks report for repeated times.
#pragma once

#include <algorithm>
#include <vector>

// The middle one, or the mean of the two in the middle; there is at least one.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

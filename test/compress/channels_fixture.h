// Compares graphs that have lost channels with graphs in which these are zero.
#pragma once

#include <algorithm>
#include <cmath>

#include "compress/channels.h"
#include "run.h"

namespace quern::compress_test {

// Largest difference by largest expected value.
inline double difference(const Floats& expected, const Floats& actual) {
  EXPECT_EQ(expected.size(), actual.size());
  double largest = 0, error = 0;
  for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    EXPECT_TRUE(std::isfinite(expected[i]));
    largest = std::max(largest, std::fabs(double{expected[i]}));
    error = std::max(error, std::fabs(double{expected[i]} - double{actual[i]}));
  }
  return error == 0 ? 0 : error / largest;
}

inline Floats input_of(const Graph& graph, unsigned seed) {
  size_t count = 1;
  for (const size_t d : tensor_of(graph, graph.inputs[0].tensor).shape) count *= d;
  return random(count, seed);
}

// Plain sums: Winograd's algorithm alone would differ by more than the bound.
inline double expect_same_outputs(const Graph& zeroed, const Graph& smaller, unsigned seed) {
  const Floats x = input_of(zeroed, seed);
  const auto expected = run(zeroed, x, QN_ALGORITHM_IGEMM), actual = run(smaller, x, QN_ALGORITHM_IGEMM);
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].shape, actual[i].shape);
    worst = std::max(worst, difference(expected[i].floats, actual[i].floats));
  }
  EXPECT_LE(worst, 1e-5);
  return worst;
}

// Removes sets from one copy of the graph, and sets them to zero in another. Returns the difference of the outputs.
inline double expect_exact_removal(const Graph& graph, const Channels& channels, const Vector<bool>& removed,
                                   unsigned seed) {
  Graph zeroed = graph, smaller = graph;
  zero_channels(channels, removed, zeroed);
  const qn_status status = remove_channels(channels, removed, smaller);
  EXPECT_EQ(status, QN_OK) << qn_last_message();
  return status == QN_OK ? expect_same_outputs(zeroed, smaller, seed) : 0;
}

}  // namespace quern::compress_test

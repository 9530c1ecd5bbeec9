// What levels cost, and which are chosen.
#include "compress/rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace quern {
namespace rate_test {

TEST(LevelRates, FrequentLevelsCostLittle) {
  std::vector<int8_t> levels(1000, 0);
  for (size_t i = 0; i < 100; ++i) levels[i] = static_cast<int8_t>(i % 2 == 0 ? 5 : -5);
  LevelRates rates;
  rates.count(levels);
  EXPECT_NEAR(rates.bits(0), 0.15, 0.15);
  EXPECT_NEAR(rates.bits(5), rates.bits(-5), 1e-9);
  EXPECT_GT(rates.bits(5), 3.5);
  EXPECT_GT(rates.bits(60), rates.bits(6)) << "the neighbour of a level that occurs";
  EXPECT_GT(rates.bits(6), rates.bits(5));
}

TEST(LevelRates, NothingButAPriceMovesALevelFromTheNearest) {
  std::vector<int8_t> levels(900, 0);
  for (int i = -50; i <= 50; ++i) levels.push_back(static_cast<int8_t>(i));
  LevelRates rates;
  rates.count(levels);
  for (const double steps : {-300.0, -127.2, -3.4, -0.6, -0.2, 0.0, 0.7, 2.5, 44.9, 126.6, 1e9}) {
    const double nearest = std::clamp(std::nearbyint(steps), -127.0, 127.0);
    EXPECT_EQ(rates.choose(steps, 1, 0), nearest) << steps;
    EXPECT_EQ(rates.choose(steps, 1, 1e30), 0) << "zeros are the cheapest";
    double before = nearest;
    for (const double price : {0.01, 0.1, 1.0, 10.0}) {
      const double level = rates.choose(steps, 1, price);
      EXPECT_LE(std::abs(level), std::abs(before)) << steps;
      EXPECT_GE(level * nearest, 0) << "on the same side of zero";
      before = level;
    }
  }
}

}  // namespace rate_test
}  // namespace quern

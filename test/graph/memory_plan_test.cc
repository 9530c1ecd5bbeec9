#include "graph/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace quern {
namespace memory_plan_test {

void expect_valid(const Vector<Block>& blocks, size_t arena) {
  size_t highest = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& a = blocks[i];
    EXPECT_EQ(a.offset % cache_line, 0u);
    highest = std::max(highest, a.offset + a.bytes);
    for (size_t k = 0; k < i; ++k) {
      const Block& b = blocks[k];
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap && a.bytes > 0 && b.bytes > 0) << "blocks " << k << " and " << i;
    }
  }
  EXPECT_EQ(arena, highest);
}

// The most that is in use at one step: no plan can do with less.
size_t most_in_use(const Vector<Block>& blocks, size_t steps) {
  size_t most = 0;
  for (size_t step = 0; step < steps; ++step) {
    size_t sum = 0;
    for (const Block& b : blocks) sum += b.first <= step && step <= b.last ? b.bytes : 0;
    most = std::max(most, sum);
  }
  return most;
}

TEST(MemoryPlan, RandomLifetimes) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  size_t needed = 0, taken = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t steps = 1 + below(40);
    Vector<Block> blocks(1 + below(60));
    for (Block& b : blocks) {
      b.bytes = below(4) == 0 ? below(100) : below(100000);
      b.first = below(steps);
      b.last = std::min(steps - 1, b.first + below(6));
    }
    size_t arena;
    ASSERT_EQ(plan_memory(blocks, &arena), QN_OK);
    expect_valid(blocks, arena);
    const size_t least = most_in_use(blocks, steps);
    EXPECT_GE(arena, least);
    needed += least;
    taken += arena;
  }
  RecordProperty("percent_of_lower_bound", static_cast<int>(taken * 100 / needed));
  EXPECT_LT(taken, needed * 5 / 4);
}

TEST(MemoryPlan, AChainNeedsLittleMoreThanItsLargestNeighbours) {
  Vector<Block> blocks;
  for (size_t i = 0; i < 20; ++i) blocks.push_back({64 * (1 + (i * 7) % 10), i, i + 1, 0});
  size_t arena;
  ASSERT_EQ(plan_memory(blocks, &arena), QN_OK);
  expect_valid(blocks, arena);
  EXPECT_LE(arena, most_in_use(blocks, 22) * 110 / 100);
}

TEST(MemoryPlan, Nothing) {
  Vector<Block> blocks;
  size_t arena = 1;
  ASSERT_EQ(plan_memory(blocks, &arena), QN_OK);
  EXPECT_EQ(arena, 0u);
}

TEST(MemoryPlan, Overflow) {
  Vector<Block> blocks(3, {SIZE_MAX / 4 + 1, 0, 0, 0});
  size_t arena;
  EXPECT_EQ(plan_memory(blocks, &arena), QN_OUT_OF_MEMORY);
}

}  // namespace memory_plan_test
}  // namespace quern

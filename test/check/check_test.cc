// Every row of every table against its contract.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "base/cpu.h"
#include "checker.h"

namespace quern::check {
namespace check_test {

using Clock = std::chrono::steady_clock;

// What the whole run did, printed at its end.
struct Summary : testing::Environment {
  static inline size_t rows = 0, skipped = 0, cases = 0;
  Clock::time_point begin = Clock::now();
  void TearDown() override {
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    std::printf("checker: %zu rows, %zu rows skipped, %zu cases, %.1f seconds, seed %llu\n", rows, skipped, cases,
                seconds.count(), static_cast<unsigned long long>(seed()));
  }
};
const auto* const summary = testing::AddGlobalTestEnvironment(new Summary);

class KernelTest : public testing::TestWithParam<Kernel> {};

TEST_P(KernelTest, KeepsItsContract) {
  const Kernel& kernel = GetParam();
  if (!can_check(kernel)) {
    ++Summary::skipped;
    GTEST_SKIP() << kernel.row->name << " needs " << isa_name(kernel.row->isa);
  }
  Checker checker(kernel.row->name, kernel);
  kernel.check(checker);
  EXPECT_FALSE(checker.failed()) << checker.failure();
  EXPECT_GT(checker.cases(), 0u);
  ++Summary::rows;
  Summary::cases += checker.cases();
}

INSTANTIATE_TEST_SUITE_P(Rows, KernelTest, testing::ValuesIn(all_kernels()),
                         [](const auto& row) { return std::string(row.param.row->name); });

}  // namespace check_test
}  // namespace quern::check

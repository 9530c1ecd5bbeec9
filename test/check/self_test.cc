// The checker itself: every bad kernel is found, and for the right reason; the good ones among them pass.
#include <gtest/gtest.h>

#include "base/cpu.h"
#include "selftest.h"

namespace quern::check {
namespace self_test {

class SelfTest : public testing::TestWithParam<BadKernel> {};

TEST_P(SelfTest, IsCaught) {
  const BadKernel& bad = GetParam();
  if ((bad.isa & cpu().isa) == 0) GTEST_SKIP() << bad.name << " needs " << isa_name(bad.isa);
  Checker checker(bad.name, bad.kernel);
  bad.kernel.check(checker);
  const bool is_right = bad.finding[0] == '\0';
  EXPECT_EQ(checker.failed(), !is_right) << checker.failure();
  EXPECT_NE(checker.failure().find(bad.finding), std::string::npos) << checker.failure();
}

INSTANTIATE_TEST_SUITE_P(Int8, SelfTest, testing::ValuesIn(bad_qs8_kernels()),
                         [](const auto& bad) { return std::string(bad.param.name); });
INSTANTIATE_TEST_SUITE_P(Bad, SelfTest, testing::ValuesIn(bad_kernels()),
                         [](const auto& bad) { return std::string(bad.param.name); });

}  // namespace self_test
}  // namespace quern::check

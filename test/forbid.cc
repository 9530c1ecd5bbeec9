// For programs that run operators: kernels above what cpu() allows, be it the machine's doing or that of QUERN_ISA, are
// overwritten with traps before the first test, so that whoever reaches one dies.
#include <gtest/gtest.h>

#include <csignal>

#include "check/checker.h"

namespace quern::check {
namespace {

bool is_forbidden(const Kernel& kernel) { return !runs_here(*kernel.row); }

class Forbid : public testing::Environment {
  void SetUp() override {
    for (const Kernel& kernel : all_kernels()) {
      if (is_forbidden(kernel)) trap_at(kernel.code);
    }
  }
};
[[maybe_unused]] const auto* const forbid = testing::AddGlobalTestEnvironment(new Forbid);

bool was_trapped(int status) {
  return testing::KilledBySignal(SIGTRAP)(status) || testing::KilledBySignal(SIGILL)(status);
}

TEST(Forbidden, KernelsAboveTheLevelAreTraps) {
  size_t count = 0;
  for (const Kernel& kernel : all_kernels()) {
    if (!is_forbidden(kernel)) continue;
    EXPECT_EXIT(reinterpret_cast<void (*)()>(const_cast<void*>(kernel.code))(), was_trapped, "") << kernel.row->name;
    ++count;
  }
  if (count == 0) GTEST_SKIP() << "this machine runs every kernel";
}

}  // namespace
}  // namespace quern::check

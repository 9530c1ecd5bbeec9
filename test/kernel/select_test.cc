// Rows made for some cores. QUERN_CORE is read once, so each setting is tried in a process of its own, and this process
// never asks cpu() itself.
#include "kernel/select.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

namespace quern {
namespace {

constexpr Row table[] = {
    {"for_a53_and_a55", QN_F32, {isa_ref, core_a53 | core_a55}, QN_LAYOUT_NHWC},
    {"for_all", QN_F32, isa_ref, QN_LAYOUT_NHWC},
};

const Row* row(const char* name) {
  return select(std::span<const Row>(table), name, [](const Row&) { return true; });
}

// Is `holds` true in a process with this QUERN_CORE?
bool with_core(const char* core, const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("QUERN_CORE", core, 1);
    _exit(holds() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(Select, PrefersTheRowOfTheCore) {
  for (const char* core : {"a53", "a55"})
    EXPECT_TRUE(with_core(core, [] { return row(nullptr) == &table[0]; })) << core;
}

TEST(Select, NeverTakesTheRowOfAnotherCore) {
  for (const char* core : {"other", "a57", "v1"}) {
    EXPECT_TRUE(with_core(core, [] { return row(nullptr) == &table[1]; })) << core;
  }
}

TEST(Select, TakesAnyRowByItsName) {
  for (const char* core : {"a53", "a57"}) {
    EXPECT_TRUE(with_core(core, [] { return row("for_a53_and_a55") == &table[0]; })) << core;
    EXPECT_TRUE(with_core(core, [] { return row("for_all") == &table[1] && row("none") == nullptr; })) << core;
  }
}

}  // namespace
}  // namespace quern

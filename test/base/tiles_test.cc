// The permission to use tiles (AMX), which the system may refuse.
#include <gtest/gtest.h>

#include "base/cpu.h"
#include "kernel/gemm.h"
#include "kernel/select.h"

#if defined(__x86_64__) && defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

namespace quern {
namespace tiles_test {

size_t refusals = 0;

void count_refusals() {
  qn_set_log(
      [](void*, qn_log_level, const char* line) { refusals += std::strstr(line, "does not permit AMX") != nullptr; },
      nullptr);
}

// From now on arch_prctl() fails with this error.
bool refuse_permissions(uint32_t error) {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {static_cast<uint16_t>(std::size(code)), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// 0 if two plans get the next level and the log says so once.
int plan_refused() {
  if (may_use(isa_amxint8) || !may_use(isa_avx512vnni)) return 2;
  for (int i = 0; i < 2; ++i) {
    if ((best(gemm_rows(), KernelType::qs8c).isa & feature_amxint8) != 0) return 3;
  }
  if (byte_level() != isa_avx512vnni) return 4;
  return refusals == 1 ? 0 : 5;
}

int plan_refused_by(uint32_t error) {
  count_refusals();
  return refuse_permissions(error) ? plan_refused() : 1;
}

// The system refuses tiles where a thread has a stack for signals that they do not fit.
int plan_beside_small_stack() {
  count_refusals();
  std::atomic<bool> ready = false, done = false;
  int failed = 0;
  std::thread other([&] {
    static char small[4096];
    const stack_t stack = {small, 0, sizeof small};
    stack_t before;  // a sanitizer's
    failed = sigaltstack(&stack, &before);
    ready = true;
    while (!done) std::this_thread::yield();
    sigaltstack(&before, nullptr);
  });
  while (!ready) std::this_thread::yield();
  const int result = plan_refused();
  done = true;
  other.join();
  return failed == 0 ? result : 1;
}

// Each in a process of its own, since a process asks once.
TEST(Tiles, ServeWherePermitted) {
  if ((cpu().isa & feature_amxint8) == 0) GTEST_SKIP() << "needs AMX";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto serve = [] {
    count_refusals();
    const bool used = (best(gemm_rows(), KernelType::qs8c).isa & feature_amxint8) != 0;
    return used == may_use(isa_amxint8) && used == (refusals == 0) ? 0 : 1;
  };
  EXPECT_EXIT(_exit(serve()), testing::ExitedWithCode(0), "");
}

TEST(Tiles, GiveWayWhereRefused) {
  if ((cpu().isa & feature_amxint8) == 0) GTEST_SKIP() << "needs AMX";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // By a filter, by a Linux that does not know the call, by one that does not know tiles.
  for (const uint32_t error : {EPERM, ENOSYS, EINVAL})
    EXPECT_EXIT(_exit(plan_refused_by(error)), testing::ExitedWithCode(0), "") << error;
  EXPECT_EXIT(_exit(plan_beside_small_stack()), testing::ExitedWithCode(0), "");
}

}  // namespace tiles_test
}  // namespace quern
#endif

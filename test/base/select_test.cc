// Rows made for some cores. QUERN_CORE is read once, so each setting is tried in a process of its own, and this process
// never asks cpu() itself.
#include "kernel/select.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "kernel/gemm.h"
#include "kernel/igemm.h"
#include "op/choose.h"

namespace quern {
namespace {

constexpr Row table[] = {
    {"for_a53_and_a55", QN_F32, {isa_ref, core_a53 | core_a55}, QN_LAYOUT_NHWC},
    {"for_all", QN_F32, isa_ref, QN_LAYOUT_NHWC},
};

template <class R>
bool any(const R&) {
  return true;
}

const Row* row(const char* name) { return select(std::span<const Row>(table), name, any<Row>); }

// Is `holds` true in a process with this QUERN_CORE?
bool with_core(const char* core, const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("QUERN_ISA");
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

#if QN_ARCH_ARM64
// Are these the first rows of both tables, with the tile of those for all cores? Then packed weights fit both.
bool takes(const char* gemm, const char* igemm) {
  const GemmRow &of_gemm = best(gemm_rows()), &generic = *select(gemm_rows(), "qn_gemm_f32_8x8_neon", any<GemmRow>);
  const IgemmRow& of_igemm = best(igemm_rows());
  return std::string_view(of_gemm.name) == gemm && std::string_view(of_igemm.name) == igemm &&
         of_gemm.mr == generic.mr && of_gemm.nr == generic.nr && of_igemm.mr == generic.mr && of_igemm.nr == generic.nr;
}

TEST(Select, CoresInOrderHaveKernelsOfTheirOwn) {
  EXPECT_TRUE(with_core("a53", [] { return takes("qn_gemm_f32_8x8_neon_a53", "qn_igemm_f32_8x8_neon_a53"); }));
  EXPECT_TRUE(with_core("a55", [] { return takes("qn_gemm_f32_8x8_neon_a55", "qn_igemm_f32_8x8_neon_a55"); }));
  for (const char* core : {"a57", "kryo", "n1", "n2", "v1", "v2", "other"}) {
    EXPECT_TRUE(with_core(core, [] { return takes("qn_gemm_f32_8x8_neon", "qn_igemm_f32_8x8_neon"); })) << core;
  }
}
#endif

// ---- the cost model

Problem convolution() {
  Problem p;
  p.pixels = 56 * 56, p.in = 64, p.out = 64, p.height = p.width = 56;
  p.kernel = {3, 3}, p.undilated = true;
  return p;
}

Problem product() {
  Problem p;
  p.pixels = 100, p.in = 256, p.out = 128, p.matrix = p.pointwise = true;
  return p;
}

// Are all candidates for this problem made for this core, winograd's products, too?
bool only_for(Core core, const Problem& problem) {
  const Vector<Choice> list = candidates(problem, QN_ALGORITHM_AUTO, nullptr);
  return !list.empty() && std::all_of(list.begin(), list.end(), [&](const Choice& c) {
    return (c.row->cores & core) != 0 && (c.gemm == nullptr || (c.gemm->cores & core) != 0);
  });
}

// Is a kernel of equal tile, but of the core, before others?
bool first_of_all(const Problem& problem) {
  return candidates(problem, QN_ALGORITHM_IGEMM, nullptr)[0].row == &best(igemm_rows());
}

TEST(Select, TheCostModelKeepsToTheCore) {
  for (const char* name : {"a53", "a55", "a57", "v1", "other"}) {
    Core core = core_other;
    ASSERT_TRUE(core_from_name(name, &core));
    const auto holds = [&] { return only_for(core, convolution()) && only_for(core, product()); };
    EXPECT_TRUE(with_core(name, holds)) << name;
    EXPECT_TRUE(with_core(name, [] { return first_of_all(convolution()); })) << name;
  }
}

}  // namespace
}  // namespace quern

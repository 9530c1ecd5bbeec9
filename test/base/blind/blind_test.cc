// A machine where cpuinfo fails, as it does without /proc or /sys. In this program it always fails. The real library ends
// the process if it is asked for more.
#include <gtest/gtest.h>
#include <quern/quern.h>

#include <list>
#include <string>
#include <vector>

#include "../../variable.h"
#include "base/cpu.h"
#include "base/cpus.h"

#if defined(__linux__) && !defined(__x86_64__)
#include <sys/auxv.h>
#endif

extern "C" bool cpuinfo_initialize() { return false; }

namespace quern {
namespace {

// What the compiler's runtime or the kernel says.
uint32_t expected_features() {
  uint32_t isa = isa_ref;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (__builtin_cpu_supports("sse4.1")) isa |= isa_sse41;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isa |= isa_avx2;
  if (avx512) isa |= isa_avx512;
  if (avx512 && __builtin_cpu_supports("avx512vnni")) isa |= feature_vnni;
  if (avx512 && __builtin_cpu_supports("avx512vbmi")) isa |= feature_vbmi;
#elif defined(__aarch64__)
  isa |= isa_neon;
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0) isa |= feature_fp16;
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) isa |= feature_dotprod;
#elif defined(__arm__)
  if ((getauxval(AT_HWCAP) & HWCAP_ARM_NEON) != 0) isa |= isa_neon;
  if ((isa & isa_neon) != 0 && (getauxval(AT_HWCAP) & HWCAP_ARM_VFPv4) != 0) isa |= isa_neonfma;
#endif
  return isa;
}

TEST(WithoutCpuinfo, FeaturesAreDetectedAndTheRestIsGuessed) {
  std::list<Variable> unset;
  for (const char* name : {"QUERN_ISA", "QUERN_CORE", "QUERN_L1", "QUERN_L2", "QUERN_L3", "QUERN_CPUS"})
    unset.emplace_back(name, nullptr);
  std::vector<std::string> lines;
  const auto keep = [](void* list, qn_log_level level, const char* line) {
    EXPECT_EQ(level, QN_LOG_WARNING);
    static_cast<std::vector<std::string>*>(list)->emplace_back(line);
  };
  qn_set_log(keep, &lines);
  const Cpu machine = detect_cpu();
  qn_set_log(nullptr, nullptr);
  EXPECT_EQ(machine.isa & ~(feature_avxvnni | feature_amxint8 | feature_i8mm), expected_features());
  EXPECT_EQ(machine.sources.isa, Source::detected);
  for (const Source source : {machine.sources.l1, machine.sources.l2, machine.sources.l3, machine.sources.cpus}) {
    EXPECT_EQ(source, Source::guessed);
  }
  EXPECT_EQ(lines, std::vector<std::string>{"cpuinfo failed: sizes of caches are guessed"});
}

TEST(WithoutCpuinfo, NothingElseIsAskedOfIt) {
  EXPECT_GE(usable_cores(), 1u);
  EXPECT_STREQ(cpu_identity().name, "");
#if defined(__x86_64__)
  EXPECT_NE(cpu_identity().family, 0u);
#endif
  EXPECT_STREQ(qn_cpu_level(), isa_name(float_level()));
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  float c[4];
  ASSERT_EQ(qn_gemm_f32(2, 2, 2, a, 2, b, 2, 0, nullptr, -1000, 1000, c, 2, nullptr), QN_OK);
  EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{19, 22, 43, 50}));
}

}  // namespace
}  // namespace quern

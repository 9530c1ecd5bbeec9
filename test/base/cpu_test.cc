// Instruction set levels, cores, QUERN_ISA and QUERN_CORE. These are read once, so each setting is tried in a process
// of its own, and this process never asks cpu() itself.
#include "base/cpu.h"

#include <cpuinfo.h>
#include <gtest/gtest.h>
#include <quern/base.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace quern {
namespace {

struct Answer {
  uint32_t isa = 0;
  Core core = core_other;
  size_t l1_bytes = 0, l2_bytes = 0;
  char level[16] = "", warning[64] = "";
};

void set(const char* variable, const char* setting) {
  setting == nullptr ? unsetenv(variable) : setenv(variable, setting, 1);
}

// What a process with this QUERN_ISA and QUERN_CORE (NULL: none) answers.
Answer ask(const char* isa, const char* core = nullptr) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    static Answer answer;
    set("QUERN_ISA", isa);
    set("QUERN_CORE", core);
    qn_set_log(
        [](void*, qn_log_level, const char* line) { snprintf(answer.warning, sizeof answer.warning, "%s", line); },
        nullptr);
    answer.isa = cpu().isa;
    answer.core = cpu().core;
    answer.l1_bytes = cpu().l1_bytes;
    answer.l2_bytes = cpu().l2_bytes;
    snprintf(answer.level, sizeof answer.level, "%s", qn_cpu_level());
    _exit(write(pipe_ends[1], &answer, sizeof answer) == sizeof answer ? 0 : 1);
  }
  Answer answer;
  if (read(pipe_ends[0], &answer, sizeof answer) != sizeof answer) abort();
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return answer;
}

// What the machine has, whatever this process was told.
uint32_t everything() {
  static const uint32_t isa = ask(nullptr).isa;
  return isa;
}

constexpr uint32_t up_to_avx2 = isa_ref | isa_sse41 | isa_avx2;

TEST(Cpu, NamesAndBits) {
  for (const char* name : {"ref", "sse41", "avx2", "avx512", "neon", "neonfma"}) {
    EXPECT_NE(isa_from_name(name), 0u) << name;
    EXPECT_STREQ(isa_name(isa_from_name(name)), name);
  }
  EXPECT_EQ(isa_from_name("avx3"), 0u);
  EXPECT_EQ(isa_from_name(""), 0u);
  EXPECT_STREQ(isa_name(isa_ref | isa_avx2), "?");
  EXPECT_STREQ(isa_name(0), "?");
}

TEST(Cpu, TheReferenceAlwaysRuns) {
  const Answer answer = ask(nullptr);
  EXPECT_NE(answer.isa & isa_ref, 0u);
  EXPECT_GT(answer.l1_bytes, 0u);
  EXPECT_GT(answer.l2_bytes, 0u);
}

TEST(Cpu, TheBaselineOfTheArchitectureNeedsNoDetection) {
#if defined(__aarch64__)
  EXPECT_EQ(everything(), isa_ref | isa_neon);
#elif defined(__x86_64__)
  EXPECT_EQ(everything() & (isa_neon | isa_neonfma), 0u);
#else
  GTEST_SKIP() << "every level may be missing";
#endif
}

TEST(Cpu, NeonWithFmaIsNeonToo) {
  if ((everything() & isa_neonfma) == 0) GTEST_SKIP() << "not that machine";
  EXPECT_NE(everything() & isa_neon, 0u);
  EXPECT_EQ(ask("neon").isa, isa_ref | isa_neon);
}

TEST(QuernIsa, ACeilingTakesEverythingBelow) {
  EXPECT_EQ(ask("ref").isa, uint32_t{isa_ref});
  EXPECT_STREQ(ask("ref").level, "ref");
  EXPECT_EQ(ask("sse41").isa, everything() & (isa_ref | isa_sse41));
  EXPECT_EQ(ask("avx2").isa, everything() & up_to_avx2);
  EXPECT_EQ(ask("avx512").isa, everything() & (up_to_avx2 | isa_avx512));
}

TEST(QuernIsa, AListIsExact) {
  EXPECT_EQ(ask("sse41,avx512").isa, everything() & (isa_ref | isa_sse41 | isa_avx512));
  EXPECT_EQ(ask("ref,avx2").isa, everything() & (isa_ref | isa_avx2));
}

// Two features of one level go and come together; bytes have levels that floats lack.
TEST(QuernIsa, LevelsAreSetsOfFeatures) {
  EXPECT_EQ(ask("avx512vnni").isa, everything() & (up_to_avx2 | isa_avxvnni | isa_avx512vbmi | isa_avx512vnni));
  EXPECT_EQ(ask("avx512vbmi").isa, everything() & (up_to_avx2 | isa_avx512vbmi));
  EXPECT_EQ(ask("avx512").isa & (feature_vnni | feature_vbmi | feature_avxvnni), 0u);
  EXPECT_EQ(ask("avxvnni").isa, everything() & (up_to_avx2 | isa_avxvnni));
  EXPECT_EQ(ask("i8mm").isa & ~feature_neonfma, everything() & ~feature_neonfma);
  EXPECT_EQ(ask("dotprod").isa & feature_i8mm, 0u);
  EXPECT_STREQ(ask("avx512vnni").level, ask("avx512").level);
}

TEST(QuernIsa, NothingMeansEverything) { EXPECT_EQ(ask("").isa, everything()); }

TEST(QuernIsa, AnUnknownNameIsReportedAndIgnored) {
  const Answer answer = ask("avx1024");
  EXPECT_EQ(answer.isa, everything());
  EXPECT_STREQ(answer.warning, "QUERN_ISA: unknown level 'avx1024'");
  EXPECT_EQ(ask("sse41,nonsense").isa, everything() & (isa_ref | isa_sse41));
  EXPECT_EQ(ask("a-name-that-is-longer-than-any-level").isa, everything());
  EXPECT_EQ(ask(",,,").isa, everything());
}

TEST(QuernIsa, NeverAddsWhatTheMachineLacks) {
#if defined(__x86_64__)
  EXPECT_EQ(ask("neon").isa & isa_neon, 0u);
#else
  EXPECT_EQ(ask("avx512").isa & isa_avx512, 0u);
#endif
}

TEST(QuernCore, NamesAndBits) {
  uint32_t seen = 0;
  for (const char* name :
       {"other", "a53", "a55", "a57", "kryo", "n1", "n2", "v1", "v2", "zen3", "zen4", "zen5", "golden_cove"}) {
    Core core = core_other;
    EXPECT_TRUE(core_from_name(name, &core)) << name;
    EXPECT_STREQ(core_name(core), name);
    EXPECT_EQ(seen & core, 0u) << name;
    seen |= core;
  }
  Core core = core_n1;
  EXPECT_FALSE(core_from_name("a56", &core));
  EXPECT_EQ(core, core_n1);
  EXPECT_STREQ(core_name(static_cast<Core>(0)), "?");
}

TEST(Cpu, FastCoresAreThoseAboveTheSlowestCluster) {
  const auto cluster = [](uint32_t cores, cpuinfo_uarch uarch, uint64_t frequency) {
    cpuinfo_cluster made = {};
    made.core_count = cores;
    made.uarch = uarch;
    made.frequency = frequency;
    return made;
  };
  const auto fast = [](const std::vector<cpuinfo_cluster>& clusters) {
    return fast_cores(clusters.data(), clusters.size());
  };
  const cpuinfo_cluster big = cluster(1, cpuinfo_uarch_cortex_x1, 2800),
                        middle = cluster(3, cpuinfo_uarch_cortex_a78, 2400),
                        little = cluster(4, cpuinfo_uarch_cortex_a55, 1800);
  EXPECT_EQ(fast({big, middle, little}), 4u);
  EXPECT_EQ(fast({middle, little}), 3u);
  EXPECT_EQ(fast({middle}), 3u);
  EXPECT_EQ(fast({}), 1u) << "cpuinfo knows none";
  // The same cores, at another clock and at the same one.
  EXPECT_EQ(fast({cluster(4, cpuinfo_uarch_cortex_a53, 2000), cluster(4, cpuinfo_uarch_cortex_a53, 1500)}), 4u);
  EXPECT_EQ(fast({little, little}), 8u);
  EXPECT_EQ(fast({big, little, little}), 1u);
}

TEST(QuernCore, IsForcedAndChangesNothingElse) {
  for (const char* name : {"other", "a53", "a55", "v2", "zen3", "zen4", "zen5", "golden_cove"}) {
    const Answer answer = ask(nullptr, name);
    EXPECT_STREQ(core_name(answer.core), name);
    EXPECT_EQ(answer.isa, everything()) << name;
    EXPECT_STREQ(answer.warning, "") << name;
  }
  EXPECT_EQ(ask("ref", "a55").isa, uint32_t{isa_ref});
}

TEST(QuernCore, AnUnknownNameIsReportedAndIgnored) {
  const Answer answer = ask(nullptr, "a1000");
  EXPECT_EQ(answer.core, ask(nullptr).core);
  EXPECT_STREQ(answer.warning, "QUERN_CORE: unknown core 'a1000'");
  EXPECT_EQ(ask(nullptr, "").core, ask(nullptr).core);
}

}  // namespace
}  // namespace quern

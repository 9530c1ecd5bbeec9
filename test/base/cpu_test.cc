// Instruction set levels, cores, caches, pages, and the environment variables that pretend others.
#include "base/cpu.h"

#include <gtest/gtest.h>
#include <quern/base.h>
#include <unistd.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/core_kind.h"
#include "pretended.h"

namespace quern {
namespace cpu_test {

struct Answer : Cpu {
  std::string level;
  std::vector<std::string> warnings;
};

// What the library takes the machine for if these variables are set, and no others of its own.
Answer ask(std::initializer_list<std::pair<const char*, const char*>> settings) {
  const Pretended pretended(settings);
  return {pretended.machine, qn_cpu_level(), pretended.warnings};
}

Answer ask(const char* isa, const char* core = nullptr) {
  if (isa == nullptr && core == nullptr) return ask({});
  if (core == nullptr) return ask({{"QUERN_ISA", isa}});
  return isa == nullptr ? ask({{"QUERN_CORE", core}}) : ask({{"QUERN_ISA", isa}, {"QUERN_CORE", core}});
}

// What the machine has, whatever this process was told.
uint32_t everything() { return ask({}).isa; }

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
  const Answer answer = ask({});
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
  EXPECT_EQ(ask("ref").level, "ref");
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
  EXPECT_EQ(ask("avx512vnni").level, ask("avx512").level);
}

TEST(QuernIsa, NothingMeansEverything) { EXPECT_EQ(ask("").isa, everything()); }

TEST(QuernIsa, AnUnknownNameIsReportedAndIgnored) {
  const Answer answer = ask("avx1024");
  EXPECT_EQ(answer.isa, everything());
  EXPECT_EQ(answer.sources.isa, ask({}).sources.isa);
  ASSERT_EQ(answer.warnings.size(), 1u);
  EXPECT_EQ(answer.warnings[0], "QUERN_ISA: expected levels like sse41, avx2, avx512, neon or dotprod, got 'avx1024'");
  EXPECT_EQ(ask("AVX2").warnings.size(), 1u) << "names are of small letters";
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

TEST(QuernCore, IsForcedAndChangesNothingElse) {
  for (const char* name : {"other", "a53", "a55", "v2", "zen3", "zen4", "zen5", "golden_cove"}) {
    const Answer answer = ask(nullptr, name);
    EXPECT_STREQ(core_name(answer.core), name);
    EXPECT_EQ(answer.isa, everything()) << name;
    EXPECT_EQ(answer.sources.core, Source::pretended) << name;
    EXPECT_TRUE(answer.warnings.empty()) << name;
  }
  EXPECT_EQ(ask("ref", "a55").isa, uint32_t{isa_ref});
}

TEST(QuernCore, AnUnknownNameIsReportedAndIgnored) {
  const Answer answer = ask(nullptr, "a1000");
  EXPECT_EQ(answer.core, ask({}).core);
  EXPECT_EQ(answer.sources.core, ask({}).sources.core);
  ASSERT_EQ(answer.warnings.size(), 1u);
  EXPECT_EQ(answer.warnings[0], "QUERN_CORE: expected a core like zen4, golden_cove, a55 or other, got 'a1000'");
  EXPECT_EQ(ask(nullptr, "").core, ask({}).core);
}

TEST(Pretended, CachesAndCpus) {
  const Answer answer = ask({{"QUERN_L1", "48K"}, {"QUERN_L2", "2M"}, {"QUERN_L3", "1G"}, {"QUERN_CPUS", "64"}});
  EXPECT_TRUE(answer.warnings.empty());
  EXPECT_EQ(answer.l1_bytes, 48u << 10);
  EXPECT_EQ(answer.l2_bytes, 2u << 20);
  EXPECT_EQ(answer.l3_bytes, 1u << 30);
  EXPECT_EQ(answer.cpus, 64u);
  for (const Source source : {answer.sources.l1, answer.sources.l2, answer.sources.l3, answer.sources.cpus})
    EXPECT_EQ(source, Source::pretended);
  const Answer without = ask({});
  EXPECT_EQ(without.cpus, 0u) << "the system is asked";
  for (const Source source : {without.sources.l1, without.sources.l2, without.sources.l3, without.sources.cpus})
    EXPECT_NE(source, Source::pretended);
  EXPECT_EQ(answer.isa, without.isa);
  EXPECT_EQ(answer.core, without.core);
  EXPECT_EQ(ask({{"QUERN_L2", "262144"}}).l2_bytes, 256u << 10);
  EXPECT_EQ(ask({{"QUERN_L2", ""}}).l2_bytes, without.l2_bytes);
}

TEST(Pretended, PagesOnlyGrow) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(ask({}).page_bytes, page);
  EXPECT_EQ(ask({{"QUERN_PAGE", "64K"}}).page_bytes, 64u << 10);
  for (const std::string& value : {std::to_string(page / 2), std::to_string(page + 1), std::string("2M")}) {
    const Answer answer = ask({{"QUERN_PAGE", value.c_str()}});
    EXPECT_EQ(answer.page_bytes, page) << value;
    EXPECT_EQ(answer.sources.page, Source::detected) << value;
    EXPECT_EQ(answer.warnings.size(), 1u) << value;
  }
}

TEST(Pretended, WrongValuesAreReportedAndIgnored) {
  const Answer without = ask({});
  for (const char* value : {"0", "1023", "2G", "1025M", "big", "48k", "48KB", "K", "-1", "-18446744073709550592",
                            "+48K", " 48K", "48 K", "0x8000", "18446744073709551615", "18446744073709551615K"}) {
    const Answer answer = ask({{"QUERN_L2", value}});
    EXPECT_EQ(answer.l2_bytes, without.l2_bytes) << value;
    EXPECT_EQ(answer.sources.l2, without.sources.l2) << value;
    ASSERT_EQ(answer.warnings.size(), 1u) << value;
    EXPECT_EQ(answer.warnings[0], "QUERN_L2: expected 1024 to 1073741824, got '" + std::string(value) + "'");
  }
  for (const char* value : {"0", "1025", "all"}) {
    EXPECT_EQ(ask({{"QUERN_CPUS", value}}).cpus, 0u) << value;
    EXPECT_EQ(ask({{"QUERN_CPUS", value}}).warnings.size(), 1u) << value;
  }
}

// ---- kinds of cores

constexpr uint32_t up_to_avx512 = up_to_avx2 | isa_avx512, with_vnni = up_to_avx512 | feature_vnni;

TEST(CoreKind, OfX86) {
  const struct {
    const char* what;
    X86Id id;
    Core core;
    bool exact;
  } table[] = {
      {"Sapphire Rapids", {Vendor::intel, 6, 0x8f, with_vnni}, core_golden_cove, true},
      {"Emerald Rapids", {Vendor::intel, 6, 0xcf, with_vnni}, core_golden_cove, true},
      {"a Xeon with AMX behind Rocket Lake's number", {Vendor::intel, 6, 167, with_vnni}, core_golden_cove, false},
      {"Skylake-X", {Vendor::intel, 6, 0x55, up_to_avx512}, core_golden_cove, false},
      {"Cannon Lake", {Vendor::intel, 6, 0x66, up_to_avx512 | feature_vbmi}, core_golden_cove, false},
      {"Ice Lake, server", {Vendor::intel, 6, 0x6a, with_vnni}, core_golden_cove, false},
      {"Ice Lake", {Vendor::intel, 6, 0x7e, with_vnni}, core_golden_cove, false},
      {"Tiger Lake", {Vendor::intel, 6, 0x8c, with_vnni}, core_golden_cove, false},
      {"Granite Rapids", {Vendor::intel, 6, 0xad, with_vnni | feature_avxvnni}, core_golden_cove, false},
      {"Diamond Rapids", {Vendor::intel, 19, 1, with_vnni | feature_avxvnni}, core_golden_cove, false},
      {"Sierra Forest", {Vendor::intel, 6, 0xaf, up_to_avx2 | feature_avxvnni}, core_other, false},
      {"Arrow Lake", {Vendor::intel, 6, 0xc6, up_to_avx2 | feature_avxvnni}, core_other, false},
      {"Lunar Lake", {Vendor::intel, 6, 0xbd, up_to_avx2 | feature_avxvnni}, core_other, false},
      {"Alder Lake", {Vendor::intel, 6, 0x97, up_to_avx2 | feature_avxvnni}, core_other, false},
      {"Haswell", {Vendor::intel, 6, 0x3c, up_to_avx2}, core_other, false},
      {"Sapphire Rapids, its AVX-512 hidden", {Vendor::intel, 6, 0x8f, up_to_avx2}, core_other, false},
      {"Zen 3", {Vendor::amd, 0x19, 0x01, up_to_avx2}, core_zen3, true},
      {"Zen 3, mobile", {Vendor::amd, 0x19, 0x50, up_to_avx2}, core_zen3, true},
      {"Zen 4", {Vendor::amd, 0x19, 0x11, with_vnni}, core_zen4, true},
      {"Zen 4c", {Vendor::amd, 0x19, 0xa0, with_vnni}, core_zen4, true},
      {"Zen 4 behind Zen 3's number", {Vendor::amd, 0x19, 0x01, with_vnni}, core_zen4, false},
      {"Zen 4, its AVX-512 hidden", {Vendor::amd, 0x19, 0x11, up_to_avx2}, core_zen3, false},
      {"Zen 5", {Vendor::amd, 0x1a, 0x02, with_vnni | feature_avxvnni}, core_zen5, true},
      {"Zen 5, its AVX-512 hidden", {Vendor::amd, 0x1a, 0x02, up_to_avx2}, core_zen5, true},
      {"Zen 5 behind Zen 2's number", {Vendor::amd, 0x17, 0x31, with_vnni | feature_avxvnni}, core_zen5, false},
      {"after Zen 5", {Vendor::amd, 0x1b, 0, with_vnni | feature_avxvnni}, core_zen5, false},
      {"Zen 2", {Vendor::amd, 0x17, 0x31, up_to_avx2}, core_other, false},
      {"another maker", {Vendor::other, 6, 0x8f, with_vnni}, core_other, false},
  };
  for (const auto& row : table) {
    const CoreKind kind = core_of(row.id);
    EXPECT_STREQ(core_name(kind.core), core_name(row.core)) << row.what;
    EXPECT_EQ(kind.exact, row.exact) << row.what;
  }
}

TEST(CoreKind, OfArm) {
  const struct {
    const char* what;
    uint32_t midr;
    Core core;
    bool exact;
  } table[] = {
      {"Cortex-A510", 0x410fd461, core_a55, true},     {"Cortex-A520", 0x410fd801, core_a55, true},
      {"C1-Nano", 0x410fd8a0, core_a55, false},        {"Cortex-A710", 0x412fd471, core_n2, true},
      {"Cortex-A720", 0x410fd811, core_n2, true},      {"Cortex-A725", 0x410fd870, core_n2, false},
      {"C1-Pro", 0x410fd8b0, core_n2, false},          {"Neoverse-N3", 0x410fd8e0, core_n2, false},
      {"Cortex-X4", 0x410fd821, core_v2, true},        {"Cortex-X925", 0x410fd850, core_v2, false},
      {"C1-Ultra", 0x410fd8c0, core_v2, false},        {"C1-Premium", 0x410fd900, core_v2, false},
      {"Neoverse-V3", 0x410fd840, core_v2, false},     {"Oryon", 0x511f0011, core_v2, false},
      {"unknown part", 0x410fdff0, core_other, false}, {"Apple", 0x610f0220, core_other, false},
  };
  for (const auto& row : table) {
    const CoreKind kind = core_of_midr(row.midr);
    EXPECT_STREQ(core_name(kind.core), core_name(row.core)) << row.what;
    EXPECT_EQ(kind.exact, row.exact) << row.what;
  }
}

}  // namespace cpu_test
}  // namespace quern

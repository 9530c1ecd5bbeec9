#include "base/cpu.h"

#include <cpuinfo.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/needs.h"
#include "base/status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace quern {
namespace {

struct Level {
  char name[11];  // not a pointer, which the loader would have to relocate
  bool floats;    // are kernels of floats written for it? Kernels of bytes are written for every level
  uint32_t isa;
};
// For each architecture from the lowest level to the highest. The levels of ARM come after those of x86.
constexpr Level levels[] = {
    {"ref", true, isa_ref},
    {"sse41", true, isa_sse41},
    {"avx2", true, isa_avx2},
    {"avxvnni", false, isa_avxvnni},
    {"avx512", true, isa_avx512},
    {"avx512vbmi", false, isa_avx512vbmi},
    {"avx512vnni", false, isa_avx512vnni},
    {"neon", true, isa_neon},
    {"neonfma", true, isa_neonfma},
    {"fp16", false, isa_fp16},
    {"dotprod", false, isa_dotprod},
    {"i8mm", false, isa_i8mm},
};

// The features that remain below each ceiling, in the order of `levels`. The ceilings of ARM leave all features of x86.
constexpr uint32_t up_to_avx2 = isa_ref | isa_sse41 | isa_avx2;
constexpr uint32_t all_of_x86 = up_to_avx2 | isa_avxvnni | isa_avx512vbmi | isa_avx512vnni;
constexpr uint32_t up_to_neon = all_of_x86 | isa_neon;
constexpr uint32_t ceilings[] = {
    isa_ref,
    isa_ref | isa_sse41,
    up_to_avx2,
    up_to_avx2 | isa_avxvnni,
    up_to_avx2 | isa_avx512,
    up_to_avx2 | isa_avx512vbmi,
    all_of_x86,
    up_to_neon,
    up_to_neon | isa_neonfma,
    up_to_neon | isa_fp16,
    up_to_neon | isa_fp16 | isa_dotprod,
    up_to_neon | isa_fp16 | isa_i8mm,
};
static_assert(std::size(ceilings) == std::size(levels));

struct CoreName {
  const char* name;
  Core core;
};
constexpr CoreName cores[] = {
    {"other", core_other},
    {"a53", core_a53},
    {"a55", core_a55},
    {"a57", core_a57},
    {"kryo", core_kryo},
    {"n1", core_n1},
    {"n2", core_n2},
    {"v1", core_v1},
    {"v2", core_v2},
    {"zen3", core_zen3},
    {"zen4", core_zen4},
    {"zen5", core_zen5},
    {"golden_cove", core_golden_cove},
};

// ---- features that our version of cpuinfo, of 2022, does not know

#if defined(__x86_64__)
bool has_avxvnni() {
  unsigned int a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#elif defined(__aarch64__)
bool has_i8mm() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP2) >> 13 & 1) != 0;
#elif defined(__APPLE__)
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname("hw.optional.arm.FEAT_I8MM", &has, &size, nullptr, 0) == 0 && has != 0;
#else
  return false;
#endif
}
#endif

uint32_t detect() {
  uint32_t isa = isa_ref;
#if defined(__x86_64__)
  if (cpuinfo_has_x86_sse4_1()) isa |= isa_sse41;
  if (cpuinfo_has_x86_avx2() && cpuinfo_has_x86_fma3()) isa |= isa_avx2;
  if ((isa & isa_avx2) != 0 && cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512dq() && cpuinfo_has_x86_avx512bw() &&
      cpuinfo_has_x86_avx512vl()) {
    isa |= isa_avx512;
    if (cpuinfo_has_x86_avx512vnni()) isa |= feature_vnni;
    if (cpuinfo_has_x86_avx512vbmi()) isa |= feature_vbmi;
  }
  if ((isa & isa_avx2) != 0 && has_avxvnni()) isa |= feature_avxvnni;
#elif defined(__aarch64__)
  if (!has_integers) return isa;  // all kernels of floats are for the baseline
  if (cpuinfo_has_arm_fp16_arith()) isa |= feature_fp16;
  if (cpuinfo_has_arm_neon_dot()) isa |= feature_dotprod;
  if ((isa & feature_dotprod) != 0 && has_i8mm()) isa |= feature_i8mm;
#elif defined(__arm__)
  if (cpuinfo_has_arm_neon()) isa |= isa_neon;
  if (!small && cpuinfo_has_arm_neon_fma()) isa |= isa_neonfma;
#endif
  return isa;
}

#if CPUINFO_ARCH_X86 || CPUINFO_ARCH_X86_64
// Finds cores that are younger than cpuinfo by their family and model.
Core core_of(const cpuinfo_core& core) {
  const uint32_t signature = core.cpuid;  // from leaf 1 of CPUID
  const uint32_t family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
  const uint32_t model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
  if (core.vendor == cpuinfo_vendor_intel) {
    return family == 6 && (model == 0x8f || model == 0xcf) ? core_golden_cove : core_other;
  }
  if (core.vendor != cpuinfo_vendor_amd) return core_other;
  const bool zen4 = (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0xaf);
  if (family == 0x19) return zen4 ? core_zen4 : core_zen3;
  return family == 0x1a ? core_zen5 : core_other;
}
#else
Core core_of(const cpuinfo_core& core) {
  switch (core.uarch) {
    case cpuinfo_uarch_cortex_a35:
    case cpuinfo_uarch_cortex_a53:
    case cpuinfo_uarch_cortex_a55r0: return core_a53;
    case cpuinfo_uarch_cortex_a55: return core_a55;
    case cpuinfo_uarch_cortex_a57:
    case cpuinfo_uarch_cortex_a72:
    case cpuinfo_uarch_cortex_a73:
    case cpuinfo_uarch_cortex_a75: return core_a57;
    case cpuinfo_uarch_kryo: return core_kryo;
    case cpuinfo_uarch_cortex_a76:
    case cpuinfo_uarch_cortex_a77:
    case cpuinfo_uarch_cortex_a78:
    case cpuinfo_uarch_neoverse_n1: return core_n1;
    case cpuinfo_uarch_neoverse_n2: return core_n2;
    case cpuinfo_uarch_cortex_x1:
    case cpuinfo_uarch_neoverse_v1: return core_v1;
    default: break;
  }
  // Arm's cores that are younger than cpuinfo.
  if (core.midr >> 24 != 0x41) return core_other;
  switch (core.midr >> 4 & 0xfff) {
    case 0xd46:                   // A510
    case 0xd80: return core_a55;  // A520
    case 0xd47:                   // A710
    case 0xd4d:                   // A715
    case 0xd81: return core_n2;   // A720
    case 0xd48:                   // X2
    case 0xd4e:                   // X3
    case 0xd82:                   // X4
    case 0xd4f: return core_v2;   // Neoverse-V2
    default: return core_other;
  }
}
#endif

// Takes cpuinfo's first core, which is one of the fastest: these do most of the work. Under emulation cpuinfo may know
// no core.
Core detect_core() {
  const cpuinfo_core* core = cpuinfo_get_cores_count() > 0 ? cpuinfo_get_core(0) : nullptr;
  return core != nullptr ? core_of(*core) : core_other;
}

// Sets the kind of core that QUERN_CORE names.
void force_core(const char* name, Core* core) {
  if (name == nullptr || *name == '\0') return;
  if (!core_from_name(name, core)) log(QN_LOG_WARNING, "QUERN_CORE: unknown core '%s'", name);
}

// The features that are known even if cpuinfo fails: those of every CPU of the architecture, and on Linux for 32-bit
// ARM those that the kernel reports.
uint32_t baseline() {
#if defined(__arm__) && defined(__linux__) && !defined(QN_SMALL)
  constexpr unsigned long neon = 1ul << 12, vfpv4 = 1ul << 16;
  const unsigned long features = getauxval(AT_HWCAP);
  if ((features & neon) == 0) return isa_ref;
  return (features & vfpv4) == 0 ? isa_ref | isa_neon : isa_ref | isa_neon | isa_neonfma;
#else
  return isa_baseline;
#endif
}

// The features that the value of QUERN_ISA allows.
uint32_t allowed(const char* text) {
  if (text == nullptr || *text == '\0') return ~0u;
  uint32_t mask = 0;
  size_t count = 0;
  for (const char* at = text; *at != '\0';) {
    const size_t length = std::strcspn(at, ",");
    char name[16] = "";
    if (length < sizeof name) std::memcpy(name, at, length);
    const uint32_t isa = isa_from_name(name);
    if (isa == 0) log(QN_LOG_WARNING, "QUERN_ISA: unknown level '%.*s'", static_cast<int>(length), at);
    mask |= isa;
    ++count;
    at += length + (at[length] == ',' ? 1 : 0);
  }
  if (mask == 0) return ~0u;
  return (count == 1 ? isa_ceiling(mask) : mask) | isa_ref;
}

size_t cache_bytes(const cpuinfo_cache* cache, size_t guess) {
  return cache != nullptr && cache->size != 0 ? cache->size : guess;
}

size_t pixel_block(uint32_t isa) {
  return (isa & isa_avx512) != 0 ? 64 : (isa & isa_avx2) != 0 ? 48 : reference_pixel_block;
}

Cpu make_cpu() {
  Cpu cpu = {baseline(), core_other, 32u << 10, 512u << 10, 2u << 20, 1, 0, 0};
  if (cpuinfo_initialize()) {
    cpu.isa |= detect();
    if (has_cores) cpu.core = detect_core();
    cpu.fast_cores = fast_cores(cpuinfo_get_clusters(), cpuinfo_get_clusters_count());
    cpu.l1_bytes = cache_bytes(cpuinfo_get_l1d_cache(0), cpu.l1_bytes);
    cpu.l2_bytes = cache_bytes(cpuinfo_get_l2_cache(0), cpu.l2_bytes);
    cpu.l3_bytes = cache_bytes(cpuinfo_get_l3_cache(0), cpu.l3_bytes);
  }
  if (!small) {  // a small build has no rows for levels below the baseline, so it cannot go down to them
    cpu.isa &= allowed(std::getenv("QUERN_ISA"));
    force_core(std::getenv("QUERN_CORE"), &cpu.core);
  }
  cpu.pixel_block = pixel_block(cpu.isa);
  return cpu;
}

}  // namespace

const Cpu& cpu() {
  static Cpu cpu;
  static pthread_once_t once = PTHREAD_ONCE_INIT;  // a static constructor would need the C++ runtime, this does not
  pthread_once(&once, [] { cpu = make_cpu(); });
  return cpu;
}

size_t fast_cores(const cpuinfo_cluster* clusters, size_t count) {
  size_t fast = 0, all = 0;
  for (size_t i = 0; i < count; ++i) {
    const cpuinfo_cluster &one = clusters[i], &last = clusters[count - 1];
    all += one.core_count;
    if (one.uarch != last.uarch || one.frequency != last.frequency) fast = all;
  }
  return std::max<size_t>(fast != 0 ? fast : all, 1);
}

const char* isa_name(uint32_t isa) {
  for (const Level& level : levels) {
    if (level.isa == isa) return level.name;
  }
  return "?";
}

uint32_t isa_from_name(const char* name) {
  for (const Level& level : levels) {
    if (std::strcmp(level.name, name) == 0) return level.isa;
  }
  return 0;
}

uint32_t isa_ceiling(uint32_t isa) {
  for (size_t i = 0; i < std::size(levels); ++i) {
    if (levels[i].isa == isa) return ceilings[i];
  }
  return isa;
}

namespace {

uint32_t highest_level(bool floats) {
  uint32_t highest = isa_ref;
  for (const Level& level : levels) {
    if ((level.floats || !floats) && (level.isa & ~cpu().isa) == 0) highest = level.isa;
  }
  return highest;
}

}  // namespace

uint32_t float_level() { return highest_level(true); }
uint32_t byte_level() { return highest_level(false); }

const char* core_name(Core core) {
  for (const CoreName& known : cores) {
    if (known.core == core) return known.name;
  }
  return "?";
}

bool core_from_name(const char* name, Core* core) {
  for (const CoreName& known : cores) {
    if (std::strcmp(known.name, name) == 0) return *core = known.core, true;
  }
  return false;
}

}  // namespace quern

extern "C" const char* qn_cpu_level(void) { return quern::isa_name(quern::float_level()); }

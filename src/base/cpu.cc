#include "base/cpu.h"

#include <cpuinfo.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/core_kind.h"
#include "base/cpus.h"
#include "base/needs.h"
#include "base/status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
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
    {"amxint8", false, isa_amxint8},
    {"neon", true, isa_neon},
    {"neonfma", true, isa_neonfma},
    {"fp16", false, isa_fp16},
    {"dotprod", false, isa_dotprod},
    {"i8mm", false, isa_i8mm},
};

// The features that remain below each ceiling, in the order of `levels`. The ceilings of ARM leave all features of x86.
constexpr uint32_t up_to_avx2 = isa_ref | isa_sse41 | isa_avx2;
constexpr uint32_t up_to_avx512vnni = up_to_avx2 | isa_avxvnni | isa_avx512vbmi | isa_avx512vnni;
constexpr uint32_t all_of_x86 = up_to_avx512vnni | isa_amxint8;
constexpr uint32_t up_to_neon = all_of_x86 | isa_neon;
constexpr uint32_t ceilings[] = {
    isa_ref,
    isa_ref | isa_sse41,
    up_to_avx2,
    up_to_avx2 | isa_avxvnni,
    up_to_avx2 | isa_avx512,
    up_to_avx2 | isa_avx512vbmi,
    up_to_avx512vnni,
    all_of_x86,
    up_to_neon,
    up_to_neon | isa_neonfma,
    up_to_neon | isa_fp16,
    up_to_neon | isa_fp16 | isa_dotprod,
    up_to_neon | isa_fp16 | isa_i8mm,
};
static_assert(std::size(ceilings) == std::size(levels));

struct CoreName {
  char name[12];  // as in Level
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

// ---- features and cores

#if defined(__x86_64__)
// CPUID reports all features, also where cpuinfo fails because /proc or /sys is missing.
struct Leaf {
  uint32_t a, b, c, d;  // 0 if the CPU does not have the leaf
};
Leaf cpuid(uint32_t number, uint32_t part = 0) {
  Leaf leaf = {};
  __get_cpuid_count(number, part, &leaf.a, &leaf.b, &leaf.c, &leaf.d);
  return leaf;
}

constexpr bool has_all(uint32_t word, std::initializer_list<int> bits) {
  uint32_t mask = 0;
  for (const int bit : bits) mask |= 1u << bit;
  return (word & mask) == mask;
}

// The registers that the system saves when it switches threads: XCR0.
uint32_t saved_registers() {
  if (!has_all(cpuid(1).c, {27})) return 0;  // OSXSAVE
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

uint32_t detect_features([[maybe_unused]] bool known) {
  const Leaf basic = cpuid(1), more = cpuid(7);
  const uint32_t saved = saved_registers();
  uint32_t isa = isa_ref;
  if (has_all(basic.c, {19})) isa |= isa_sse41;
  const bool avx2 = has_all(saved, {1, 2}) && has_all(basic.c, {12, 28}) && has_all(more.b, {5});  // with FMA and AVX
  if (!avx2) return isa;
  isa |= isa_avx2;
  if (has_all(cpuid(7, 1).a, {4})) isa |= feature_avxvnni;
  bool saves_avx512 = has_all(saved, {5, 6, 7});
#ifdef __APPLE__  // macOS saves these registers from their first use in a thread on; cpuinfo asks it
  saves_avx512 = saves_avx512 || (known && cpuinfo_has_x86_avx512f());
#endif
  if (!saves_avx512 || !has_all(more.b, {16, 17, 30, 31})) return isa;  // F, DQ, BW, VL
  isa |= isa_avx512;
  if (has_all(more.c, {11})) isa |= feature_vnni;
  if (has_all(more.c, {1})) isa |= feature_vbmi;
  if (has_tiles && has_all(saved, {17, 18}) && has_all(more.d, {24, 25})) isa |= feature_amxint8;
  return isa;
}

X86Id x86_id(uint32_t features) {
  constexpr uint32_t intel = 0x6c65746e, amd = 0x444d4163;  // the ends of GenuineIntel and AuthenticAMD
  const uint32_t signature = cpuid(1).a, maker = cpuid(0).c;
  return {maker == intel ? Vendor::intel
          : maker == amd ? Vendor::amd
                         : Vendor::other,
          (signature >> 8 & 0xf) + (signature >> 20 & 0xff), (signature >> 4 & 0xf) | (signature >> 12 & 0xf0),
          features};
}

CoreKind kind_of_cpu(const cpuinfo_core*, uint32_t features) { return core_of(x86_id(features)); }

CpuIdentity identity_of(const cpuinfo_core* core) {
  const X86Id id = x86_id(0);
  return {core == nullptr ? "" : core->package->name, id.family, id.model, 0};
}
#else
#if defined(__aarch64__)
bool has_i8mm() {  // which our version of cpuinfo, of 2022, does not know
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

// Bits of AT_HWCAP, by the kernel's names.
#if defined(__aarch64__)
constexpr int hwcap_asimdhp = 10, hwcap_asimddp = 20;
#else
constexpr int hwcap_neon = 12, hwcap_vfpv4 = 16;
#endif

// Whether the kernel reports a feature.
bool has_capability([[maybe_unused]] int bit) {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) >> bit & 1) != 0;
#else
  return false;
#endif
}

// Where cpuinfo works it knows better than the kernel, because some phones report too much or too little.
uint32_t detect_features(bool known) {
  uint32_t isa = isa_baseline;
#if defined(__aarch64__)
  if (!has_integers) return isa;  // all kernels of floats are for the baseline
  if (known ? cpuinfo_has_arm_fp16_arith() : has_capability(hwcap_asimdhp)) isa |= feature_fp16;
  const bool dotprod = known ? cpuinfo_has_arm_neon_dot() : has_capability(hwcap_asimddp);
  if (dotprod) isa |= has_i8mm() ? feature_dotprod | feature_i8mm : feature_dotprod;
#else
  if (small) return isa;
  // Under emulation cpuinfo reads the file of another machine.
  if (has_capability(hwcap_neon) || (known && cpuinfo_has_arm_neon())) isa |= isa_neon;
  const bool fma = has_capability(hwcap_vfpv4) || (known && cpuinfo_has_arm_neon_fma());
  if (fma && (isa & isa_neon) != 0) isa |= isa_neonfma;
#endif
  return isa;
}

CoreKind kind_of_cpu(const cpuinfo_core* core, uint32_t) {
  if (core == nullptr) return {core_other, false};
  switch (core->uarch) {
    case cpuinfo_uarch_cortex_a35:
    case cpuinfo_uarch_cortex_a53:
    case cpuinfo_uarch_cortex_a55r0: return {core_a53, true};
    case cpuinfo_uarch_cortex_a55: return {core_a55, true};
    case cpuinfo_uarch_cortex_a57:
    case cpuinfo_uarch_cortex_a72:
    case cpuinfo_uarch_cortex_a73:
    case cpuinfo_uarch_cortex_a75: return {core_a57, true};
    case cpuinfo_uarch_kryo: return {core_kryo, true};
    case cpuinfo_uarch_cortex_a76:
    case cpuinfo_uarch_cortex_a77:
    case cpuinfo_uarch_cortex_a78:
    case cpuinfo_uarch_neoverse_n1: return {core_n1, true};
    case cpuinfo_uarch_neoverse_n2: return {core_n2, true};
    case cpuinfo_uarch_cortex_x1:
    case cpuinfo_uarch_neoverse_v1: return {core_v1, true};
    default: return core_of_midr(core->midr);
  }
}

CpuIdentity identity_of(const cpuinfo_core* core) {
  return core == nullptr ? CpuIdentity{"", 0, 0, 0} : CpuIdentity{core->package->name, 0, 0, core->midr};
}
#endif

// Takes cpuinfo's first core, which is one of the fastest: these do most of the work. Under emulation cpuinfo may know
// no core.
const cpuinfo_core* fastest_core() { return cpuinfo_get_cores_count() > 0 ? cpuinfo_get_core(0) : nullptr; }

void warn(const char* variable, const char* expected, const char* text, size_t length) {
  log(QN_LOG_WARNING, "%s: expected %s, got '%.*s'", variable, expected, static_cast<int>(length), text);
}

// The features that the value of QUERN_ISA allows.
uint32_t allowed(const char* text) {
  uint32_t mask = 0;
  size_t count = 0;
  for (const char* at = text; *at != '\0';) {
    const size_t length = std::strcspn(at, ",");
    char name[16] = "";
    if (length < sizeof name) std::memcpy(name, at, length);
    const uint32_t isa = isa_from_name(name);
    if (isa == 0) warn("QUERN_ISA", "levels like sse41, avx2, avx512, neon or dotprod", at, length);
    mask |= isa;
    ++count;
    at += length + (at[length] == ',' ? 1 : 0);
  }
  if (mask == 0) return ~0u;
  return (count == 1 ? isa_ceiling(mask) : mask) | isa_ref;
}

size_t pixel_block(uint32_t isa) {
  return (isa & isa_avx512) != 0 ? 64 : (isa & isa_avx2) != 0 ? 48 : reference_pixel_block;
}

// ---- what this machine has

void set_detected(Source* source) {
  if (!small) *source = Source::detected;
}

void detect_cache(const cpuinfo_cache* cache, size_t* bytes, Source* source) {
  if (cache == nullptr || cache->size == 0) return;
  *bytes = cache->size;
  set_detected(source);
}

// A cautious guess at a machine of which nothing is known.
Cpu guess() {
  Cpu guess = {};
  guess.isa = isa_baseline;
  guess.core = core_other;
  guess.l1_bytes = 32u << 10, guess.l2_bytes = 512u << 10, guess.l3_bytes = 2u << 20;
  guess.quota = no_quota;
  return guess;
}

// Does the system say which features the CPU has, even if cpuinfo fails?
#if defined(__x86_64__) || defined(__linux__)
constexpr bool features_are_known = true;
#else
constexpr bool features_are_known = false;
#endif

void detect(Cpu* cpu) {
  Sources& sources = cpu->sources;
  const bool known = cpuinfo_initialize();
  cpu->isa |= detect_features(known);
  if (known || features_are_known) set_detected(&sources.isa);
  if (has_cores) {
    const CoreKind kind = kind_of_cpu(known ? fastest_core() : nullptr, cpu->isa);
    cpu->core = kind.core;
    if (kind.exact) set_detected(&sources.core);
  }
  if (known) {
    set_detected(&sources.cpus);
    detect_cache(cpuinfo_get_l1d_cache(0), &cpu->l1_bytes, &sources.l1);
    detect_cache(cpuinfo_get_l2_cache(0), &cpu->l2_bytes, &sources.l2);
    detect_cache(cpuinfo_get_l3_cache(0), &cpu->l3_bytes, &sources.l3);
  } else if (!small) {
    log(QN_LOG_WARNING, "cpuinfo failed: sizes of caches are guessed");
  }
  cpu->page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  set_detected(&sources.page);
  if (!small) cpu->quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
}

// ---- what the environment pretends

struct Setting {
  char variable[11];  // not a pointer, which the loader would have to relocate
  bool pages;
  uint32_t least, most;
  size_t Cpu::*value;
  Source Sources::*source;
};
constexpr Setting settings[] = {
    {"QUERN_L1", false, 1u << 10, 1u << 30, &Cpu::l1_bytes, &Sources::l1},
    {"QUERN_L2", false, 1u << 10, 1u << 30, &Cpu::l2_bytes, &Sources::l2},
    {"QUERN_L3", false, 1u << 10, 1u << 30, &Cpu::l3_bytes, &Sources::l3},
    {"QUERN_CPUS", false, 1, 1024, &Cpu::cpus, &Sources::cpus},
    {"QUERN_PAGE", true, 1u << 10, 1u << 20, &Cpu::page_bytes, &Sources::page},
};

// Reads a number, with K, M or G behind it for a power of 1024. Returns false for any other text.
bool read_size(const char* text, size_t* size) {
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 10);
  const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (*text < '0' || *text > '9' || end[shift != 0] != '\0' || number > SIZE_MAX >> shift) return false;
  *size = static_cast<size_t>(number) << shift;
  return true;
}

const char* value_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

void pretend(const Setting& setting, Cpu* cpu) {
  const char* const text = value_of(setting.variable);
  if (text == nullptr) return;
  size_t value = 0;
  if (!read_size(text, &value) || value < setting.least || value > setting.most ||
      (setting.pages && value % cpu->page_bytes != 0)) {
    log(QN_LOG_WARNING, "%s: expected %s%u to %u, got '%s'", setting.variable,
        setting.pages ? "a multiple of the page size, " : "", setting.least, setting.most, text);
    return;
  }
  cpu->*setting.value = value;
  cpu->sources.*setting.source = Source::pretended;
}

void pretend(Cpu* cpu) {
  for (const Setting& setting : settings) pretend(setting, cpu);
  if (const char* const text = value_of("QUERN_ISA")) {
    const uint32_t mask = allowed(text);
    cpu->isa &= mask;
    if (mask != ~0u) cpu->sources.isa = Source::pretended;
  }
  if (const char* const text = value_of("QUERN_CORE")) {
    if (core_from_name(text, &cpu->core)) {
      cpu->sources.core = Source::pretended;
    } else {
      warn("QUERN_CORE", "a core like zen4, golden_cove, a55 or other", text, std::strlen(text));
    }
  }
}

}  // namespace

Cpu detect_cpu() {
  Cpu cpu = guess();
  detect(&cpu);
  if (!small) pretend(&cpu);
  cpu.pixel_block = pixel_block(cpu.isa);
  return cpu;
}

#ifdef QN_SMALL
constexpr const Cpu* replaced = nullptr;
#else
namespace {

std::atomic<const Cpu*> replaced = nullptr;

}  // namespace

void replace_cpu(const Cpu* other) { replaced = other; }
#endif

const Cpu& cpu() {
  if (const Cpu* other = replaced) return *other;
  static Cpu cpu;
  static pthread_once_t once = PTHREAD_ONCE_INIT;  // a static constructor would need the C++ runtime, this does not
  pthread_once(&once, [] { cpu = detect_cpu(); });
  return cpu;
}

bool may_use([[maybe_unused]] uint32_t features) {
#if defined(__x86_64__) && defined(__linux__)
  if (!has_tiles || (features & feature_amxint8) == 0 || cpu().permitted) return true;
  static bool permitted;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] {
    constexpr long req_xcomp_perm = 0x1023, tile_data = 18;  // names of Linux 5.16
    permitted = syscall(SYS_arch_prctl, req_xcomp_perm, tile_data) == 0;
    if (!permitted) log(QN_LOG_WARNING, "the system does not permit AMX: %s", std::strerror(errno));
  });
  return permitted;
#else
  return true;
#endif
}

CpuIdentity cpu_identity() { return identity_of(cpuinfo_initialize() ? fastest_core() : nullptr); }

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
    if ((level.floats || !floats) && (level.isa & ~cpu().isa) == 0 && may_use(level.isa)) highest = level.isa;
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

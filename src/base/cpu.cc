#include "base/cpu.h"

#include <cpuinfo.h>

#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace quern {
namespace {

struct Level {
  const char* name;
  uint32_t bit;
};
// Lowest first: a ceiling takes everything up to itself.
constexpr Level levels[] = {
    {"ref", isa_ref}, {"sse41", isa_sse41}, {"avx2", isa_avx2}, {"avx512", isa_avx512}, {"neon", isa_neon},
};

uint32_t detect() {
  uint32_t isa = isa_ref;
#if defined(__x86_64__)
  if (cpuinfo_has_x86_sse4_1()) isa |= isa_sse41;
  if (cpuinfo_has_x86_avx2() && cpuinfo_has_x86_fma3()) isa |= isa_avx2;
  if ((isa & isa_avx2) != 0 && cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512dq() && cpuinfo_has_x86_avx512bw() &&
      cpuinfo_has_x86_avx512vl()) {
    isa |= isa_avx512;
  }
#endif
  return isa;
}

// The levels that every CPU of the architecture has, whatever cpuinfo says.
uint32_t baseline() {
#if defined(__aarch64__)
  return isa_ref | isa_neon;
#else
  return isa_ref;
#endif
}

// QUERN_ISA as a mask of what is allowed.
uint32_t allowed(const char* text) {
  if (text == nullptr || *text == '\0') return ~0u;
  uint32_t mask = 0;
  size_t count = 0;
  for (const char* at = text; *at != '\0';) {
    const size_t length = std::strcspn(at, ",");
    char name[16] = "";
    if (length < sizeof name) std::memcpy(name, at, length);
    const uint32_t bit = isa_from_name(name);
    if (bit == 0) log(QN_LOG_WARNING, "QUERN_ISA: unknown level '%.*s'", static_cast<int>(length), at);
    mask |= bit;
    ++count;
    at += length + (at[length] == ',' ? 1 : 0);
  }
  if (mask == 0) return ~0u;
  return (count == 1 ? mask | (mask - 1) : mask) | isa_ref;
}

size_t cache_bytes(const cpuinfo_cache* cache, size_t guess) {
  return cache != nullptr && cache->size != 0 ? cache->size : guess;
}

size_t pixel_block(uint32_t isa) { return (isa & isa_avx512) != 0 ? 64 : (isa & isa_avx2) != 0 ? 48 : 8; }

Cpu make_cpu() {
  Cpu cpu = {baseline(), 32u << 10, 512u << 10, 2u << 20, 0};
  if (cpuinfo_initialize()) {
    cpu.isa |= detect();
    cpu.l1_bytes = cache_bytes(cpuinfo_get_l1d_cache(0), cpu.l1_bytes);
    cpu.l2_bytes = cache_bytes(cpuinfo_get_l2_cache(0), cpu.l2_bytes);
    cpu.l3_bytes = cache_bytes(cpuinfo_get_l3_cache(0), cpu.l3_bytes);
  }
  cpu.isa &= allowed(std::getenv("QUERN_ISA"));
  cpu.pixel_block = pixel_block(cpu.isa);
  return cpu;
}

}  // namespace

const Cpu& cpu() {
  static const Cpu cpu = make_cpu();
  return cpu;
}

const char* isa_name(uint32_t isa) {
  for (const Level& level : levels) {
    if (level.bit == isa) return level.name;
  }
  return "?";
}

uint32_t isa_from_name(const char* name) {
  for (const Level& level : levels) {
    if (std::strcmp(level.name, name) == 0) return level.bit;
  }
  return 0;
}

}  // namespace quern

extern "C" const char* qn_cpu_level(void) {
  const uint32_t isa = quern::cpu().isa;
  return quern::isa_name(1u << (31 - __builtin_clz(isa)));
}

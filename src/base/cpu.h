// What this machine is. In src/, only cpu.cc and cpus.cc include <cpuinfo.h>.
#pragma once

#include <quern/base.h>

#include <cstddef>
#include <cstdint>

namespace quern {

// The features that a CPU may have, one bit each.
enum Feature : uint32_t {
  feature_ref = 1u << 0,       // plain C++, runs everywhere
  feature_sse41 = 1u << 1,     // x86 SSE4.1
  feature_avx2 = 1u << 2,      // AVX2 and FMA
  feature_avx512 = 1u << 3,    // AVX-512 F, DQ, BW, VL
  feature_avxvnni = 1u << 4,   // dot products of bytes in vectors of 256 bits, encoded as AVX
  feature_vnni = 1u << 5,      // the same, encoded as AVX-512
  feature_vbmi = 1u << 6,      // permutations of bytes in vectors of 512 bits
  feature_amxint8 = 1u << 7,   // dot products of bytes in tiles, which the system must permit: may_use()
  feature_neon = 1u << 8,      // ARM's Advanced SIMD; on arm64 it includes FMA
  feature_neonfma = 1u << 9,   // Advanced SIMD on 32-bit ARM with VFPv4, which adds FMA
  feature_fp16 = 1u << 10,     // arithmetic of half precision
  feature_dotprod = 1u << 11,  // dot products of bytes
  feature_i8mm = 1u << 12,     // products of 2x8 and 8x2 bytes
};

// Named levels are sets of features that kernels are written for. The table row of a kernel names the level it needs,
// or some other set of features; the kernel runs if the CPU has all of them. The table in cpu.cc says which features
// remain when QUERN_ISA makes a level the ceiling.
constexpr uint32_t isa_ref = feature_ref;
constexpr uint32_t isa_sse41 = feature_sse41;
constexpr uint32_t isa_avx2 = feature_avx2;
constexpr uint32_t isa_avxvnni = feature_avx2 | feature_avxvnni;
constexpr uint32_t isa_avx512 = feature_avx512;
constexpr uint32_t isa_avx512vbmi = feature_avx512 | feature_vbmi;
constexpr uint32_t isa_avx512vnni = feature_avx512 | feature_vnni;
constexpr uint32_t isa_amxint8 = feature_avx512 | feature_vnni | feature_amxint8;
constexpr uint32_t isa_neon = feature_neon;
constexpr uint32_t isa_neonfma = feature_neonfma;
constexpr uint32_t isa_fp16 = feature_neon | feature_fp16;
constexpr uint32_t isa_dotprod = feature_neon | feature_dotprod;
constexpr uint32_t isa_i8mm = feature_neon | feature_dotprod | feature_i8mm;

// Kinds of cores, one bit each. Some kernels are made for certain kinds only, and the cost models have constants for
// each kind (op/core/machine.h). Cores for which the same code is the fastest are one kind.
enum Core : uint32_t {
  core_other = 1u << 0,  // unknown
  // In-order cores. An a53 issues 128-bit arithmetic together with scalar instructions only, an a55 also with 64-bit
  // loads.
  core_a53 = 1u << 1,           // Cortex-A35, A53, the first A55
  core_a55 = 1u << 2,           // Cortex-A55, A510, A520
  core_a57 = 1u << 3,           // Cortex-A57, A72, A73, A75
  core_kryo = 1u << 4,          // the first Kryo
  core_n1 = 1u << 5,            // Cortex-A76, A77, A78, Neoverse-N1
  core_n2 = 1u << 6,            // Cortex-A710, A715, A720, Neoverse-N2
  core_v1 = 1u << 7,            // Cortex-X1, Neoverse-V1
  core_v2 = 1u << 8,            // Cortex-X2, X3, X4, Neoverse-V2
  core_zen3 = 1u << 9,          // x86: AMD's Zen 3
  core_zen4 = 1u << 10,         // x86: AMD's Zen 4
  core_zen5 = 1u << 11,         // x86: AMD's Zen 5
  core_golden_cove = 1u << 12,  // x86: Intel's Xeons of the 4th and 5th generation
};
constexpr uint32_t any_core = 0xffffff;
// The number of pixels in a block of the pixel-blocked layout as the references take it. It holds for all levels
// without a block size of their own. On ARM it is the block size of the NEON kernels.
#if defined(__aarch64__) || defined(__arm__)
constexpr size_t reference_pixel_block = 32;
#else
constexpr size_t reference_pixel_block = 8;
#endif

// How the vectors of a level compute. Fused levels round a multiply-add once, so all of them give the same bits.
// Flushing levels treat denormal operands as zeros, and give a zero of the same sign instead of a denormal result.
#if defined(__arm__)
constexpr uint32_t fused_levels = feature_neonfma;
constexpr uint32_t flushing_levels = feature_neon | feature_neonfma;
#else
constexpr uint32_t fused_levels = feature_avx2 | feature_avx512 | feature_neon;
constexpr uint32_t flushing_levels = 0;
#endif

// The features of every CPU that this build runs on. Small builds for 32-bit ARM take NEON for granted, as compilers
// for Android do.
#if defined(__aarch64__) || (defined(__arm__) && defined(QN_SMALL))
constexpr uint32_t isa_baseline = isa_ref | isa_neon;
#else
constexpr uint32_t isa_baseline = isa_ref;
#endif

// How a fact about the machine was found.
enum class Source : uint8_t { guessed, detected, pretended };

struct Sources {
  Source isa, core, l1, l2, l3, page, cpus;
};

struct Cpu {
  uint32_t isa;                         // mask of Feature, lowered by QUERN_ISA
  Core core;                            // the kind of the fastest cores
  size_t l1_bytes, l2_bytes, l3_bytes;  // sizes of the data caches that one core sees; a cautious guess if unknown
  size_t page_bytes;                    // size of the pages of memory
  size_t cpus;                          // QUERN_CPUS; 0: usable_cores() of base/cpus.h asks the system
  size_t quota;                         // how many CPUs control groups pay for; no_quota of base/cpus.h
  size_t pixel_block;                   // pixels in a block of the pixel-blocked layout; tiles of spmm.inc divide it
  size_t vector_bytes;                  // bytes of a vector if the machine decides its length (SVE, RVV); otherwise 0
  Sources sources;                      // not in small builds
  bool permitted;                       // a test emulates tiles, so may_use() asks nobody
};

// This machine. It is detected once; the call is thread-safe. If cpuinfo_initialize() fails, the features are those that
// CPUID (x86) or the kernel (Linux on ARM) reports, elsewhere those that every CPU has; the rest is guessed.
//
// Environment variables make the library take this machine for another one, but in small builds, which read none. A value
// that is wrong goes to the log and is ignored.
//
// QUERN_ISA     A ceiling: "avx2" is avx2 and everything below it. Or several levels with commas between: only their
//               features remain ("sse41,avx512"). "ref" is always included. Adds no feature that the CPU lacks.
// QUERN_CORE    The kind of core, "a55". It only influences which of the kernels that run here are chosen, and with
//               which costs.
// QUERN_L1, QUERN_L2, QUERN_L3
//               Sizes of the data caches in bytes, or as "48K", "2M". 1 KiB to 1 GiB.
// QUERN_CPUS    How many cores this process may use, all of them fast. 1 to 1024.
// QUERN_PAGE    The size of pages, a multiple of the machine's, at most 1 MiB.
const Cpu& cpu();

// May this process use features that cpu() lists? Linux must permit tiles (feature_amxint8): the first call for them asks
// (arch_prctl), for all threads and for good, and logs a refusal. From then on signal stacks must have the size that
// getauxval(AT_MINSIGSTKSZ) returns, about 11 KiB. All other features need no permission. Thread-safe.
bool may_use(uint32_t features);

// Detects the machine and reads the environment anew: what cpu() does once.
Cpu detect_cpu();

// Makes cpu() return another machine, for tests; NULL ends this. `other` must live until then. Must not be called while
// another thread plans or runs. Small builds lack it.
void replace_cpu(const Cpu* other);

// The CPU as its maker names it. Empty or 0 where that is unknown.
struct CpuIdentity {
  const char* name;
  uint32_t family, model;  // x86
  uint32_t midr;           // ARM: the Main ID Register
};
CpuIdentity cpu_identity();

// Returns the name of a level, "avx2" for isa_avx2; "?" for any other set of features.
const char* isa_name(uint32_t isa);
// Returns 0 for an unknown name.
uint32_t isa_from_name(const char* name);
// Returns the features that remain when the level `isa` is the ceiling.
uint32_t isa_ceiling(uint32_t isa);
// The highest level that this process may use and that kernels of f32, or of int8, are written for.
uint32_t float_level();
uint32_t byte_level();

// Returns the name of a kind of core, "a55" for core_a55.
const char* core_name(Core core);
// Returns false for an unknown name.
bool core_from_name(const char* name, Core* core);

}  // namespace quern

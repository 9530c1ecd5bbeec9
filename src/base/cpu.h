// What this CPU can run.  In src/, cpu.cc is the sole includer of <cpuinfo.h>.
#pragma once

#include <quern/base.h>

#include <cstdint>

struct cpuinfo_cluster;

namespace quern {

// What a CPU can do, one bit each.
enum Feature : uint32_t {
  feature_ref = 1u << 0,       // plain C++, runs everywhere
  feature_sse41 = 1u << 1,     // x86 SSE4.1
  feature_avx2 = 1u << 2,      // AVX2 and FMA
  feature_avx512 = 1u << 3,    // AVX-512 F, DQ, BW, VL
  feature_avxvnni = 1u << 4,   // dot products of bytes in vectors of 256 bits, encoded as AVX
  feature_vnni = 1u << 5,      // the same, encoded as AVX-512
  feature_neon = 1u << 8,      // Advanced SIMD of ARM: on arm64 it has FMA
  feature_neonfma = 1u << 9,   // the same on 32-bit ARM with VFPv4, and so FMA
  feature_fp16 = 1u << 10,     // arithmetic of half precision
  feature_dotprod = 1u << 11,  // dot products of bytes
  feature_i8mm = 1u << 12,     // products of 2x8 and 8x2 bytes
};

// Named levels: sets of features that kernels are written for. A kernel's row names the one it needs, or a set of its
// own; it runs where the CPU has all of them. The table in cpu.cc says what a ceiling of QUERN_ISA leaves.
constexpr uint32_t isa_ref = feature_ref;
constexpr uint32_t isa_sse41 = feature_sse41;
constexpr uint32_t isa_avx2 = feature_avx2;
constexpr uint32_t isa_avxvnni = feature_avx2 | feature_avxvnni;
constexpr uint32_t isa_avx512 = feature_avx512;
constexpr uint32_t isa_avx512vnni = feature_avx512 | feature_vnni;
constexpr uint32_t isa_neon = feature_neon;
constexpr uint32_t isa_neonfma = feature_neonfma;
constexpr uint32_t isa_fp16 = feature_neon | feature_fp16;
constexpr uint32_t isa_dotprod = feature_neon | feature_dotprod;
constexpr uint32_t isa_i8mm = feature_neon | feature_dotprod | feature_i8mm;

// Kinds of cores, one bit each, for rows of kernels made for some of them and for what cost models know of a machine
// (op/core/machine.h). Cores that run the same code best are one kind.
enum Core : uint32_t {
  core_other = 1u << 0,  // unknown
  core_a53 = 1u << 1,    // in order, 128-bit arithmetic beside scalar code alone: Cortex-A35, A53, the first A55
  core_a55 = 1u << 2,    // in order, 128-bit arithmetic beside loads of 64 bits, too: Cortex-A55, A510, A520
  core_a57 = 1u << 3,    // Cortex-A57, A72, A73, A75
  core_kryo = 1u << 4,   // the first Kryo
  core_n1 = 1u << 5,     // Cortex-A76, A77, A78, Neoverse-N1
  core_n2 = 1u << 6,     // Cortex-A710, A715, A720, Neoverse-N2
  core_v1 = 1u << 7,     // Cortex-X1, Neoverse-V1
  core_v2 = 1u << 8,     // Cortex-X2, X3, X4, Neoverse-V2
  core_zen4 = 1u << 9,   // x86: AMD's Zen 4,
  core_zen5 = 1u << 10,  // and Zen 5
};
constexpr uint32_t any_core = ~0u;
// Pixels of a block of the pixel-blocked layout that references know, and with them levels which have no size of their
// own: the kernels of ARM take the same.
#if defined(__aarch64__) || defined(__arm__)
constexpr size_t reference_pixel_block = 32;
#else
constexpr size_t reference_pixel_block = 8;
#endif

// What the arithmetic of a level's vectors is like. Fused levels round a product and a sum once, and so give the same
// bits as each other. Flushing ones take denormals as zeros, and produce zeros (with the sign) instead of them.
#if defined(__arm__)
constexpr uint32_t fused_levels = feature_neonfma;
constexpr uint32_t flushing_levels = feature_neon | feature_neonfma;
#else
constexpr uint32_t fused_levels = feature_avx2 | feature_avx512 | feature_neon;
constexpr uint32_t flushing_levels = 0;
#endif

// The features that every CPU has on which the build runs. Small ones for 32-bit ARM take NEON for granted, as compilers
// for Android do.
#if defined(__aarch64__) || (defined(__arm__) && defined(QN_SMALL))
constexpr uint32_t isa_baseline = isa_ref | isa_neon;
#else
constexpr uint32_t isa_baseline = isa_ref;
#endif

struct Cpu {
  uint32_t isa;                         // mask of Feature, lowered by QUERN_ISA
  Core core;                            // of the fastest ones, or what QUERN_CORE says
  size_t l1_bytes, l2_bytes, l3_bytes;  // data caches seen by one core; a cautious guess where unknown
  size_t fast_cores;                    // of all clusters but the slowest
  size_t pixel_block;                   // pixels of the pixel-blocked layout: tiles of spmm.inc divide it
  size_t vector_bytes;                  // of vectors whose length is the machine's; 0 where there are none
};

// Detected once; thread-safe.  Survives a failed cpuinfo_initialize().
//
// QUERN_ISA is a ceiling ("avx2": avx2 and everything below it) or a comma-separated list of levels, which leaves their
// features alone ("sse41,avx512"); "ref" is always included.  An unknown name is reported to the log and ignored.
//
// QUERN_CORE=a55 takes the cores of this machine for others: for measuring, and for machines that cpuinfo does not
// know. It only decides which of the rows that run anyway are chosen, and by which costs.
const Cpu& cpu();

// Of clusters from the fastest to the slowest, as cpuinfo sorts them: how many cores are faster than the last
// cluster's, or all cores where none is.
size_t fast_cores(const cpuinfo_cluster* clusters, size_t count);

// "avx2" for isa_avx2; "?" for anything else than the features of a known level.
const char* isa_name(uint32_t isa);
// 0 for an unknown name.
uint32_t isa_from_name(const char* name);
// The features that are left when `isa`, those of a level, is the ceiling.
uint32_t isa_ceiling(uint32_t isa);
// What kernels of floats, or of bytes, may be chosen from: the highest level whose features the CPU has and that such
// kernels are written for.
uint32_t float_level();
uint32_t byte_level();

// "a55" for core_a55.
const char* core_name(Core core);
// False for an unknown name.
bool core_from_name(const char* name, Core* core);

}  // namespace quern

// What this CPU can run.  In src/, cpu.cc is the sole includer of <cpuinfo.h>.
#pragma once

#include <quern/base.h>

#include <cstdint>

struct cpuinfo_cluster;

namespace quern {

// Instruction set levels, one bit each; a kernel's row names the one it needs.
enum Isa : uint32_t {
  isa_ref = 1u << 0,      // plain C++, runs everywhere
  isa_sse41 = 1u << 1,    // x86 SSE4.1
  isa_avx2 = 1u << 2,     // AVX2 and FMA
  isa_avx512 = 1u << 3,   // AVX-512 F, DQ, BW, VL
  isa_neon = 1u << 8,     // Advanced SIMD of ARM: on arm64 it has FMA
  isa_neonfma = 1u << 9,  // the same on 32-bit ARM with VFPv4, and so FMA
};

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
constexpr uint32_t fused_levels = isa_neonfma;
constexpr uint32_t flushing_levels = isa_neon | isa_neonfma;
#else
constexpr uint32_t fused_levels = isa_avx2 | isa_avx512 | isa_neon;
constexpr uint32_t flushing_levels = 0;
#endif

// The levels that every CPU has on which the build runs. Small ones for 32-bit ARM take NEON for granted, as compilers
// for Android do.
#if defined(__aarch64__) || (defined(__arm__) && defined(QN_SMALL))
constexpr uint32_t isa_baseline = isa_ref | isa_neon;
#else
constexpr uint32_t isa_baseline = isa_ref;
#endif

struct Cpu {
  uint32_t isa;                         // mask of Isa, lowered by QUERN_ISA
  Core core;                            // of the fastest ones, or what QUERN_CORE says
  size_t l1_bytes, l2_bytes, l3_bytes;  // data caches seen by one core; a cautious guess where unknown
  size_t fast_cores;                    // of all clusters but the slowest
  size_t pixel_block;                   // pixels of the pixel-blocked layout: tiles of spmm.inc divide it
};

// Detected once; thread-safe.  Survives a failed cpuinfo_initialize().
//
// QUERN_ISA is a ceiling ("avx2": avx2 and everything below it) or a comma-separated list of exact levels
// ("sse41,avx512"); "ref" is always included.  An unknown name is reported to the log and ignored.
//
// QUERN_CORE=a55 takes the cores of this machine for others: for measuring, and for machines that cpuinfo does not
// know. It only decides which of the rows that run anyway are chosen, and by which costs.
const Cpu& cpu();

// Of clusters from the fastest to the slowest, as cpuinfo sorts them: how many cores are faster than the last
// cluster's, or all cores where none is.
size_t fast_cores(const cpuinfo_cluster* clusters, size_t count);

// "avx2" for isa_avx2; "?" for anything else than one known bit.
const char* isa_name(uint32_t isa);
// 0 for an unknown name.
uint32_t isa_from_name(const char* name);

// "a55" for core_a55.
const char* core_name(Core core);
// False for an unknown name.
bool core_from_name(const char* name, Core* core);

}  // namespace quern

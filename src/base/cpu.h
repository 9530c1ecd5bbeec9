// What this CPU can run.  cpu.cc is the sole includer of <cpuinfo.h>.
#pragma once

#include <quern/base.h>

#include <cstdint>

namespace quern {

// Instruction set levels, one bit each; a kernel's row names the one it needs.
enum Isa : uint32_t {
  isa_ref = 1u << 0,     // plain C++, runs everywhere
  isa_sse41 = 1u << 1,   // x86 SSE4.1
  isa_avx2 = 1u << 2,    // AVX2 and FMA
  isa_avx512 = 1u << 3,  // AVX-512 F, DQ, BW, VL
  isa_neon = 1u << 8,    // arm64 Advanced SIMD
};

struct Cpu {
  uint32_t isa;                         // mask of Isa, lowered by QUERN_ISA
  size_t l1_bytes, l2_bytes, l3_bytes;  // data caches seen by one core; a cautious guess where unknown
  size_t pixel_block;                   // pixels of the pixel-blocked layout: tiles of spmm.inc divide it
};

// Detected once; thread-safe.  Survives a failed cpuinfo_initialize().
//
// QUERN_ISA is a ceiling ("avx2": avx2 and everything below it) or a comma-separated list of exact levels
// ("sse41,avx512"); "ref" is always included.  An unknown name is reported to the log and ignored.
const Cpu& cpu();

// "avx2" for isa_avx2; "?" for anything else than one known bit.
const char* isa_name(uint32_t isa);
// 0 for an unknown name.
uint32_t isa_from_name(const char* name);

}  // namespace quern

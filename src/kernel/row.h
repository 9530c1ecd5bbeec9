// What the rows of all kernel tables have in common.
#pragma once

#include <quern/base.h>

#include <cstdint>
#include <span>

#include "base/cpu.h"

#if defined(__x86_64__)
#define QN_ARCH_X86_64 1
#define QN_ARCH_ARM64 0
#elif defined(__aarch64__)
#define QN_ARCH_X86_64 0
#define QN_ARCH_ARM64 1
#endif

namespace quern {

struct Row {
  const char* name;
  qn_type type;
  uint32_t isa;      // the level it needs: one bit of Isa
  qn_layout layout;  // of the activations
};

// May this row run on a CPU with these levels?
inline bool runs_on(const Row& row, uint32_t isa_mask) { return (row.isa & isa_mask) != 0; }

}  // namespace quern

// From the identification of a core to its kind: the row of op/core/machine.inc that is nearest, and the kernels made
// for such cores.
#pragma once

#include "base/cpu.h"

namespace quern {

struct CoreKind {
  Core core;
  bool exact;  // false: nothing was measured or modelled for this very core; it is the nearest kind, or core_other
};

enum class Vendor : uint8_t { other, intel, amd };

// What CPUID says. `features` is a mask of Feature, whatever QUERN_ISA allows.
struct X86Id {
  Vendor vendor;
  uint32_t family, model, features;
};

// Features decide where the model is unknown, or where a hypervisor shows a model that contradicts them.
CoreKind core_of(const X86Id& id);

// Takes the Main ID Register of a core that is younger than cpuinfo.
CoreKind core_of_midr(uint32_t midr);

}  // namespace quern

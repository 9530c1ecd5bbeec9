// Cores of phones that a model's time is estimated for: what is known of them, and what is assumed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/cpu.h"
#include "op/core/machine.h"

namespace quern {

// The row of op/core/machine.inc for a kind of cores of arm64, on any machine.
const MachineRow& arm64_machine(Core core);

struct PhoneCore {
  const char* name;
  Core kind;
  const char* model_name;       // of a model of it, as llvm-mca or scripts/scoreboard.py calls that
  const char* chip;             // a phone's, with such cores
  size_t count;                 // of them in the chip
  double ghz;                   // their clock there
  size_t l1_bytes, last_bytes;  // of the first cache of data, and of the last one before memory
  double memory_gbs, all_gbs;   // from memory to one core, to all of them: 10^9 bytes per second

  const MachineRow& machine() const { return arm64_machine(kind); }
};

std::span<const PhoneCore> phone_cores();

// By its name ("a73", "cortex-a73") or that of a model ("n1", "neoverse-n1": the first core with it); NULL if unknown.
const PhoneCore* find_phone_core(const std::string& name);

// Cycles of an operation on a vector of four floats together with its load or store: in order, loads of 128 bits take
// two; out of order, as many start in a cycle as multiply-adds.
inline double vector_cycles(const PhoneCore& core) {
  const MachineRow& m = core.machine();
  return m.in_order ? 2 : 4 / double{m.peak};
}

}  // namespace quern

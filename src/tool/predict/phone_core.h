// The cores of phones for which estimates are made: facts about them, and assumptions.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/cpu.h"
#include "op/core/machine.h"

namespace quern::predict {

// The row of op/core/machine.inc for a kind of cores of arm64, on any machine.
const MachineRow& arm64_machine(Core core);

struct PhoneCore {
  const char* name;
  Core kind;
  const char* model_name;       // the model's name in llvm-mca or scripts/scoreboard.py
  const char* chip;             // a phone's chip with such cores
  uint32_t features;            // mask of Feature, of these cores in this chip
  size_t count;                 // number of these cores in the chip
  double ghz;                   // their clock there
  size_t l1_bytes, last_bytes;  // of the first cache of data, and of the last one before memory
  double memory_gbs, all_gbs;   // 10^9 bytes per second from memory to one core, and to all cores

  const MachineRow& machine() const { return arm64_machine(kind); }
};

std::span<const PhoneCore> phone_cores();

// Finds a core by its name ("a73", "cortex-a73") or by its model's name ("n1", "neoverse-n1": the first core of that
// model); NULL if unknown.
const PhoneCore* find_phone_core(const std::string& name);

// Cycles of an operation on a vector of four floats, together with its load or store. In order, a load of 128 bits
// takes two cycles; out of order, as many loads as multiply-adds start in a cycle.
inline double vector_cycles(const PhoneCore& core) {
  const MachineRow& m = core.machine();
  return m.in_order ? 2 : 4 / double{m.peak};
}

}  // namespace quern::predict

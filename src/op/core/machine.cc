#include "op/core/machine.h"

#include <array>
#include <atomic>

#include "base/needs.h"
#include "kernel/row.h"  // what machine.inc is compiled for

namespace quern {
namespace {

constexpr MachineEntry all[] = {
#define QN_MACHINE(level, core, ...) {level, core, {__VA_ARGS__}},
#include "op/core/machine.inc"
};

// A build without what is for some cores has no rows of theirs.
constexpr bool is_here(const MachineEntry& entry) { return has_cores || (entry.cores & core_other) != 0; }

constexpr size_t count_here() {
  size_t count = 0;
  for (const MachineEntry& entry : all) count += is_here(entry);
  return count;
}

constexpr auto entries = [] {
  std::array<MachineEntry, count_here()> here = {};
  size_t count = 0;
  for (const MachineEntry& entry : all) {
    if (is_here(entry)) here[count++] = entry;
  }
  return here;
}();

std::atomic<const MachineRow*> current = nullptr;

const MachineRow* find() {
  for (const MachineEntry& entry : entries) {
    if ((entry.isa & ~cpu().isa) == 0 && (entry.cores & cpu().core) != 0) return &entry.row;
  }
  return &entries.back().row;
}

}  // namespace

const MachineRow& machine() {
  const MachineRow* row = current.load(std::memory_order_acquire);
  if (row == nullptr) current.store(row = find(), std::memory_order_release);  // all threads find the same
  return *row;
}

void replace_machine(const MachineRow* row) { current.store(row, std::memory_order_release); }

}  // namespace quern

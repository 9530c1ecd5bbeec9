#include "op/core/machine.h"

#ifndef QN_SMALL

#include <atomic>
#include <iterator>

#include "kernel/row.h"  // QN_ARCH_..., which machine.inc tests

namespace quern {
namespace {

constexpr MachineEntry entries[] = {
#define QN_MACHINE(level, core, ...) {level, core, {__VA_ARGS__}},
#include "op/core/machine.inc"
};

std::atomic<const MachineRow*> current = nullptr;

const MachineRow* find() {
  for (const MachineEntry& entry : entries) {
    if ((entry.isa & ~cpu().isa) == 0 && (entry.cores & cpu().core) != 0) return &entry.row;
  }
  return &std::end(entries)[-1].row;
}

}  // namespace

const MachineRow& machine() {
  const MachineRow* row = current.load(std::memory_order_acquire);
  if (row == nullptr) current.store(row = find(), std::memory_order_release);  // all threads find the same row
  return *row;
}

void replace_machine(const MachineRow* row) { current.store(row, std::memory_order_release); }

}  // namespace quern

#endif

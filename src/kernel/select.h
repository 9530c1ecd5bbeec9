// The best micro-kernel for a family, type and CPU.  Called when an operator is created or planned, never in a run.
#pragma once

#include <cstring>
#include <span>

#include "base/cpu.h"
#include "kernel/row.h"

namespace quern {

// First row of the table that this CPU (after QUERN_ISA) runs and that `fits` accepts; tables are sorted best first.
// `name`, if not NULL, asks for that row alone. NULL when there is none.
template <class Table, class Fits>
auto select(const Table& rows, const char* name, Fits&& fits) -> decltype(rows.data()) {
  for (const auto& row : rows) {
    if (!runs_on(row, cpu().isa) || !fits(row)) continue;
    if (name == nullptr || std::strcmp(name, row.name) == 0) return &row;
  }
  return nullptr;
}

// The best row of a table with a reference, all rows of which do the same.
template <class Table>
auto best(const Table& rows) -> decltype(*rows.data()) {
  return *select(rows, nullptr, [](const auto&) { return true; });
}

}  // namespace quern

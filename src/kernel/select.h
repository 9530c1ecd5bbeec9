// The best micro-kernel for a family, type and CPU.  Called when an operator is created or planned, never in a run.
#pragma once

#include <span>

#include "base/cpu.h"
#include "kernel/row.h"

namespace quern {

// First row of the table that this CPU may choose and that `fits` accepts; tables are sorted best first, and rows made
// for some cores stand before those for all. `name`, if not NULL, asks for that row alone. NULL when there is none.
template <class Table, class Fits>
auto select(const Table& rows, const char* name, Fits&& fits) -> decltype(rows.data()) {
  for (const auto& row : rows) {
    if (may_choose(row, name) && fits(row)) return &row;
  }
  return nullptr;
}

// The best row of a table with a reference, all rows of which do the same.
template <class Table>
auto best(const Table& rows) -> decltype(*rows.data()) {
  return *select(rows, nullptr, [](const auto&) { return true; });
}

}  // namespace quern

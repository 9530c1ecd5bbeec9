// The best micro-kernel for a family, type and CPU.  Called when an operator is created or planned, never in a run.
#pragma once

#include <span>

#include "base/cpu.h"
#include "kernel/row.h"

namespace quern {

// First row of the table for numbers of this type that this CPU may choose and that `fits` accepts; tables are sorted
// best first, and rows made for some cores stand before those for all. `name`, if not NULL, asks for that row alone.
// NULL when there is none.
template <class Table, class Fits>
auto select(const Table& rows, KernelType type, const char* name, Fits&& fits) -> decltype(rows.data()) {
  for (const auto& row : rows) {
    if (may_choose(row, type, name) && fits(row)) return &row;
  }
  return nullptr;
}

// The best row for a type of a table that has a reference for it, all rows of which do the same.
template <class Table>
auto best(const Table& rows, KernelType type) -> decltype(*rows.data()) {
  return *select(rows, type, nullptr, [](const auto&) { return true; });
}

}  // namespace quern

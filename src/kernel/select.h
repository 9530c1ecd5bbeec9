// Chooses the best micro-kernel of a family for a type and the CPU. Operators do this when they are created or planned,
// never during a run.
#pragma once

#include <span>

#include "base/cpu.h"
#include "kernel/row.h"

namespace quern {

// Returns the first row of the table that may be chosen on this CPU for numbers of this type and that `fits` accepts,
// or NULL if there is none. Tables list the best row first, and rows made for some cores before those for all cores. If
// `name` is not NULL, only the row with that name counts.
template <class Table, class Fits>
auto select(const Table& rows, KernelType type, const char* name, Fits&& fits) -> decltype(rows.data()) {
  for (const auto& row : rows) {
    if (may_choose(row, type, name) && fits(row)) return &row;
  }
  return nullptr;
}

// Returns the best row for a type. All rows of the table must compute the same function, and one of them must be a
// reference for the type.
template <class Table>
auto best(const Table& rows, KernelType type) -> decltype(*rows.data()) {
  return *select(rows, type, nullptr, [](const auto&) { return true; });
}

}  // namespace quern

// Kernels that are wrong on purpose, each in one way.  The self-test demands that the checker finds the fault and names
// it.
#pragma once

#include <cstdlib>
#include <span>
#include <string>

#include "checker.h"

namespace quern::check {

struct BadKernel {
  const char* name;
  Kernel kernel;
  const char* finding;     // must occur in what the checker says; "" when the kernel is right
  uint32_t isa = isa_ref;  // the level that it needs
};

inline void PrintTo(const BadKernel& bad, std::ostream* out) { *out << bad.name; }

// The reference of a table for numbers of this type.
template <class Row>
const Row& reference_of(std::span<const Row> rows, KernelType type) {
  for (const Row& row : rows) {
    if (row.type == type && row.isa == isa_ref) return row;
  }
  std::abort();
}

// Faults of the machine (assembly, one file per ISA) and of memory and numbers (C++).
std::vector<BadKernel> bad_kernels();
// The same of memory and numbers in int8.
std::vector<BadKernel> bad_qs8_kernels();

}  // namespace quern::check

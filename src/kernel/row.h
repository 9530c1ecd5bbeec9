// What the rows of all kernel tables have in common.
#pragma once

#include <quern/base.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/cpu.h"
#include "base/needs.h"

// The architecture, for the tables: one of these is 1.
#if defined(__x86_64__)
#define QN_ARCH_X86_64 1
#define QN_ARCH_ARM64 0
#define QN_ARCH_ARM32 0
#elif defined(__aarch64__)
#define QN_ARCH_X86_64 0
#define QN_ARCH_ARM64 1
#define QN_ARCH_ARM32 0
#elif defined(__arm__)
#define QN_ARCH_X86_64 0
#define QN_ARCH_ARM64 0
#define QN_ARCH_ARM32 1
#endif

namespace quern {

// The machine that a row is made for: the word `isa` of a table's line, where a level alone means all cores.
struct Target {
  uint32_t isa, cores;
  constexpr Target(uint32_t level, uint32_t made_for = any_core) : isa(level), cores(made_for) {}
};
inline constexpr Target isa_neon_a53{isa_neon, core_a53};
inline constexpr Target isa_neon_a55{isa_neon, core_a55};
inline constexpr Target isa_neon_inorder{isa_neon, core_a53 | core_a55};

struct Row {
  char name[40] = {};  // not a pointer, which the loader would have to relocate
  qn_type type;
  uint32_t isa;      // the level it needs: one bit of Isa
  uint32_t cores;    // mask of Core: which it is made for. It runs on all.
  qn_layout layout;  // of the activations

  constexpr Row(const char* row, qn_type of, Target target, qn_layout in)
      : type(of), isa(target.isa), cores(target.cores), layout(in) {
    set_name(row);
  }
  constexpr void set_name(const char* row) {
    size_t i = 0;
    for (; row[i] != '\0'; ++i) name[i] = row[i];
    name[i] = '\0';
  }
};

// Can this row run on a CPU with these levels?
inline bool runs_on(const Row& row, uint32_t isa_mask) { return (row.isa & isa_mask) != 0; }

// May this row be chosen on this CPU (after QUERN_ISA and QUERN_CORE)? By its name alone, whatever the core, if `name`
// is not NULL.
inline bool may_choose(const Row& row, const char* name) {
  if (!runs_on(row, cpu().isa)) return false;
  return name == nullptr ? (row.cores & cpu().core) != 0 : std::strcmp(name, row.name) == 0;
}

// A row for matrices of one row alone, as every CPU has others that do the same.
template <class TableRow>
constexpr bool for_one_row(const TableRow& row) {
  if constexpr (requires { row.mr; }) return row.mr == 1 && (row.isa & isa_baseline) != 0;
  return false;
}

// Does a list of what a build needs ask for this row, or for its core?
template <class TableRow>
constexpr bool is_needed(const TableRow& row) {
  if (!trimmed) return true;
  if (for_one_row(row) && !has_all_kernels) return false;
  if (!has_kernel(row.name) || (row.layout == QN_LAYOUT_PIXEL_BLOCKED && !has_sparse)) return false;
  return row.cores == any_core || for_core(row.name);
}

// Do both compute the same, each in its own way?
template <class TableRow>
constexpr bool same_task(const TableRow& a, const TableRow& b) {
  bool same = a.layout == b.layout;
  if constexpr (requires { a.kind; }) same = same && a.kind == b.kind;
  if constexpr (requires { a.kernel; }) same = same && a.kernel == b.kernel;
  if constexpr (requires { a.stride; }) same = same && a.stride == b.stride;
  if constexpr (requires { a.outputs; }) same = same && a.outputs == b.outputs;
  return same;
}

// Does a build contain this row of a table? A small one leaves out references where every CPU has another row, and what
// takes FMA on 32-bit ARM, where the kernels without it run, too, and products take fewer instructions (asm/arm/asm.h).
template <class TableRow, class Table>
constexpr bool is_built(const TableRow& row, const Table& table) {
  if (!is_needed(row)) return false;
  if (small && row.isa == isa_neonfma) return false;
  if (!small || row.isa != isa_ref) return true;
  for (const TableRow& other : table) {
    const bool always = other.isa != isa_ref && (other.isa & isa_baseline) != 0 && other.cores == any_core;
    if (always && is_needed(other) && same_task(row, other)) return false;
  }
  return true;
}

template <const auto& table>
constexpr size_t count_built() {
  size_t rows = 0;
  for (const auto& row : table) rows += is_built(row, table);
  return rows;
}

// The i-th row of a table that the build contains.
template <const auto& table>
constexpr const auto& built_row(size_t i) {
  size_t at = 0;
  while (!is_built(table[at], table) || i-- > 0) ++at;
  return table[at];
}

// The rows of a table that the build contains. What the others point to is never referred to.
template <const auto& table>
inline constexpr auto built = []<size_t... i>(std::index_sequence<i...>) {
  return std::array<std::remove_cvref_t<decltype(table[0])>, sizeof...(i)>{built_row<table>(i)...};
}
(std::make_index_sequence<count_built<table>()>());

}  // namespace quern

// What the rows of all kernel tables have in common.
#pragma once

#include <pthread.h>
#include <quern/base.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "base/cpu.h"
#include "base/needs.h"
#include "kernel/type.h"

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

// A size of a tile that is so many vectors, where vectors are as long as the machine has them (SVE, RVV). Tables hold it
// until they are resolved; whoever looks at the rows of a family sees elements.
constexpr size_t in_vectors = size_t{1} << 16;
constexpr size_t vectors(size_t count) { return in_vectors | count; }
constexpr size_t resolve(size_t size, KernelType type, size_t vector_bytes) {
  return size < in_vectors ? size : (size - in_vectors) * vector_bytes / bytes_of_sum(type);
}

// What a row may demand of the values of its weights, one bit each; checked when an operator is created.
enum Demand : uint8_t {
  any = 0,
  w127 = 1,  // no weight is -128, so that products of two fit 16 bits
};

struct Row {
  char name[40] = {};  // not a pointer, which the loader would have to relocate
  KernelType type;
  uint8_t demands = any;  // of the values of weights: mask of Demand
  uint32_t isa;           // the features it needs, all of them: mask of Feature
  uint32_t cores;         // mask of Core: which it is made for. It runs on all.
  qn_layout layout;       // of the activations

  constexpr Row(const char* row, KernelType of, Target target, qn_layout in, uint8_t demanded = any)
      : type(of), demands(demanded), isa(target.isa), cores(target.cores), layout(in) {
    set_name(row);
  }
  constexpr void set_name(const char* row) {
    size_t i = 0;
    for (; row[i] != '\0'; ++i) name[i] = row[i];
    name[i] = '\0';
  }
};

// The beginning of each line of a table, as a Row.
#define QN_ROW(type, isa, layout, name) \
  { #name, ::quern::KernelType::type, ::quern::isa_##isa, QN_LAYOUT_##layout }
#define QN_DEMANDING_ROW(type, demands, isa, layout, name) \
  { #name, ::quern::KernelType::type, ::quern::isa_##isa, QN_LAYOUT_##layout, ::quern::demands }
// Declares a kernel of a family by its type of functions.
#define QN_DECLARE_KERNEL(function, name) std::remove_pointer_t<function> name;

// Can this row run on a CPU with these features?
inline bool runs_on(const Row& row, uint32_t features) { return (row.isa & ~features) == 0; }

// May this row be chosen on this CPU (after QUERN_ISA and QUERN_CORE) for numbers of this type? By its name alone,
// whatever the core, if `name` is not NULL.
inline bool may_choose(const Row& row, KernelType type, const char* name) {
  if (row.type != type || !runs_on(row, cpu().isa)) return false;
  return name == nullptr ? (row.cores & cpu().core) != 0 : std::strcmp(name, row.name) == 0;
}

// A row for matrices of one row alone, as every CPU has others that do the same.
template <class TableRow>
constexpr bool for_one_row(const TableRow& row) {
  if constexpr (requires { row.mr; }) return row.mr == 1 && (row.isa & ~isa_baseline) == 0;
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
  bool same = a.type == b.type && a.layout == b.layout;
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
    const bool always = other.isa != isa_ref && (other.isa & ~isa_baseline) == 0 && other.cores == any_core;
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

// The rows of a table that the build contains, as they stand there. What the others point to is never referred to.
template <const auto& table>
inline constexpr auto built_table = []<size_t... i>(std::index_sequence<i...>) {
  return std::array<std::remove_cvref_t<decltype(table[0])>, sizeof...(i)>{built_row<table>(i)...};
}
(std::make_index_sequence<count_built<table>()>());

// A table whose tiles are sizes of this machine.
template <class Table>
constexpr Table resolved(Table table, size_t vector_bytes) {
  for (auto& row : table) {
    if constexpr (requires { row.mr; }) row.mr = resolve(row.mr, row.type, vector_bytes);
    if constexpr (requires { row.nr; }) row.nr = resolve(row.nr, row.type, vector_bytes);
  }
  return table;
}

template <class Table>
constexpr bool has_vectors(const Table& table) {
  for (const auto& row : table) {
    if constexpr (requires { row.mr; })
      if (row.mr >= in_vectors) return true;
    if constexpr (requires { row.nr; })
      if (row.nr >= in_vectors) return true;
  }
  return false;
}

// The rows of a table that the build contains, for this machine. Thread-safe.
template <const auto& table>
auto built() -> std::span<const std::remove_cvref_t<decltype(table[0])>> {
  if constexpr (!has_vectors(built_table<table>)) return built_table<table>;
  static auto rows = built_table<table>;
  static pthread_once_t once = PTHREAD_ONCE_INIT;  // needs no C++ runtime, as a constructor would
  pthread_once(&once, [] { rows = resolved(rows, cpu().vector_bytes); });
  return rows;
}

}  // namespace quern

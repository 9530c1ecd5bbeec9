// The part that the rows of all kernel tables share, and the functions that choose among rows. A row describes one
// kernel: what it computes and which CPUs run it.
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
#include "kernel/tile_engine.h"
#include "kernel/type.h"

// The architecture of the build: exactly one of these is 1. The tables test them.
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

// The CPUs that a row is made for. A table's line names one of these, isa_<isa>; a level without a kind of core is made
// for all cores.
struct Target {
  uint32_t isa, cores;
  constexpr Target(uint32_t level, uint32_t made_for = any_core) : isa(level), cores(made_for) {}
};
inline constexpr Target isa_neon_a53{isa_neon, core_a53};
inline constexpr Target isa_neon_a55{isa_neon, core_a55};
inline constexpr Target isa_dotprod_a55{isa_dotprod, core_a55};
inline constexpr Target isa_neon_inorder{isa_neon, core_a53 | core_a55};

// A table may give the size of a tile as a number of vectors, for machines whose vectors have no fixed length (SVE,
// RVV). resolve() turns it into a number of elements. The functions that return the rows of a family, like gemm_rows(),
// return resolved tables.
constexpr size_t in_vectors = size_t{1} << 16;
constexpr size_t vectors(size_t count) { return in_vectors | count; }
constexpr size_t resolve(size_t size, KernelType type, size_t vector_bytes) {
  return size < in_vectors ? size : (size - in_vectors) * vector_bytes / bytes_of_sum(type);
}

// Conditions that a row may set for the values of its weights and scales, one bit each. They are checked when an operator
// is created or planned.
enum Demand : uint8_t {
  any = 0,
  w127 = 1,    // no weight is -128, so that the sum of two products fits 16 bits
  fits32 = 2,  // the product of any sum and its scale (requantize.h) fits 32 bits
};

struct Row {
  char name[38] = {};  // not a pointer, which the loader would have to relocate
  KernelType type;
  uint8_t demands = any;  // conditions for weights and scales: mask of Demand
  uint32_t isa;           // the features that it needs, all of them: mask of Feature
  uint32_t cores : 24;    // the cores that it is made for: mask of Core. It runs on all cores.
  qn_layout layout : 8;   // layout of the activations

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
static_assert(sizeof(Row) == 48, "small builds have tables of a hundred rows");

// The beginning of each line of a table, as a Row.
#define QN_ROW(type, isa, layout, name) \
  { #name, ::quern::KernelType::type, ::quern::isa_##isa, QN_LAYOUT_##layout }
#define QN_DEMANDING_ROW(type, demands, isa, layout, name) \
  { #name, ::quern::KernelType::type, ::quern::isa_##isa, QN_LAYOUT_##layout, ::quern::demands }
// Declares the kernel `name`; `function` is the function pointer type of its family.
#define QN_DECLARE_KERNEL(function, name) std::remove_pointer_t<function> name;

// Does this row read activations of bytes? No row of a build without integers does.
inline bool of_bytes(const Row& row) { return has_integers && info_of(row.type).activations == Element::s8; }

// Can this row run on a CPU with these features?
inline bool runs_on(const Row& row, uint32_t features) { return (row.isa & ~features) == 0; }

// Is it a kernel of the tile engine? Only builds for x86 have some.
inline bool of_tiles(const Row& row) { return (row.isa & tile_engine.feature) != 0; }

// Can this row run here, with what QUERN_ISA leaves and the system permits?
inline bool runs_here(const Row& row) { return runs_on(row, cpu().isa) && (!of_tiles(row) || may_use(row.isa)); }

// May this row be chosen on this CPU (as QUERN_ISA and QUERN_CORE describe it) for numbers of this type? If `name` is
// NULL, the row must be made for this core. Otherwise it must have that name and may be made for any core.
inline bool may_choose(const Row& row, KernelType type, const char* name) {
  if (row.type != type) return false;
  if (name == nullptr ? (row.cores & cpu().core) == 0 : std::strcmp(name, row.name) != 0) return false;
  return runs_here(row);
}

// Is this a row for matrices of a single row, of the baseline or of ARM? Rows for several rows also serve such matrices,
// so a trimmed build can do without it. (On x86 this would take several times as long.)
template <class TableRow>
constexpr bool for_one_row(const TableRow& row) {
  if constexpr (requires { row.mr; }) return row.mr == 1 && (!QN_ARCH_X86_64 || (row.isa & ~isa_baseline) == 0);
  return false;
}

// Does the list of what a trimmed build needs ask for this row? A row made for some cores also needs its core listed.
template <class TableRow>
constexpr bool is_needed(const TableRow& row) {
  if (!has_integers && info_of(row.type).activations == Element::s8) return false;
  if (!has_scaled_blocks && info_of(row.type).scales == Scales::block) return false;
  if (!quantizes_inputs && quantizes_rows(row.type)) return false;
  if (!has_byte_weights && row.type == KernelType::qw8c) return false;
  if (!has_tiles && (row.isa & feature_amxint8) != 0) return false;
  if (!trimmed) return true;
  if (for_one_row(row) && !has_all_kernels) return false;
  if (!has_kernel(row.name) || (row.layout == QN_LAYOUT_PIXEL_BLOCKED && !has_sparse)) return false;
  return row.cores == any_core || for_core(row.name);
}

// Do both rows compute the same function, so that one can replace the other?
template <class TableRow>
constexpr bool same_task(const TableRow& a, const TableRow& b) {
  bool same = a.type == b.type && a.layout == b.layout;
  if constexpr (requires { a.kind; }) same = same && a.kind == b.kind;
  if constexpr (requires { a.kernel; }) same = same && a.kernel == b.kernel;
  if constexpr (requires { a.stride; }) same = same && a.stride == b.stride;
  if constexpr (requires { a.outputs; }) same = same && a.outputs == b.outputs;
  return same;
}

// Is this row needed for weights of -128 alone? A row that demands other weights is for the same task and CPUs.
template <class TableRow, class Table>
constexpr bool for_any_weights(const TableRow& row, const Table& table) {
  if ((row.demands & w127) != 0) return false;
  for (const TableRow& other : table) {
    if (other.demands == (row.demands | w127) && other.isa == row.isa && other.cores == any_core && is_needed(other) &&
        same_task(row, other))
      return true;
  }
  return false;
}

// Can a small build of everything do without this row? In place of depthwise tiles that demand something of weights of
// bytes, kernels of rows do the work, more slowly.
template <class TableRow>
constexpr bool is_spare(const TableRow& row) {
  if constexpr (requires { row.stride; }) return small && !trimmed && (row.demands & w127) != 0;
  return false;
}

// Does this build contain this row of a table? A small build leaves out a reference if every CPU runs another row for
// the same task. On 32-bit ARM it also leaves out rows that use FMA: CPUs with FMA run the rows without it as well, and
// these need fewer instructions for their products (asm/arm/asm.h).
template <class TableRow, class Table>
constexpr bool is_built(const TableRow& row, const Table& table) {
  if (!is_needed(row) || is_spare(row)) return false;
  if (!has_any_weights && for_any_weights(row, table)) return false;
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

// The rows of a table that the build contains, unresolved. Nothing refers to the kernels of the other rows, so the
// linker leaves them out.
template <const auto& table>
inline constexpr auto built_table = []<size_t... i>(std::index_sequence<i...>) {
  return std::array<std::remove_cvref_t<decltype(table[0])>, sizeof...(i)>{built_row<table>(i)...};
}
(std::make_index_sequence<count_built<table>()>());

// The table with its tile sizes in elements, for vectors of `vector_bytes` bytes.
template <class Table>
constexpr Table resolved(Table table, size_t vector_bytes) {
  for (auto& row : table) {
    if constexpr (requires { row.mr; }) row.mr = resolve(row.mr, row.type, vector_bytes);
    if constexpr (requires { row.nr; }) row.nr = resolve(row.nr, row.type, vector_bytes);
  }
  return table;
}

// Does the table give a tile size as a number of vectors?
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

// The rows of a table that the build contains, with tile sizes resolved for this machine. Thread-safe.
template <const auto& table>
auto built() -> std::span<const std::remove_cvref_t<decltype(table[0])>> {
  if constexpr (!has_vectors(built_table<table>)) return built_table<table>;
  static auto rows = built_table<table>;
  static pthread_once_t once = PTHREAD_ONCE_INIT;  // a static constructor would need the C++ runtime, this does not
  pthread_once(&once, [] { rows = resolved(rows, cpu().vector_bytes); });
  return rows;
}

}  // namespace quern

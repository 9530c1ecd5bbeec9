// What this build contains: everything, unless it is trimmed to a list (QUERN_NEEDS in CMake; src/README.md). Code that
// is not needed stands behind one of these constants, so that nothing refers to it and the linker leaves it out.
#pragma once

#include <string_view>

#ifdef QN_TRIMMED
#include "base/needs_generated.h"  // the list as arrays, which CMake writes
#endif

namespace quern {

#ifdef QN_NO_MESSAGES
constexpr bool has_messages = false;
#else
constexpr bool has_messages = true;
#endif

#ifdef QN_TRIMMED
constexpr bool trimmed = true;

template <class List>
constexpr bool names(const List& list, std::string_view wanted) {
  for (const std::string_view name : list) {
    if (name == wanted || name == "*") return true;
  }
  return false;
}

// An operator of op.inc, an algorithm as qn_algorithm_string() calls it.
consteval bool has_operator(std::string_view name) { return names(needed::operators, name); }
consteval bool has_algorithm(std::string_view name) { return names(needed::algorithms, name); }
// Beyond graph.h: "op" is the interface of op.h, its tuning included.
consteval bool has_api(std::string_view name) { return names(needed::apis, name); }

// The entry of the list that names this row of a kernel table; empty if none does. "dwconv_f32_k3s1" names the rows
// qn_dwconv_f32_k3s1_..., "dwconv_f32_np" those called qn_dwconv_f32_np8_... and so on. Of rows that "*" names, each
// counts as an entry of its own.
constexpr std::string_view kernel_entry(std::string_view row) {
  row.remove_prefix(std::string_view("qn_").size());
  for (const std::string_view entry : needed::kernels) {
    if (entry == "*") return row;
    if (entry.empty() || !row.starts_with(entry) || row.size() == entry.size()) continue;
    const char next = row[entry.size()];
    if (next < 'a' || next > 'z') return entry;
  }
  return {};
}

// Is a row that is made for one kind of cores, whose name ends with theirs, or for all in order, to be there?
constexpr bool for_core(std::string_view row) {
  if (row.ends_with("_inorder")) return names(needed::cores, "a53") || names(needed::cores, "a55");
  return names(needed::cores, row.substr(row.rfind('_') + 1));
}
// Is any?
constexpr bool has_cores = !needed::cores[0].empty();
constexpr bool has_all_kernels = names(needed::kernels, "*");
#else
constexpr bool trimmed = false;
consteval bool has_operator(std::string_view) { return true; }
consteval bool has_algorithm(std::string_view) { return true; }
consteval bool has_api(std::string_view) { return true; }
constexpr std::string_view kernel_entry(std::string_view) { return "all"; }
constexpr bool for_core(std::string_view) { return true; }
constexpr bool has_cores = true;
constexpr bool has_all_kernels = true;
#endif

// Weights that are stored as nonzeros, and pixel-blocked tensors, exist for the sake of sparse kernels.
constexpr bool has_sparse = has_algorithm("sparse");
// A convolution adds a residual where graphs have sums, or who calls op.h asks for it.
constexpr bool has_residual = has_operator("add") || has_api("op");

}  // namespace quern

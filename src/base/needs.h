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

// For size (QUERN_SMALL); trimmed builds are.
#ifdef QN_SMALL
constexpr bool small = true;
#else
constexpr bool small = false;
#endif

// Backends beside the CPU, and memories beside the host's: nobody can add one to a small build.
constexpr bool has_backends = !small;

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

// Does an entry of the list name this row of a kernel table? "dwconv_f32_k3s1" names the rows qn_dwconv_f32_k3s1_...,
// "dwconv_f32_np" those called qn_dwconv_f32_np8_... and so on.
constexpr bool has_kernel(std::string_view row) {
  row.remove_prefix(std::string_view("qn_").size());
  for (const std::string_view entry : needed::kernels) {
    if (entry == "*") return true;
    if (entry.empty() || !row.starts_with(entry) || row.size() == entry.size()) continue;
    const char next = row[entry.size()];
    if (next < 'a' || next > 'z') return true;
  }
  return false;
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
constexpr bool has_kernel(std::string_view) { return true; }
constexpr bool for_core(std::string_view) { return true; }
constexpr bool has_cores = true;
constexpr bool has_all_kernels = true;
#endif

// Weights that are stored as nonzeros, and pixel-blocked tensors, exist for the sake of sparse kernels.
constexpr bool has_sparse = has_algorithm("sparse");
// A convolution adds a residual where graphs have sums, or who calls op.h asks for it.
constexpr bool has_residual = has_operator("add") || has_api("op");

}  // namespace quern

// Constants that say what this build contains: everything, unless the build is trimmed to a list (QUERN_NEEDS in CMake;
// src/README.md). Code that not every build needs stands behind one of them: where the constant is false nothing refers
// to the code, and the linker leaves it out.
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

// Is the build compiled for size (QUERN_SMALL)? Trimmed builds always are.
#ifdef QN_SMALL
constexpr bool small = true;
#else
constexpr bool small = false;
#endif

// Backends beside the CPU, and memories beside the host's: nobody can add one to a small build.
constexpr bool has_backends = !small;

// Tensors of integers, and quantized ones. A trimmed build has them if its list has "type qs8"; others refuse models with
// any.
#ifdef QN_NO_INTEGERS
constexpr bool has_integers = false;
#else
constexpr bool has_integers = true;
#endif

// Graphs with subgraphs or states. A small build refuses them while it reads a file.
constexpr bool has_subgraphs = !small;

// Labels of classes and the meaning of outputs, which a model's file may hold. A small build ignores them.
constexpr bool has_postprocessing = !small;

#ifdef QN_TRIMMED
constexpr bool trimmed = true;

template <class List>
constexpr bool names(const List& list, std::string_view wanted) {
  for (const std::string_view name : list) {
    if (name == wanted || name == "*") return true;
  }
  return false;
}

// Names of operators are those of op.inc, names of algorithms those of qn_algorithm_string().
consteval bool has_operator(std::string_view name) { return names(needed::operators, name); }
consteval bool has_algorithm(std::string_view name) { return names(needed::algorithms, name); }
// Does the build export more than graph.h needs? "op": the interface of op.h, tuning included; "fd", "bind", "arena":
// functions of graph.h that only some programs call.
consteval bool has_api(std::string_view name) { return names(needed::apis, name); }
// Kinds of libquern-extra.
constexpr bool has_kind(std::string_view name) { return names(needed::kinds, name); }
// Files that the build reads beside plain ones.
constexpr bool has_format(std::string_view name) { return names(needed::formats, name); }

// Does an entry of the list name this row of a kernel table? The entry "dwconv_f32_k3s1" names the rows
// qn_dwconv_f32_k3s1_..., the entry "dwconv_f32_np" the rows qn_dwconv_f32_np8_..., qn_dwconv_f32_np16_... and so on.
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

// Does the build contain this row, which is made for one kind of cores? The row's name ends with the core's, or with
// "inorder" for all cores that issue in order.
constexpr bool for_core(std::string_view row) {
  if (row.ends_with("_inorder")) return names(needed::cores, "a53") || names(needed::cores, "a55");
  return names(needed::cores, row.substr(row.rfind('_') + 1));
}
// Does the list name kernels of this family and type, as "gemm_f32"? Then it has its entry, or longer ones.
consteval bool has_family(std::string_view family) {
  for (const std::string_view entry : needed::kernels) {
    if (entry == "*" || entry == family) return true;
    if (entry.starts_with(family) && entry[family.size()] == '_') return true;
  }
  return false;
}
// Weights of bytes that hold -128.
constexpr bool has_any_weights = names(needed::weights, "any") || names(needed::kernels, "*");
// Does the build contain any row of that kind?
constexpr bool has_cores = !needed::cores[0].empty();
constexpr bool has_all_kernels = names(needed::kernels, "*");
#else
constexpr bool trimmed = false;
consteval bool has_operator(std::string_view) { return true; }
consteval bool has_algorithm(std::string_view) { return true; }
consteval bool has_api(std::string_view) { return true; }
constexpr bool has_kind(std::string_view) { return true; }
constexpr bool has_format(std::string_view) { return true; }
constexpr bool has_kernel(std::string_view) { return true; }
constexpr bool for_core(std::string_view) { return true; }
consteval bool has_family(std::string_view) { return true; }
constexpr bool has_any_weights = true;
constexpr bool has_cores = true;
constexpr bool has_all_kernels = true;
#endif

// Nodes of registered kinds (quern/kind.h), and nodes that only a run can size. A trimmed build has them if its list has
// "operator custom".
constexpr bool has_kinds = has_operator("custom");

// Weights with a scale for each block (KernelType::qd8b4 and qw4b), and layers that quantize their input
// (`quantize_input`) at all. A small build has them only if its list names the kernels.
constexpr bool has_scaled_blocks =
    has_integers &&
    (!small || (trimmed && (has_kernel("qn_gemm_qd8b4_4x8_ref") || has_kernel("qn_gemm_qw4b_4x8_ref"))));
constexpr bool quantizes_inputs =
    has_scaled_blocks || (has_integers && (!small || (trimmed && has_kernel("qn_gemm_qd8c_4x8_ref"))));

// Kernels of tiles, which Linux alone permits. A small build has them only if its list names them.
#if defined(__x86_64__) && defined(__linux__)
constexpr bool has_tiles =
    has_integers &&
    (!small || (trimmed && (has_kernel("qn_gemm_qs8c_256x32_amxint8") || has_kernel("qn_gemm_qd8c_256x32_amxint8"))));
#else
constexpr bool has_tiles = false;
#endif

// Kernels that multiply floats by weights of bytes as they are; others read such weights as floats when they pack them.
constexpr bool has_byte_weights = has_integers && !small;
static_assert(!has_byte_weights || quantizes_inputs, "their sums end as those of quantized inputs do");

// Only sparse kernels need weights that are stored as nonzeros, and pixel-blocked tensors.
constexpr bool has_sparse = has_algorithm("sparse");
// Files of version 2, whose contents are coded.
constexpr bool has_coded = has_format("coded");
// Constants that are not dense in memory.
constexpr bool has_encoded = has_sparse || has_coded;
// Convolutions and matrix products of floats, or from floats to floats. A build for models whose layers are all quantized
// refuses them.
constexpr bool has_float_products = has_family("gemm_f32") || has_family("igemm_f32") || has_family("dwconv_f32") ||
                                    has_family("winograd_f32") || has_family("spmm_f32") || quantizes_inputs;
// A convolution can be asked to add a residual by a graph with sums, or by a caller of op.h.
constexpr bool has_residual = has_operator("add") || has_api("op");

}  // namespace quern

// The parts of check_graph() and infer_shapes() that look at tensors: names, sizes, types, scales.
#pragma once

#include <string_view>

#include "base/needs.h"
#include "graph/file/encoded.h"
#include "graph/ir/rules.h"

namespace quern {

// Whether a name is UTF-8 without control characters: names go into messages, file names and JSON.
bool is_name(std::string_view name);

// Checks rank and size. `what` and `index` name the tensor in messages.
qn_status check_shape(const Shape& shape, qn_type type, const char* what, size_t index);

// Checks scales and zero points against each other, then against the type and the shape, which has been checked before.
#ifdef QN_NO_INTEGERS
inline qn_status check_quantized(const Graph&, size_t) { return QN_OK; }
inline bool has_blocks(const Tensor&) { return false; }
#else
qn_status check_quantized(const Graph& graph, size_t index);
inline bool has_blocks(const Tensor& tensor) { return has_scaled_blocks && tensor.quantization.block != 0; }
#endif

// Checks names, types and constants of all tensors. No two have one name.
qn_status check_tensors(const Graph& graph);

// Checks the type of one input. `first` is the type of input 0. For kinds that move elements, infer_type() compares the
// types of the inputs.
qn_status check_input_type(const Node& node, size_t input, qn_type type, qn_type first);

// Infers the quantization of outputs that follows from the inputs', and checks the types and scales of all others.
qn_status infer_type(Graph& graph, const Node& node);

inline bool is_encoded(const Graph& graph, const Tensor& tensor) {
  return has_encoded && tensor.constant >= 0 && graph.constants[at(tensor.constant)].encoded != nullptr;
}

}  // namespace quern

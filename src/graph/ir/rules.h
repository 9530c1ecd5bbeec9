// What a kind of node demands and produces.
#pragma once

#include <cstdarg>
#include <type_traits>

#include "base/status.h"
#include "base/vector.h"
#include "graph/ir/ir.h"

namespace quern {

using Shape = Vector<size_t>;

// Largest attribute, and so far below SIZE_MAX that sums of a few with a tensor's dimension cannot overflow.
constexpr size_t max_extent = size_t{1} << 30;
constexpr float infinity = std::numeric_limits<float>::infinity();

// What an attribute is compared as. Whole numbers need no conversion to floats; from 2^63 on they turn negative, and no
// range of theirs begins below 0.
template <class T>
using Comparable = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;

// For the ranges of attributes.inc; false for NaN.
template <class T>
bool in_range(T value, Comparable<T> low, Comparable<T> high) {
  const auto x = static_cast<Comparable<T>>(value);
  return x >= low && x <= high;
}

// A node while it is checked: its inputs exist and have shapes.
struct NodeView {
  const Graph& graph;
  const Node& node;

  bool has(size_t input) const { return input < node.inputs.size() && node.inputs[input] != no_tensor; }
  const Tensor& tensor(size_t input) const { return graph.tensors[static_cast<size_t>(node.inputs[input])]; }
  const Shape& shape(size_t input) const { return tensor(input).shape; }
};

// Are inputs after the first constants, and may those beyond the fewest be absent?
bool has_parameters(OpKind kind);

// Checks what the ranges of attributes.inc leave open.
qn_status check_rule(const Node& node);

// Checks the inputs' shapes against each other and the attributes; gives the output's.
qn_status infer_output(const NodeView& view, Shape* output);

// Does the node move elements as they are? They may be of any type, but all inputs and the output are of one, quantized
// alike, with one scale. Other kinds compute with QN_F32.
inline bool moves_elements(OpKind kind) {
  switch (kind) {
    case OpKind::copy:
    case OpKind::concat:
    case OpKind::pad:
    case OpKind::reshape:
    case OpKind::transpose:
    case OpKind::slice: return true;
    default: return false;
  }
}

// May this input be a sparse constant?
inline bool takes_sparse(OpKind kind, size_t input) {
  return input == 1 && (kind == OpKind::conv2d || kind == OpKind::fully_connected);
}

// fail(QN_BAD_MODEL, ...) with the node's name and kind before the text.
#ifdef QN_NO_MESSAGES
template <class... Arguments>
qn_status fail_node(const Node&, const char*, const Arguments&...) {
  return fail(QN_BAD_MODEL, "");
}
#else
[[gnu::format(printf, 2, 3)]] qn_status fail_node(const Node& node, const char* format, ...);
#endif

// The value with which a reshape copies dimension `from` of its input to dimension `to`.
inline int64_t copy_dimension(size_t from, size_t to) { return from == to ? 0 : -2 - static_cast<int64_t>(from); }
// The dimension that value `value` of a reshape, at place `to`, copies; -1: none.
inline int64_t copied_dimension(int64_t value, size_t to) {
  return value == 0 ? static_cast<int64_t>(to) : value <= -2 ? -2 - value : -1;
}

// Padding with which a window gives ceil(size / stride) pixels; the odd pixel lies behind or before them.
void same_padding(SamePadding kind, size_t size, size_t kernel, size_t stride, size_t dilation, size_t* before,
                  size_t* after);

}  // namespace quern

// What each kind of node requires of its inputs and attributes, and the shapes of its outputs.
#pragma once

#include <cstdarg>
#include <type_traits>

#include "base/status.h"
#include "base/vector.h"
#include "graph/ir/kinds.h"

namespace quern {

using Shape = Vector<size_t>;

// Largest value of an attribute. It is so far below SIZE_MAX that a dimension plus a few attributes cannot overflow.
constexpr size_t max_extent = size_t{1} << 30;
constexpr float infinity = std::numeric_limits<float>::infinity();

// The type in which an attribute is compared. Whole numbers are compared as int64_t. Those from 2^63 on become
// negative, and so are out of range: no range of whole numbers begins below 0.
template <class T>
using Comparable = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;

// Whether a value lies in a range of attributes.inc; false for NaN.
template <class T>
bool in_range(T value, Comparable<T> low, Comparable<T> high) {
  const auto x = static_cast<Comparable<T>>(value);
  return x >= low && x <= high;
}

// A node that is being checked. Its inputs exist and have shapes.
struct NodeView {
  const Graph& graph;
  const Node& node;

  bool has(size_t input) const { return input < node.inputs.size() && node.inputs[input] != no_tensor; }
  const Tensor& tensor(size_t input) const { return graph.tensors[static_cast<size_t>(node.inputs[input])]; }
  const Shape& shape(size_t input) const { return tensor(input).shape; }
};

// Checks the rules for attributes that the ranges of attributes.inc cannot express.
qn_status check_rule(const Node& node);

// Checks the inputs' shapes against each other and against the attributes, and writes the shapes of all outputs of the
// node.
qn_status infer_outputs(const NodeView& view, Shape* outputs);

// Checks constants and attributes of a node whose other inputs only a run sizes: what creating its operator relies on.
// infer_outputs() checks them again, with the inputs.
qn_status check_parameters(const NodeView& view);

// Calls fail(QN_BAD_MODEL, ...) with the node's name and kind before the text.
#ifdef QN_NO_MESSAGES
template <class... Arguments>
qn_status fail_node(const Node&, const char*, const Arguments&...) {
  return fail(QN_BAD_MODEL, "");
}
#else
[[gnu::format(printf, 2, 3)]] qn_status fail_node(const Node& node, const char* format, ...);
#endif

// Refuse what a small build does not read: a graph with subgraphs or states.
inline qn_status fail_subgraphs() { return fail(QN_BAD_MODEL, "a model with subgraphs; this library runs none"); }
inline qn_status fail_states() {
  return fail(QN_BAD_MODEL, "a model that carries tensors from run to run; this library runs none");
}

// The value in a reshape that copies dimension `from` of the input to dimension `to`.
inline int64_t copy_dimension(size_t from, size_t to) { return from == to ? 0 : -2 - static_cast<int64_t>(from); }
// The input's dimension that `value`, at place `to` in a reshape, copies; -1: none.
inline int64_t copied_dimension(int64_t value, size_t to) {
  return value == 0 ? static_cast<int64_t>(to) : value <= -2 ? -2 - value : -1;
}

// Computes the padding with which a window gives ceil(size / stride) pixels. If the padding is odd, `kind` says whether
// the extra pixel comes after or before the image.
void same_padding(SamePadding kind, size_t size, size_t kernel, size_t stride, size_t dilation, size_t* before,
                  size_t* after);

}  // namespace quern

// Pass move-transposes: transposes move behind nodes that compute the same in any order of dimensions, until they meet
// transposes that cancel them. An importer has the dimensions of an image in another order than the nodes of other kinds
// between its convolutions.
#include <algorithm>

#include "base/status.h"
#include "graph/ir/custom.h"
#include "graph/pass/match.h"
#include "graph/pass/order.h"
#include "graph/pass/quantized.h"

namespace quern {
namespace {

bool is_elementwise(const Node& node) {
  if (node.kind == OpKind::custom) {
    const qn_kind* const kind = find_kind(node.type.c_str());
    return kind != nullptr && (kind->flags & QN_KIND_ELEMENTWISE) != 0;
  }
  // Those with parameters have one for each element of the last dimension.
  return kind_of(node.kind).has(Kind::elementwise) && !kind_of(node.kind).has(Kind::parameters);
}

// The registered kinds that reduce dimensions which a parameter lists; they keep them with 1 element.
bool is_reduction(const Node& node) {
  if (node.kind != OpKind::custom || node.type.size() < 7 || node.inputs.size() != 1) return false;
  const auto integers = [&](const char* name) -> const Vector<int64_t>* {
    for (const Parameter& parameter : node.parameters) {
      if (parameter.name == name) return &parameter.integers;
    }
    return nullptr;
  };
  const Vector<int64_t>*const axes = integers("axes"), *const keeps = integers("keep_dimensions");
  return std::string_view(node.type.c_str()).starts_with("reduce_") && axes != nullptr && !axes->empty() &&
         (keeps == nullptr || *keeps == Vector<int64_t>{1});
}

bool is_movable(const Node& node) {
  switch (node.kind) {
    case OpKind::concat:
    case OpKind::pad:
    case OpKind::slice: return true;
    default: return is_elementwise(node) || is_reduction(node);
  }
}

// A constant that is broadcast along all dimensions but one, at most.
bool is_line(Rewriter& r, int tensor, size_t rank) {
  if (r.shape(tensor).size() > rank || r.tensor(tensor).quantization.axis >= 0) return false;
  return std::count_if(r.shape(tensor).begin(), r.shape(tensor).end(), [](size_t d) { return d != 1; }) <= 1;
}

// The order of all transposes before the node, if there are no other inputs but constants that can follow; else empty.
Order order_before(Rewriter& r, const Node& node) {
  Order order;
  for (const int input : node.inputs) {
    if (input == no_tensor || r.is_constant(input)) continue;
    const Node* const transpose = r.writer(input);
    const Order own = transpose == nullptr ? Order() : order_of(*transpose);
    if (own.empty() || (!order.empty() && own != order)) return {};
    order = own;
  }
  for (const int input : node.inputs) {
    if (input == no_tensor || !r.is_constant(input)) continue;
    if (!is_elementwise(node) || !is_line(r, input, order.size())) return {};
  }
  return order;
}

// Whether there are no more transposes than before, if one behind the node takes the place of those before it.
bool pays(Rewriter& r, const Readers& readers, const Node& node, const Order& order) {
  const auto goes = [&](int input) { return input == no_tensor || r.is_constant(input) || r.read_once(input); };
  if (std::all_of(node.inputs.begin(), node.inputs.end(), goes)) return true;
  const std::span<const size_t> next = readers.of(node.outputs[0]);
  return !next.empty() && !r.is_output(node.outputs[0]) && std::all_of(next.begin(), next.end(), [&](size_t reader) {
    return !r.removed(reader) && order_of(r.node(reader)) == inverse(order);
  });
}

// Values of a pad or slice: for each dimension one before, then one after.
Vector<int64_t> in_order(const Vector<int64_t>& values, const Order& order) {
  Vector<int64_t> result(values.size());
  const size_t rank = order.size();
  for (size_t d = 0; d < rank; ++d) {
    result[static_cast<size_t>(order[d])] = values[d];
    result[rank + static_cast<size_t>(order[d])] = values[rank + d];
  }
  return result;
}

// Rewrites what the node says of single dimensions for an input whose dimensions are not reordered.
void reorder_attributes(Node* node, const Order& order) {
  Attributes& a = node->attributes;
  if (node->kind == OpKind::concat) a.axis = static_cast<int>(order[static_cast<size_t>(a.axis)]);
  if (node->kind == OpKind::pad || node->kind == OpKind::slice) a.values = in_order(a.values, order);
  if (!is_reduction(*node)) return;
  for (Parameter& parameter : node->parameters) {
    if (parameter.name != "axes") continue;
    const auto rank = static_cast<int64_t>(order.size());
    for (int64_t& axis : parameter.integers) axis = order[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  }
}

// The same constant for dimensions that are not reordered.
int reordered_line(Rewriter& r, int tensor, const Order& order) {
  const Shape shape = r.shape(tensor);
  Shape own(order.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d) own[static_cast<size_t>(order[order.size() - shape.size() + d])] = shape[d];
  const Constant content = r.graph().constants[at(r.tensor(tensor).constant)];
  const int line = r.add_constant(std::move(own), r.tensor(tensor).type, content.data);
  r.tensor(line).quantization = r.tensor(tensor).quantization;
  return line;
}

void move_behind(Rewriter& r, Node& node, const Order& order) {
  Vector<int> inputs;
  for (const int input : node.inputs) {
    const bool stays = input == no_tensor || (r.is_constant(input) && r.shape(input).empty());
    inputs.push_back(stays                  ? input
                     : r.is_constant(input) ? reordered_line(r, input, order)
                                            : r.writer(input)->inputs[0]);
  }
  reorder_attributes(&node, order);
  r.set_inputs(node, std::move(inputs));
  const int y = node.outputs[0], moved = r.add_tensor(r.tensor(y).type, r.tensor(y).quantization);
  r.set_output(node, moved);
  Attributes attributes;
  attributes.values = order;
  r.insert_after(node, OpKind::transpose, name_of(node, "/transpose"), moved, y, std::move(attributes));
}

}  // namespace

qn_status move_transposes(Rewriter& r) {
  const Readers readers(r);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i) || node.outputs.size() != 1 || !is_movable(node)) continue;
    const Order order = order_before(r, node);
    const Tensor& y = r.tensor(node.outputs[0]);
    if (order.empty() || y.shape.size() != order.size() || y.quantization.axis >= 0 || !pays(r, readers, node, order))
      continue;
    move_behind(r, node, order);
  }
  return QN_OK;
}

}  // namespace quern

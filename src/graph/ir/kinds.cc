#include "graph/ir/kinds.h"

#include <algorithm>

#include "base/needs.h"

namespace quern {
namespace {

using enum Kind::Trait;

// The kinds of op.inc, followed by one row for all numbers that are not a kind, and those that are not the CPU's.
constexpr Kind kinds[] = {
#define QN_OP(kind, min_inputs, max_inputs, outputs, traits, layouts, terms, operations, types) \
  {#kind,        min_inputs, outputs,         max_inputs,         traits, Layouts::layouts,     \
   Terms::terms, operations, TypeRule::types, has_operator(#kind)},
#include "graph/ir/op.inc"
#undef QN_OP
    {"?", 0, 0, 0, 0, Layouts::nhwc, Terms::one, 0, TypeRule::floats, false},
    {"copy", 1, 1, 1, keeps_shape, Layouts::nhwc, Terms::one, 1, TypeRule::moved, has_backends},
    {"custom", 0, 255, 256, 0, Layouts::nhwc, Terms::one, 1, TypeRule::own, has_kinds},
    {"branch", 1, 255, 256, 0, Layouts::nhwc, Terms::one, 1, TypeRule::own, has_subgraphs},
    {"loop", 2, 255, 256, 0, Layouts::nhwc, Terms::one, 1, TypeRule::own, has_subgraphs},
};
static_assert(std::size(kinds) == static_cast<size_t>(last_kind) + 1);

// Whether a transpose leaves all elements where they are, because it moves only dimensions of 1.
bool keeps_order(const Vector<size_t>& shape, const Vector<int64_t>& permutation) {
  int64_t last = -1;
  for (const int64_t d : permutation) {
    if (shape[static_cast<size_t>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

}  // namespace

const Kind& kind_of(OpKind kind) { return kinds[static_cast<size_t>(kind <= last_kind ? kind : OpKind::count)]; }

const char* op_name(OpKind kind) { return kind_of(kind).name; }

size_t data_inputs(const Node& node) { return kind_of(node.kind).has(parameters) ? 1 : node.inputs.size(); }

uint64_t terms_of(const Graph& graph, const Node& node) {
  const Attributes& a = node.attributes;
  if (node.kind > OpKind::copy) return 0;
  const Vector<size_t>& x = tensor_of(graph, node.inputs[0]).shape;
  uint64_t terms = 1;
  switch (kind_of(node.kind).terms) {
    case Terms::one: return 0;
    case Terms::window: return uint64_t{a.kernel.h} * a.kernel.w;
    case Terms::image: return uint64_t{x[1]} * x[2];
    case Terms::nearby: return a.size;
    case Terms::weights: break;
  }
  const Vector<size_t>& weights = tensor_of(graph, node.inputs[1]).shape;
  for (size_t d = 1; d < weights.size(); ++d) terms *= weights[d];
  return terms;
}

bool is_depthwise(const Graph& graph, const Node& node) {
  if (node.kind != OpKind::conv2d || node.attributes.groups == 1) return false;
  return tensor_of(graph, node.inputs[1]).shape[3] == 1;
}

Layouts layouts_of(const Graph& graph, const Node& node) {
  return is_depthwise(graph, node) ? Layouts::same : kind_of(node.kind).layouts;
}

bool may_be_blocked(const Tensor& tensor) {
  return tensor.constant < 0 && tensor.type == QN_F32 && tensor.shape.size() == 4 &&
         tensor.shape[1] * tensor.shape[2] > 1;
}

bool is_view(const Graph& graph, const Node& node) {
  const Kind& kind = kind_of(node.kind);
  if (kind.has(view)) return true;
  if (node.kind > OpKind::copy) return false;
  const Vector<size_t>& in = tensor_of(graph, node.inputs[0]).shape;
  if (kind.has(view_if_same_order)) return keeps_order(in, node.attributes.values);
  return kind.has(view_if_same_shape) && in == tensor_of(graph, node.outputs[0]).shape;
}

}  // namespace quern

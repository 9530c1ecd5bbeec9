// Common subexpressions: equal constants, then equal nodes.
#include <cstring>
#include <map>

#include "base/status.h"
#include "graph/rewrite.h"

namespace quern {
namespace {

bool same_attributes(const Attributes& a, const Attributes& b) {
#define QN_ATTRIBUTE(name, field, low, high) \
  if (a.field != b.field) return false;
#include "graph/attributes.inc"
#undef QN_ATTRIBUTE
  return a.values == b.values;
}

// Per tensor: the first one that is the same constant, or itself.
Vector<int> first_equals(Graph& graph) {
  Vector<int> first(graph.tensors.size());
  Map<std::pair<qn_type, Shape>, Vector<int>> different;  // by type and shape
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<int>(i);
    const Tensor& tensor = graph.tensors[i];
    if (tensor.constant < 0) continue;
    const Constant& constant = graph.constants[static_cast<size_t>(tensor.constant)];
    Vector<int>& others = different[{tensor.type, tensor.shape}];
    bool found = false;
    for (size_t k = 0; k < others.size() && !found; ++k) {
      const int index = graph.tensors[static_cast<size_t>(others[k])].constant;
      const Constant& other = graph.constants[static_cast<size_t>(index)];
      found = other.data == constant.data || std::memcmp(other.data, constant.data, constant.bytes) == 0;
      if (found) first[i] = others[k];
    }
    if (!found) others.push_back(static_cast<int>(i));
  }
  return first;
}

}  // namespace

qn_status merge_common(Rewriter& r) {
  const Vector<int> first = first_equals(r.graph());
  Map<std::pair<OpKind, Vector<int>>, Vector<size_t>> seen;  // nodes by kind and inputs
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int input = node.inputs[k];
      if (input != no_tensor && first[static_cast<size_t>(input)] != input) {
        r.set_input(node, k, first[static_cast<size_t>(input)]);
      }
    }
    Vector<size_t>& others = seen[{node.kind, node.inputs}];
    bool merged = false;
    for (size_t k = 0; k < others.size() && !merged; ++k) {
      const Node& other = r.node(others[k]);
      merged = same_attributes(other.attributes, node.attributes) && r.bypass(node, other.outputs[0]);
    }
    if (!merged) others.push_back(i);
  }
  return QN_OK;
}

}  // namespace quern

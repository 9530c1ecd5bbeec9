// Pass merge-common: common subexpressions, first equal constants, then equal nodes.
#include <cstring>

#include "base/lookup.h"
#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

bool same_attributes(const Attributes& a, const Attributes& b) {
#define QN_ATTRIBUTE(name, field, low, high) \
  if (a.field != b.field) return false;
#include "graph/ir/attributes.inc"
#undef QN_ATTRIBUTE
  return a.values == b.values;
}

// Whether nodes of registered kinds compute the same from the same inputs. A kind may depend on the types of its outputs.
bool same_kind(const Graph& graph, const Node& a, const Node& b) {
  if (a.kind != OpKind::custom) return true;
  if (!(a.type == b.type) || a.parameters.size() != b.parameters.size() || a.outputs.size() != b.outputs.size()) {
    return false;
  }
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const Parameter &p = a.parameters[i], &q = b.parameters[i];
    if (!(p.name == q.name && p.integers == q.integers && p.floats == q.floats)) return false;
  }
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (tensor_of(graph, a.outputs[i]).type != tensor_of(graph, b.outputs[i]).type) return false;
  }
  return true;
}

template <class List>
size_t hash_of(size_t seed, const List& list) {
  uint32_t hash = static_cast<uint32_t>(seed);
  for (const auto value : list) hash = (hash ^ static_cast<uint32_t>(value)) * 0x9e3779b1u + (hash >> 15);
  return hash;
}

// Per tensor: the first one that is the same constant, or itself.
Vector<int> first_equals(Graph& graph) {
  Vector<int> first(graph.tensors.size());
  Lookup different(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<int>(i);
    const Tensor& tensor = graph.tensors[i];
    if (tensor.constant < 0) continue;
    const Constant& constant = graph.constants[static_cast<size_t>(tensor.constant)];
    const size_t hash = hash_of(static_cast<size_t>(tensor.type), tensor.shape);
    const bool found = different.any(hash, [&](size_t k) {
      const Tensor& other = graph.tensors[k];
      if (other.type != tensor.type || other.shape != tensor.shape) return false;
      if (!(other.quantization == tensor.quantization)) return false;
      const void* const data = graph.constants[static_cast<size_t>(other.constant)].data;
      if (data != constant.data && std::memcmp(data, constant.data, constant.bytes) != 0) return false;
      first[i] = static_cast<int>(k);
      return true;
    });
    if (!found) different.add(hash, i);
  }
  return first;
}

}  // namespace

qn_status merge_common(Rewriter& r) {
  const Vector<int> first = first_equals(r.graph());
  Lookup seen(r.size());  // nodes by kind and inputs
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int input = node.inputs[k];
      if (input != no_tensor && first[static_cast<size_t>(input)] != input) {
        r.set_input(node, k, first[static_cast<size_t>(input)]);
      }
    }
    const size_t hash = hash_of(static_cast<size_t>(node.kind), node.inputs);
    const bool merged = seen.any(hash, [&](size_t k) {
      const Node& other = r.node(k);
      return other.kind == node.kind && other.inputs == node.inputs &&
             same_attributes(other.attributes, node.attributes) && same_kind(r.graph(), node, other) &&
             r.merge(node, other);
    });
    if (!merged) seen.add(hash, i);
  }
  return QN_OK;
}

}  // namespace quern

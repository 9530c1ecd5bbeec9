#include "graph/backend/backend.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "graph/ir/rules.h"
#include "graph/plan/conversions.h"

namespace quern {
namespace {

// In the order in which they are asked.
const Backend* table[max_backends] = {&cpu_backend};
size_t count = 1;

// A transpose that moves dimensions of 1 alone leaves the elements where they are.
bool keeps_order(const Shape& shape, const Vector<int64_t>& permutation) {
  int64_t last = -1;
  for (const int64_t d : permutation) {
    if (shape[static_cast<size_t>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

}  // namespace

void (*between_backends)(Model&) = nullptr;

qn_status add_backend(const Backend& backend) {
  if (count == max_backends) return fail(QN_INVALID_ARGUMENT, "more than %zu backends", max_backends);
  std::copy_backward(table, table + count, table + count + 1);
  table[0] = &backend;
  ++count;
  between_backends = place_conversions;
  return QN_OK;
}

void remove_backend(const Backend& backend) {
  count = static_cast<size_t>(std::remove(table, table + count, &backend) - table);
}

const Backend* find_backend(const Graph& graph, const Node& node) {
  if (!has_backends) return cpu_backend.claims(graph, node) ? &cpu_backend : nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (table[i]->claims(graph, node)) return table[i];
  }
  return nullptr;
}

bool is_view(const Graph& graph, const Node& node) {
  const Shape& in = graph.tensors[static_cast<size_t>(node.inputs[0])].shape;
  const Shape& out = graph.tensors[static_cast<size_t>(node.outputs[0])].shape;
  switch (node.kind) {
    case OpKind::reshape: return true;
    case OpKind::transpose: return keeps_order(in, node.attributes.values);
    case OpKind::slice:
    case OpKind::pad: return in == out;
    case OpKind::concat: return node.inputs.size() == 1;
    default: return false;
  }
}

bool is_read_by_runs(const Node& node, size_t input) {
  return node.inputs[input] != no_tensor && (input == 0 || !has_parameters(node.kind));
}

qn_tensor describe(const Tensor& tensor) {
  qn_tensor result = {};
  result.type = tensor.type;
  result.layout = tensor.layout;
  result.rank = static_cast<uint32_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), result.shape);
  std::copy(tensor.stride.begin(), tensor.stride.end(), result.stride);
  result.quantization = quantization_of(tensor);
  return result;
}

qn_status evaluate(const Graph& graph, const Node& node, Buffer* output) {
  Vector<Location> inputs;
  for (const int input : node.inputs) {
    inputs.push_back({input == no_tensor ? nullptr : const_cast<float*>(constant_floats(graph, input))});
  }
  const Tensor& out = graph.tensors[static_cast<size_t>(node.outputs[0])];
  size_t bytes;
  if (!tensor_size(out.type, out.shape, &bytes)) return fail_node(node, "the size of the output overflows");
  Buffer result(bytes);
  if (is_view(graph, node)) {
    std::memcpy(result.data(), inputs[0].block, bytes);
  } else {
    std::unique_ptr<NodeOperator> op;
    std::unique_ptr<NodePlan> plan;
    QN_TRY(cpu_backend.create(graph, node, nullptr, &op));
    QN_TRY(op->plan(graph, node, {}, &plan));
    const Buffer workspace(plan->workspace_size());
    const Location outputs[] = {{result.data()}};
    QN_TRY(plan->run({inputs.data(), inputs.size()}, outputs, {workspace.data()}, nullptr));
  }
  *output = std::move(result);
  return QN_OK;
}

}  // namespace quern

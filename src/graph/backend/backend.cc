#include "graph/backend/backend.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "graph/ir/rules.h"

namespace quern {
namespace {

constexpr const Backend* table[] = {&cpu_backend};

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

std::span<const Backend* const> backends() { return table; }

const Backend* find_backend(const Graph& graph, const Node& node) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const Backend* b) { return b->claims(graph, node); });
  return found == std::end(table) ? nullptr : *found;
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
  Vector<const void*> inputs;
  for (const int input : node.inputs) inputs.push_back(input == no_tensor ? nullptr : constant_floats(graph, input));
  const Tensor& out = graph.tensors[static_cast<size_t>(node.outputs[0])];
  size_t bytes;
  if (!tensor_size(out.type, out.shape, &bytes)) return fail_node(node, "the size of the output overflows");
  Buffer result(bytes);
  if (is_view(graph, node)) {
    std::memcpy(result.data(), inputs[0], bytes);
  } else {
    std::unique_ptr<NodeOperator> op;
    std::unique_ptr<NodePlan> plan;
    QN_TRY(cpu_backend.create(graph, node, nullptr, &op));
    QN_TRY(op->plan(graph, node, {}, &plan));
    const Buffer workspace(plan->workspace_size());
    void* const outputs[] = {result.data()};
    QN_TRY(plan->run(inputs.data(), outputs, workspace.data(), nullptr));
  }
  *output = std::move(result);
  return QN_OK;
}

}  // namespace quern

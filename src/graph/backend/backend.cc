#include "graph/backend/backend.h"

#include <algorithm>

#include "base/status.h"
#include "graph/ir/rules.h"

namespace quern {
namespace {

constexpr const Backend* table[] = {&cpu_backend};

}  // namespace

std::span<const Backend* const> backends() { return table; }

const Backend* find_backend(const Graph& graph, const Node& node) {
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const Backend* b) { return b->claims(graph, node); });
  return found == std::end(table) ? nullptr : *found;
}

qn_tensor describe(const Tensor& tensor) {
  qn_tensor result = {};
  result.type = tensor.type;
  result.layout = tensor.layout;
  result.rank = static_cast<uint32_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), result.shape);
  std::copy(tensor.stride.begin(), tensor.stride.end(), result.stride);
  return result;
}

qn_status evaluate(Graph& graph, const Node& node) {
  if (is_view(graph, node)) {
    graph.tensors[static_cast<size_t>(node.outputs[0])].constant =
        graph.tensors[static_cast<size_t>(node.inputs[0])].constant;
    return QN_OK;
  }
  Vector<const void*> inputs;
  for (const int input : node.inputs) inputs.push_back(input == no_tensor ? nullptr : constant_floats(graph, input));
  std::unique_ptr<NodeOperator> op;
  std::unique_ptr<NodePlan> plan;
  QN_TRY(cpu_backend.create(graph, node, nullptr, &op));
  QN_TRY(op->plan(graph, node, {}, &plan));
  Vector<void*> outputs;
  for (const int output : node.outputs) {
    Tensor& tensor = graph.tensors[static_cast<size_t>(output)];
    size_t bytes;
    if (!tensor_size(tensor.type, tensor.shape, &bytes)) return fail_node(node, "the size of the output overflows");
    auto buffer = make_shared<Buffer>(bytes);
    void* const data = buffer->data();
    outputs.push_back(data);
    graph.constants.push_back({std::move(buffer), data, bytes});
    tensor.constant = static_cast<int>(graph.constants.size() - 1);
  }
  const Buffer workspace(plan->workspace_size());
  return plan->run(inputs.data(), outputs.data(), workspace.data(), nullptr);
}

}  // namespace quern

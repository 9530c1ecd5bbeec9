#include "graph/backend/backend.h"

#include <algorithm>

#include "base/search.h"
#include "base/status.h"
#include "graph/ir/rules.h"
#include "graph/plan/conversions.h"

namespace quern {
namespace {

// The backends, in the order in which they are asked.
const Backend* table[max_backends] = {&cpu_backend};
size_t count = 1;

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
  if (has_kinds && node.kind == OpKind::custom) return &custom_backend;
  if (!has_backends) return cpu_backend.claims(graph, node) ? &cpu_backend : nullptr;
  for (size_t i = 0; i < count; ++i) {
    if (table[i]->claims(graph, node)) return table[i];
  }
  return nullptr;
}

bool is_read_by_runs(const Node& node, size_t input) {
  return node.inputs[input] != no_tensor && input < data_inputs(node);
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

qn_status evaluate(Graph& graph, const Node& node) {
  if (is_view(graph, node)) {
    graph.tensors[static_cast<size_t>(node.outputs[0])].constant =
        graph.tensors[static_cast<size_t>(node.inputs[0])].constant;
    return QN_OK;
  }
  Vector<Location> inputs;
  for (const int input : node.inputs) {
    const int constant = input == no_tensor ? -1 : tensor_of(graph, input).constant;
    inputs.push_back({constant < 0 ? nullptr : const_cast<void*>(graph.constants[at(constant)].data)});
  }
  Vector<Location> outputs;
  for (const int output : node.outputs) {
    Tensor& tensor = graph.tensors[static_cast<size_t>(output)];
    size_t bytes;
    if (!tensor_size(tensor.type, tensor.shape, &bytes)) return fail_node(node, "the size of the output overflows");
    auto buffer = make_shared<Buffer>(bytes);
    void* const data = buffer->data();
    outputs.push_back({data});
    graph.constants.push_back({std::move(buffer), data, bytes});
    tensor.constant = static_cast<int>(graph.constants.size() - 1);
  }
  const bool computes = any_of(node.outputs, [&](int output) { return !is_empty(tensor_of(graph, output).shape); });
  if (!computes) return QN_OK;
  std::unique_ptr<NodeOperator> op;
  std::unique_ptr<NodePlan> plan;
  QN_TRY((node.kind == OpKind::custom ? custom_backend : cpu_backend).create(graph, node, nullptr, &op));
  QN_TRY(op->plan(graph, node, {}, &plan));
  const Buffer workspace(plan->workspace_size());
  return plan->run({inputs.data(), inputs.size()}, {outputs.data(), outputs.size()}, {workspace.data()}, nullptr);
}

}  // namespace quern

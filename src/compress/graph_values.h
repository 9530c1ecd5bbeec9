// Runs single nodes on chosen values, and replaces the values of constants.
#pragma once

#include <cstring>

#include "base/memory.h"
#include "base/shared.h"
#include "graph/backend/backend.h"
#include "graph/pass/passes.h"

namespace quern {

// Runs a node on other inputs: `make(i)` adds input i to a graph as a constant. Returns the output; NULL if the node does
// not take these inputs.
template <class Make>
const Constant* run_on(const Node& node, Graph* graph, Make&& make) {
  Node copy = node;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != no_tensor) copy.inputs[i] = make(i);
  }
  copy.outputs = {add_tensor(*graph, String(), tensor_of(*graph, copy.inputs[0]).type, {})};
  if (infer_node(*graph, copy) != QN_OK || evaluate(*graph, copy) != QN_OK) return nullptr;
  return &graph->constants[at(tensor_of(*graph, copy.outputs[0]).constant)];
}

// Replaces the values of a constant tensor.
inline void set_floats(Graph& graph, size_t tensor, const Vector<float>& values) {
  auto buffer = make_shared<Buffer>(values.size() * sizeof(float));
  std::memcpy(buffer->data(), values.data(), buffer->size());
  const void* const data = buffer->data();
  const size_t bytes = buffer->size();
  graph.constants[at(graph.tensors[tensor].constant)] = {std::move(buffer), data, bytes};
}

}  // namespace quern

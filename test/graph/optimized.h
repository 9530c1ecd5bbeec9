// What tests of the optimizer's passes have in common: the kinds of nodes before and after, equal results, the same
// outputs under the same names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/rules.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {

inline std::string kinds(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (!text.empty()) text += ' ';
    text += op_name(node.kind);
  }
  return text;
}

inline int tensor_named(const Graph& graph, const String& name) {
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<int>(i);
  }
  return no_tensor;
}

// Results of plain evaluation by name of output.
inline std::map<String, std::vector<float>> results(const Graph& graph,
                                                    const std::map<String, std::vector<float>>& inputs) {
  Values values;
  for (const Port& port : graph.inputs) {
    values[port.tensor] = inputs.at(graph.tensors[static_cast<size_t>(port.tensor)].name);
  }
  evaluate_naively(graph, values);
  std::map<String, std::vector<float>> outputs;
  for (const Port& port : graph.outputs) {
    outputs[graph.tensors[static_cast<size_t>(port.tensor)].name] = values.at(port.tensor);
  }
  return outputs;
}

constexpr float tolerance = 2e-6f;

// Optimizes a copy and checks that it computes the same and consists of `after`. Returns it.
inline Graph expect_optimized(const Graph& before, const std::string& after) {
  Graph graph = before;
  EXPECT_EQ(optimize(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(kinds(graph), after) << "from " << kinds(before);
  std::map<String, std::vector<float>> inputs;
  for (const auto& [tensor, value] : random_inputs(before, 3)) {
    std::vector<float> larger = value;
    for (float& x : larger) x *= 8;  // beyond the clamps of the tests
    inputs[before.tensors[static_cast<size_t>(tensor)].name] = larger;
  }
  const auto expected = results(before, inputs), actual = results(graph, inputs);
  EXPECT_EQ(expected.size(), actual.size());
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end() || found->second.size() != values.size()) {
      ADD_FAILURE() << "output " << name.c_str() << " is missing or of another size";
      continue;
    }
    EXPECT_LE(difference(values, found->second.data()), tolerance) << name.c_str();
  }
  EXPECT_EQ(before.outputs.size(), graph.outputs.size());
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Tensor& a = before.tensors[static_cast<size_t>(before.outputs[i].tensor)];
    const Tensor& b = graph.tensors[static_cast<size_t>(graph.outputs[i].tensor)];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape);
  }
  return graph;
}

}  // namespace quern::test

// Tests of the exporter: a graph of one node, and what a file has.
#pragma once

#include <gtest/gtest.h>
#include <quern/extra.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "convert/convert.h"
#include "convert/onnx/onnx.pb.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern::test {

// A graph of one node with inputs "a", "b", ... and the output "y".
struct OneNode {
  OpKind kind;
  Attributes attributes;
  std::vector<Dims> inputs;
  std::vector<Array> constants = {};
};

// Makes a tensor the output "y" of a graph, and checks this.
inline Graph finished(Graph graph, int output) {
  graph.tensors[static_cast<size_t>(output)].name = String("y");
  graph.outputs.push_back({.tensor = output});
  EXPECT_EQ(check_graph(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
  return graph;
}

inline Graph graph_of(const OneNode& one) {
  Graph graph;
  graph.source = "test";
  Vector<int> inputs;
  const char* const names[] = {"a", "b"};
  for (const Dims& dims : one.inputs) {
    const char* name = names[inputs.size()];
    const int tensor = add_tensor(graph, name, QN_F32, Vector<size_t>(dims.begin(), dims.end()));
    graph.inputs.push_back({.tensor = tensor, .type = QN_F32, .preprocessing = {}});
    inputs.push_back(tensor);
  }
  for (const Array& c : one.constants) {
    inputs.push_back(add_constant(graph, "", QN_F32, Vector<size_t>(c.dims.begin(), c.dims.end()), c.data.data()));
  }
  const int output = add_node(graph, one.kind, "node", inputs, one.attributes);
  return finished(std::move(graph), output);
}

inline Attributes with(const std::function<void(Attributes&)>& set) {
  Attributes a;
  set(a);
  return a;
}

class Export : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message(); }
  onnx::schema::ModelProto exported(const Graph& graph) {
    export_onnx(graph, folder_.path("net.onnx"));
    std::ifstream file(folder_.path("net.onnx"), std::ios::binary);
    onnx::schema::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(std::string(std::istreambuf_iterator<char>(file), {})));
    return model;
  }
  Graph again() { return import_onnx(folder_.path("net.onnx")); }

  Folder folder_;
};

// Every name is written once and before it is read.
inline void expect_sorted(const onnx::schema::GraphProto& graph) {
  std::set<std::string> known = {""};
  for (const auto& input : graph.input()) EXPECT_TRUE(known.insert(input.name()).second);
  for (const auto& initializer : graph.initializer()) EXPECT_TRUE(known.insert(initializer.name()).second);
  for (const auto& node : graph.node()) {
    for (const auto& input : node.input()) EXPECT_EQ(known.count(input), 1u) << node.op_type() << " reads " << input;
    for (const auto& output : node.output()) EXPECT_TRUE(known.insert(output).second) << output;
  }
  for (const auto& output : graph.output()) EXPECT_EQ(known.count(output.name()), 1u);
}

}  // namespace quern::test

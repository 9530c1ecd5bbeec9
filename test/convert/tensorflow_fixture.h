// Tests of the TensorFlow importer: graphs of one node, and what is wrong with a graph.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convert/convert.h"
#include "graph/pass/passes.h"
#include "tensorflow_graph.h"

namespace quern::test {

class TensorFlow : public testing::Test {
 protected:
  Graph import(const TfGraph& graph, const std::vector<std::string>& outputs = {},
               const std::vector<ImportOptions::Input>& inputs = {}) {
    keep_model("pbtxt", graph.graph.DebugString());
    return import_tensorflow(folder_.write("net.pb", graph.bytes()), {outputs, {}, inputs});
  }
  std::string refusal(const TfGraph& graph, const std::vector<std::string>& outputs = {},
                      const std::vector<ImportOptions::Input>& inputs = {}) {
    return error_of([&] { import(graph, outputs, inputs); });
  }
  void expect_refusal(const TfGraph& graph, const std::string& part) {
    const std::string message = refusal(graph);
    EXPECT_NE(message.find(part), std::string::npos) << message << "\ninstead of " << part;
  }
  // A node "y" reads "x" of these dimensions and constants c0, c1, ...; then integers i0, i1, ...
  static TfGraph one_node(const std::string& op, const TfAttributes& attributes, const Dims& x,
                          const std::vector<Array>& constants = {}, const std::vector<Ints>& integers = {}) {
    TfGraph graph;
    graph.placeholder("x", Ints(x.begin(), x.end()));
    std::vector<std::string> inputs = {"x"};
    for (size_t i = 0; i < constants.size(); ++i) {
      inputs.push_back(std::string("c").append(std::to_string(i)));
      graph.floats(inputs.back(), constants[i]);
    }
    for (size_t i = 0; i < integers.size(); ++i) {
      inputs.push_back(std::string("i").append(std::to_string(i)));
      graph.integers(inputs.back(), integers[i]);
    }
    return graph.node(op, "y", inputs, attributes);
  }
  // As imported, and as optimised.
  void expect_graph(const TfGraph& graph, const std::vector<Array>& inputs, const Array& want,
                    float tolerance = 1e-5f) {
    Graph imported = import(graph);
    expect_near(run(imported, inputs).at(0), want, tolerance);
    ASSERT_EQ(optimize(imported), QN_OK) << qn_last_message();
    expect_near(run(imported, inputs).at(0), want, tolerance);
  }
  void expect_node(const std::string& op, const TfAttributes& attributes, const Array& x,
                   const std::vector<Array>& constants, const Array& want) {
    SCOPED_TRACE(op);
    expect_graph(one_node(op, attributes, x.dims, constants), {x}, want);
  }
  void expect_shaping(const std::string& op, const TfAttributes& attributes, const Array& x,
                      const std::vector<Ints>& integers, const Array& want) {
    SCOPED_TRACE(op);
    expect_graph(one_node(op, attributes, x.dims, {}, integers), {x}, want);
  }

  Folder folder_;
};

// Chooses between x and x times a slope by a comparison of x with a number.
inline TfGraph choice(const std::string& select, const std::string& greater, bool slope_first, const Array& x,
                      const Array& slope, float zero = 0) {
  TfGraph graph;
  graph.placeholder("x", Ints(x.dims.begin(), x.dims.end()));
  graph.floats("slope", slope).floats("zero", make({}, {zero})).node(greater, "above", {"x", "zero"});
  graph.node("Mul", "below",
             slope_first ? std::vector<std::string>{"slope", "x"} : std::vector<std::string>{"x:0", "slope"});
  return graph.node(select, "y", {"above", "x", "below"});
}

}  // namespace quern::test

// Lists of tensors in TensorFlow's graphs, above all in loops. tensorflow_lists.py compares models of Keras.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "tensorflow_graph.h"

namespace quern {
namespace tensorflow_lists_test {

using test::Array;
using test::Ints;
using test::make;
using test::TfAttributes;
using test::TfFunction;
using test::TfGraph;
namespace schema = tensorflow::schema;

const TfAttributes of_floats = {{"element_dtype", schema::DT_FLOAT}};

class TensorFlowLists : public testing::Test {
 protected:
  Graph import(const TfGraph& graph, const std::vector<std::string>& outputs = {"y"}) {
    test::keep_model("pbtxt", graph.graph.DebugString());
    return import_tensorflow(folder_.write("net.pb", graph.bytes()), {outputs, {}, {}});
  }
  void expect(const TfGraph& graph, const std::vector<Array>& inputs, const Array& output) {
    test::expect_outputs(import(graph), inputs, {output}, 1e-5f);
  }
  void expect_refusal(const TfGraph& graph, const std::string& part) {
    const std::string message = test::error_of([&] { import(graph); });
    EXPECT_NE(message.find(part), std::string::npos) << message << "\ninstead of " << part;
    EXPECT_LT(message.size(), 2000u);
  }
  test::Folder folder_;
};

// "list": of `length` elements of a shape, some sizes of which may be -1.
TfGraph reserved(int64_t length, const Ints& shape) {
  TfGraph graph;
  graph.integers("shape", shape).integer("length", length);
  return graph.node("TensorListReserve", "list", {"shape", "length"}, of_floats);
}

// ---- without loops ----------------------------------------------------------------------------

TEST_F(TensorFlowLists, SetAndGet) {
  for (const Ints& shape : {Ints{2}, Ints{-1}}) {
    TfGraph graph = reserved(3, shape);
    graph.placeholder("x", {2}).integer("one", 1).node("TensorListSetItem", "set", {"list", "one", "x"}, of_floats);
    graph.node("TensorListStack", "y", {"set", "shape"}, of_floats);
    expect(graph, {make({2}, {5, 7})}, make({3, 2}, {0, 0, 5, 7, 0, 0}));
    graph.mutable_node("y")->set_op("TensorListGetItem");
    graph.mutable_node("y")->set_input(1, "one");
    graph.mutable_node("y")->add_input("shape");
    expect(graph, {make({2}, {5, 7})}, make({2}, {5, 7}));
  }
}

TEST_F(TensorFlowLists, OfATensor) {
  TfGraph graph;
  graph.placeholder("x", {3, 2}).integers("shape", {2}).integers("places", {2, 0});
  graph.node("TensorListFromTensor", "list", {"x", "shape"}, of_floats);
  graph.node("TensorListGather", "y", {"list", "places", "shape"}, of_floats);
  expect(graph, {make({3, 2}, {1, 2, 3, 4, 5, 6})}, make({2, 2}, {5, 6, 1, 2}));
}

TEST_F(TensorFlowLists, LengthAndShape) {
  TfGraph graph;
  graph.placeholder("x", {3, 2}).integers("shape", {2});
  graph.node("TensorListFromTensor", "list", {"x", "shape"}, of_floats).node("TensorListLength", "y", {"list"});
  expect(graph, {test::random({3, 2}, 1)}, make({}, {3}));
  graph.mutable_node("y")->set_op("TensorListElementShape");
  (*graph.mutable_node("y")->mutable_attr())["shape_type"].set_type(schema::DT_INT32);
  expect(graph, {test::random({3, 2}, 1)}, make({1}, {2}));
  graph = reserved(3, {-1});  // of a list without elements
  graph.node("TensorListLength", "length of it", {"list"}).placeholder("x", {2});
  graph.node("Cast", "number", {"length of it"}, {{"SrcT", schema::DT_INT32}, {"DstT", schema::DT_FLOAT}});
  graph.node("Mul", "y", {"x", "number"});
  expect(graph, {make({2}, {1, 2})}, make({2}, {3, 6}));
}

// A list of which nothing is known has neither shape nor elements.
TEST_F(TensorFlowLists, WhereTensorsAreWanted) {
  const auto refused = [&](const std::string& op, const std::vector<std::string>& inputs) {
    TfGraph graph = reserved(3, {-1});
    graph.placeholder("x", {2}).integer("one", 1).node(op, "made", inputs, of_floats);
    graph.node("TensorListStack", "y", {"made", "shape"}, of_floats);
    expect_refusal(graph, op + ": an input that is missing, or a list of tensors");
  };
  refused("TensorListSetItem", {"list", "list", "x"});
  refused("TensorListSetItem", {"list", "one", "list"});
}

TEST_F(TensorFlowLists, LengthOfANumber) {
  TfGraph graph;
  graph.floats("x", make({}, {1}))
      .integers("shape", {})
      .node("TensorListFromTensor", "list", {"x", "shape"}, of_floats);
  graph.node("TensorListLength", "y", {"list"});
  expect_refusal(graph, "the list is a single number");
}

// ---- loops ------------------------------------------------------------------------------------

// i = 0; while i < `rounds`: list[i] = sum of x[:, i] so far; y = the list. x is [batch, 3]. Elements have the batch as
// their size, and `shape` as what the list says.
TfGraph summing(int64_t batch, const Ints& shape) {
  TfGraph graph = reserved(3, shape);
  graph.placeholder("x", {batch, 3}).integers("perm", {1, 0}).node("Transpose", "steps", {"x", "perm"});
  graph.node("TensorListFromTensor", "given", {"steps", "shape"}, of_floats).integer("zero", 0).integer("rounds", 3);
  graph.integer("column", 0).integer("axis", 1).node("GatherV2", "first", {"x", "column", "axis"});
  graph.node("Sub", "zeros", {"first", "first"});
  graph.node("While", "loop", {"zero", "rounds", "zeros", "list", "given"},
             {{"cond", TfFunction{"cond"}}, {"body", TfFunction{"body"}}});
  graph.node("TensorListStack", "y", {"loop:3", "shape"}, of_floats);
  const std::vector<std::string> arguments = {"i", "n", "sum", "list", "given"};
  graph.function("cond", arguments, TfGraph().node("Less", "less", {"i", "n"}), {"less:z:0"});
  TfGraph body;
  body.integer("one", 1).node("AddV2", "next", {"i", "one:output:0"}).integers("shape", shape);
  body.node("TensorListGetItem", "x", {"given", "i", "shape:output:0"}, of_floats);
  body.node("AddV2", "more", {"sum", "x:item:0"});
  body.node("TensorListSetItem", "set", {"list", "i", "more:z:0"}, of_floats);
  graph.function("body", arguments, body, {"next:z:0", "n", "more:z:0", "set:output_handle:0", "given"});
  return graph;
}

TEST_F(TensorFlowLists, Loop) {
  const Array x = make({2, 3}, {1, 2, 3, 10, 20, 30}), y = make({3, 2}, {1, 10, 3, 30, 6, 60});
  expect(summing(2, {2}), {x}, y);
  expect(summing(2, {-1}), {x}, y);
}

// The size of elements is open: known in a run alone.
TEST_F(TensorFlowLists, LoopOfAnOpenSize) {
  const Graph graph = import(summing(-1, {-1}));
  test::expect_outputs(graph, {make({1, 3}, {1, 2, 3})}, {make({3, 1}, {1, 3, 6})}, 1e-5f);
  test::expect_outputs(graph, {make({2, 3}, {1, 2, 3, 10, 20, 30})}, {make({3, 2}, {1, 10, 3, 30, 6, 60})}, 1e-5f);
}

// Two loops, the second of which reads what the first has stored, and only a run knows the shape of.
TEST_F(TensorFlowLists, LoopAfterLoop) {
  TfGraph graph = summing(-1, {-1});
  graph.mutable_node("y")->set_name("stored");
  graph.node("TensorListFromTensor", "given again", {"stored", "shape"}, of_floats);
  graph.node("While", "loop again", {"zero", "rounds", "zeros", "list", "given again"},
             {{"cond", TfFunction{"cond"}}, {"body", TfFunction{"body"}}});
  graph.node("TensorListStack", "y", {"loop again:3", "shape"}, of_floats);
  expect(graph, {make({2, 3}, {1, 2, 3, 10, 20, 30})}, make({3, 2}, {1, 10, 4, 40, 10, 100}));
}

// What reads the result of a loop, whose rank is known.
TEST_F(TensorFlowLists, LayersAfterALoop) {
  TfGraph graph = summing(2, {-1});
  graph.mutable_node("y")->set_name("stored");
  graph.floats("bias", make({2}, {1, 2})).node("BiasAdd", "biased", {"stored", "bias"});
  graph.integers("image", {1, 3, 2, 1}).node("Reshape", "shaped", {"biased", "image"});
  graph.floats("weights", make({2, 1, 1, 1}, {2, 1}));
  graph.node("Conv2D", "conv", {"shaped", "weights"}, {{"padding", "SAME"}, {"strides", Ints{1, 1, 1, 1}}});
  graph.node("DepthwiseConv2dNative", "alone", {"conv", "weights"},
             {{"padding", "VALID"}, {"strides", Ints{1, 1, 1, 1}}});
  graph.node("MaxPool", "pool", {"alone"},
             {{"padding", "VALID"}, {"strides", Ints{1, 1, 1, 1}}, {"ksize", Ints{1, 2, 1, 1}}});
  graph.integers("flat", {2}).node("Reshape", "y", {"pool", "flat"});
  // Columns 2, 4, 7 and 12, 32, 62; then, with weights 2 and 1: 8, 15, 14 and 56, 126, 124.
  expect(graph, {make({2, 3}, {1, 2, 3, 10, 20, 30})}, make({2}, {44, 376}));
  graph.mutable_node("conv")->mutable_attr()->at("strides").mutable_list()->set_i(1, 2);
  expect_refusal(graph, "Conv2D: the shape of an input is known only in a run (1 node: conv)");
  graph = summing(2, {-1});
  graph.mutable_node("y")->set_name("stored");
  graph.floats("few", make({3, 2}, {0, 0, 0, 0, 0, 0})).node("Mul", "zeros here", {"stored", "few"});
  graph.node("Softmax", "y", {"zeros here"});
  expect(graph, {test::random({2, 3}, 1)}, make({3, 2}, std::vector<float>(6, 0.5f)));
}

// A branch stores, or does not.
TEST_F(TensorFlowLists, Branch) {
  TfGraph graph = reserved(2, {-1});
  graph.placeholder("c", {}, schema::DT_BOOL).placeholder("x", {2});
  graph.node("If", "chosen", {"c", "list", "x"}, {{"then_branch", TfFunction{"f"}}, {"else_branch", TfFunction{"g"}}});
  graph.node("TensorListStack", "y", {"chosen", "shape"}, of_floats);
  TfGraph body;
  body.integer("one", 1).node("TensorListSetItem", "set", {"list", "one:output:0", "x"}, of_floats);
  graph.function("f", {"list", "x"}, body, {"set:output_handle:0"});
  graph.function("g", {"list", "x"}, TfGraph(), {"list"});
  expect(graph, {make({}, {1}), make({2}, {5, 7})}, make({2, 2}, {0, 0, 5, 7}));
  expect(graph, {make({}, {0}), make({2}, {5, 7})}, make({2, 2}, {0, 0, 0, 0}));
}

// ---- refusals ---------------------------------------------------------------------------------

TEST_F(TensorFlowLists, ThatAreRefused) {
  TfGraph graph = reserved(3, {2});
  graph.node("Neg", "y", {"list"});
  expect_refusal(graph, "node 'y' (Neg): reads a list of tensors as a tensor");
  graph = reserved(3, {2});
  graph.node("Identity", "y", {"list"});
  expect_refusal(graph, "a list of tensors");
  graph = TfGraph();
  graph.placeholder("x", {2}).integers("shape", {2}).node("TensorListStack", "y", {"x", "shape"}, of_floats);
  expect_refusal(graph, "expected a list of tensors as input 0");
  graph = reserved(3, {-1});
  graph.node("TensorListStack", "y", {"list", "shape"}, of_floats);
  expect_refusal(graph, "a list of tensors whose shape is not known");
  graph = reserved(-3, {2});
  graph.node("TensorListStack", "y", {"list", "shape"}, of_floats);
  expect_refusal(graph, "the number of elements is negative");
  graph = reserved(1 << 30, {1 << 30, 1 << 30});
  graph.node("TensorListStack", "y", {"list", "shape"}, of_floats);
  expect_refusal(graph, "a tensor would be too large");
  graph = reserved(3, {2});
  graph.mutable_node("list")->mutable_attr()->at("element_dtype").set_type(schema::DT_STRING);
  graph.node("TensorListStack", "y", {"list", "shape"}, of_floats);
  expect_refusal(graph, "of DT_STRING");
  graph = reserved(3, {2});
  graph.placeholder("x", {2}, schema::DT_INT32).integer("one", 1);
  graph.node("TensorListSetItem", "set", {"list", "one", "x"}, of_floats);
  graph.node("TensorListStack", "y", {"set", "shape"}, of_floats);
  expect_refusal(graph, "the item has another type");
}

// A list that a loop carries and nobody stores in; one that becomes a tensor.
TEST_F(TensorFlowLists, LoopThatIsRefused) {
  TfGraph graph = summing(2, {-1});
  schema::FunctionDef* body = graph.graph.mutable_library()->mutable_function(1);
  (*body->mutable_ret())["result3"] = "list";
  expect_refusal(graph, "a list of tensors whose shape is not known");
  graph = summing(2, {2});
  body = graph.graph.mutable_library()->mutable_function(1);
  (*body->mutable_ret())["result3"] = "more:z:0";
  expect_refusal(graph, "a value that changes its type");
}

}  // namespace tensorflow_lists_test
}  // namespace quern

// Functions of a TensorFlow graph's library: calls, If and While. tensorflow_functions.py compares more with TensorFlow.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "tensorflow_graph.h"

namespace quern {
namespace tensorflow_functions_test {

using test::Array;
using test::Ints;
using test::make;
using test::TfFunction;
using test::TfGraph;
namespace schema = tensorflow::schema;

class TensorFlowFunctions : public testing::Test {
 protected:
  Graph import(const TfGraph& graph, const std::vector<std::string>& outputs = {"y"}) {
    test::keep_model("pbtxt", graph.graph.DebugString());
    return import_tensorflow(folder_.write("net.pb", graph.bytes()), {outputs, {}, {}});
  }
  void expect(const TfGraph& graph, const std::vector<Array>& inputs, const std::vector<Array>& outputs) {
    const std::vector<std::string> names = {"y", "y:1", "y:2"};
    test::expect_outputs(import(graph, {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(outputs.size())}),
                         inputs, outputs, 1e-5f);
  }
  void expect_refusal(const TfGraph& graph, const std::string& part) {
    const std::string message = test::error_of([&] { import(graph); });
    EXPECT_NE(message.find(part), std::string::npos) << message << "\ninstead of " << part;
    EXPECT_LT(message.size(), 2000u);
  }
  test::Folder folder_;
};

// A function of x that applies one operator.
void add_operator(TfGraph* graph, const std::string& function, const std::string& op) {
  graph->function(function, {"x"}, TfGraph().node(op, "z", {"x"}), {"z:y:0"});
}

// A graph of x, of two numbers, whose node "y" calls function f.
TfGraph calling(const std::vector<std::string>& inputs = {"x"}) {
  TfGraph graph;
  graph.placeholder("x", {2}).node("PartitionedCall", "y", inputs, {{"f", TfFunction{"f"}}});
  return graph;
}

// ---- calls ------------------------------------------------------------------------------------

// Outputs by name and number, of nodes that have several outputs and of lists; names that callers have, too.
TEST_F(TensorFlowFunctions, Call) {
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    TfGraph graph;
    graph.placeholder("x", {4}).node("Neg", "z", {"x"});
    graph.node(op, "y", {"z", "x", "^z"}, {{"f", TfFunction{"f"}}, {"Tout", std::vector(3, schema::DT_FLOAT)}});
    TfGraph body;
    body.integer("k", 2).integer("axis", 0).node("TopKV2", "z", {"a", "k:output:0"}, {{"sorted", true}});
    body.node("Split", "parts", {"axis:output:0", "x"}, {{"num_split", 2}}).node("Relu", "relu", {"x"});
    graph.function("f", {"x", "a"}, body, {"z:indices:0", "parts:output:1", "relu:activations:0"});
    expect(graph, {make({4}, {1, 4, -3, 2})}, {make({2}, {1, 3}), make({2}, {3, -2}), make({4}, {0, 0, 3, 0})});
  }
}

TEST_F(TensorFlowFunctions, CallWithinCall) {
  TfGraph graph = calling();
  TfGraph body;
  body.node("PartitionedCall", "twice", {"x"}, {{"f", TfFunction{"g"}}});
  body.node("PartitionedCall", "again", {"twice:output:1"}, {{"f", TfFunction{"g"}}});
  graph.function("f", {"x"}, body, {"again:output:0"});
  graph.function("g", {"x"}, TfGraph().node("AddV2", "sum", {"x", "x"}).node("Square", "z", {"sum:z:0"}),
                 {"sum:z:0", "z:y:0"});
  expect(graph, {make({2}, {1, -3})}, {make({2}, {8, 72})});
}

TEST_F(TensorFlowFunctions, WhatCallsCannotMean) {
  TfGraph graph = calling();
  expect_refusal(graph, "unknown function 'f'");
  add_operator(&graph, "f", "Neg");
  add_operator(&graph, "f", "Abs");
  expect_refusal(graph, "two functions have the name 'f'");
  graph = calling({"x", "x"});
  add_operator(&graph, "f", "Neg");
  expect_refusal(graph, "function 'f' has other inputs");
  graph = calling();
  graph.node("PartitionedCall", "z", {"x"});
  graph.mutable_node("y")->clear_attr();
  expect_refusal(graph, "attribute f is missing");
  for (const char* result : {"nothing:y:0", "z:y:x", "z:y", "z:y:300", "best:places:0", "^z", "", "z:y:0:0",
                             "best:indices:18446744073709551615"}) {
    SCOPED_TRACE(result);
    graph = calling();
    TfGraph body;
    body.node("Neg", "z", {"x"}).integer("k", 1).node("TopKV2", "best", {"x", "k:output:0"});
    graph.function("f", {"x"}, body, {result});
    expect_refusal(graph, "no tensor");
  }
  graph = calling();
  graph.function("f", {"x"}, TfGraph().node("Neg", "z", {"x"}), {"z:y:0"}).clear_ret();
  expect_refusal(graph, "function 'f' does not return 'result0'");
  graph = calling();
  graph.function("f", {"x"}, TfGraph().node("Neg", "x", {"x"}), {"x"});
  expect_refusal(graph, "two nodes have the name 'x'");
  graph = calling({"x", "x"});
  graph.function("f", {"x", "x"}, TfGraph(), {"x"});
  expect_refusal(graph, "two nodes have the name 'x'");
  graph = calling();
  graph.function("f", {"x"}, TfGraph().node("Neg", "a", {"b:y:0"}).node("Neg", "b", {"a:y:0"}), {"a:y:0"});
  expect_refusal(graph, "depends on itself");
  graph = calling();
  graph.function("f", {"x"}, TfGraph(), {"x"}).mutable_signature()->mutable_input_arg(0)->set_number_attr("N");
  expect_refusal(graph, "a function of lists");
}

// Operators that are not supported are listed with the call.
TEST_F(TensorFlowFunctions, UnsupportedWithinCall) {
  TfGraph graph = calling();
  TfGraph body;
  body.node("Unknown", "a", {"x"}).node("Foreign", "b", {"x"}).node("AddV2", "z", {"a:y:0", "b:y:0"});
  graph.function("f", {"x"}, body, {"z:z:0"});
  expect_refusal(graph, "PartitionedCall: its graph has Unknown (1 node: a), Foreign (1 node: b) (1 node: y)");
}

TEST_F(TensorFlowFunctions, Recursion) {
  TfGraph graph = calling();
  TfGraph body;  // calls g twice
  body.node("PartitionedCall", "a", {"x"}, {{"f", TfFunction{"g"}}});
  body.node("PartitionedCall", "b", {"a:output:0"}, {{"f", TfFunction{"g"}}});
  graph.function("f", {"x"}, body, {"b:output:0"});
  graph.function("g", {"x"}, TfGraph().node("PartitionedCall", "z", {"x"}, {{"f", TfFunction{"f"}}}), {"z:output:0"});
  expect_refusal(graph, "function 'f' calls itself");
}

// Each function calls the next several times, so the graph would have width ^ depth nodes.
TfGraph growing(size_t depth, size_t width) {
  TfGraph graph;
  graph.placeholder("x", {2}).node("PartitionedCall", "y", {"x"}, {{"f", TfFunction{"f0"}}});
  for (size_t i = 0; i < depth; ++i) {
    TfGraph body;
    std::string last = "x";
    for (size_t k = 0; k < width; ++k) {
      const std::string name = "call" + std::to_string(k);
      body.node("PartitionedCall", name, {last}, {{"f", TfFunction{"f" + std::to_string(i + 1)}}});
      last = name + ":output:0";
    }
    graph.function("f" + std::to_string(i), {"x"}, body, {last});
  }
  add_operator(&graph, "f" + std::to_string(depth), "Neg");
  return graph;
}

TEST_F(TensorFlowFunctions, CallsThatGrowTooMuch) {
  expect(growing(3, 3), {make({2}, {1, -3})}, {make({2}, {-1, 3})});
  expect_refusal(growing(9, 8), "functions call each other too often");
  expect_refusal(growing(40, 1), "functions within functions, too deep");
  TfGraph graph;  // of few nodes, which have many arguments
  graph.placeholder("x", {2});
  const std::vector<std::string> many(256, "x");
  std::vector<std::string> arguments;
  for (size_t i = 0; i < many.size(); ++i) arguments.push_back("x" + std::to_string(i));
  for (size_t i = 0; i < 8; ++i) {
    TfGraph body;
    for (size_t k = 0; k < 4; ++k) {
      body.node("PartitionedCall", "call" + std::to_string(k), arguments,
                {{"f", TfFunction{"f" + std::to_string(i + 1)}}});
      arguments[k] = "call" + std::to_string(k) + ":output:0";
    }
    for (size_t k = 0; k < 4; ++k) arguments[k] = "x" + std::to_string(k);
    body.node("AddN", "z", {"call0:output:0", "call1:output:0", "call2:output:0", "call3:output:0"});
    graph.function("f" + std::to_string(i), arguments, body, {"z:sum:0"});
  }
  graph.function("f8", arguments, TfGraph(), {"x0"});
  graph.node("PartitionedCall", "y", many, {{"f", TfFunction{"f0"}}});
  expect_refusal(graph, "functions call each other too often");
}

// ---- branches ---------------------------------------------------------------------------------

// y = if c, -x, else |x|
TfGraph choosing(const std::string& op, const Ints& shape, schema::DataType type) {
  TfGraph graph;
  graph.placeholder("c", shape, type).placeholder("x", {2});
  graph.node(op, "y", {"c", "x"}, {{"then_branch", TfFunction{"f"}}, {"else_branch", TfFunction{"g"}}});
  add_operator(&graph, "f", "Neg");
  add_operator(&graph, "g", "Abs");
  return graph;
}

TEST_F(TensorFlowFunctions, If) {
  const Array x = make({2}, {1, -3});
  for (const char* op : {"If", "StatelessIf"}) {
    for (const auto type : {schema::DT_BOOL, schema::DT_INT32, schema::DT_FLOAT}) {
      const TfGraph graph = choosing(op, {}, type);
      expect(graph, {make({}, {1}), x}, {make({2}, {-1, 3})});
      expect(graph, {make({}, {0}), x}, {make({2}, {1, 3})});
    }
  }
  expect_refusal(choosing("If", {2}, schema::DT_BOOL), "a condition that is not a scalar");
}

// Of a condition that is known, one branch is imported.
TEST_F(TensorFlowFunctions, KnownIf) {
  for (const int condition : {0, 5}) {
    TfGraph graph;
    graph.placeholder("x", {2}).integer("c", condition);
    graph.node("If", "y", {"c", "x"}, {{"then_branch", TfFunction{"f"}}, {"else_branch", TfFunction{"g"}}});
    add_operator(&graph, "f", condition == 0 ? "Unknown" : "Neg");
    add_operator(&graph, "g", condition == 0 ? "Abs" : "Unknown");
    expect(graph, {make({2}, {1, -3})}, {condition == 0 ? make({2}, {1, 3}) : make({2}, {-1, 3})});
  }
}

TEST_F(TensorFlowFunctions, IfWithinIf) {
  TfGraph graph = choosing("If", {}, schema::DT_INT32);
  graph.mutable_node("y")->add_input("c");
  graph.graph.clear_library();
  TfGraph body;
  body.integer("two", 2).node("Greater", "more", {"n", "two:output:0"});
  body.node("If", "z", {"more:z:0", "x"}, {{"then_branch", TfFunction{"h"}}, {"else_branch", TfFunction{"i"}}});
  graph.function("f", {"x", "n"}, body, {"z:output:0"});
  graph.function("g", {"x", "n"}, TfGraph(), {"x"});
  add_operator(&graph, "h", "Square");
  add_operator(&graph, "i", "Neg");
  const Array x = make({2}, {1, -3});
  expect(graph, {make({}, {0}), x}, {x});
  expect(graph, {make({}, {2}), x}, {make({2}, {-1, 3})});
  expect(graph, {make({}, {3}), x}, {make({2}, {1, 9})});
}

TEST_F(TensorFlowFunctions, IfThatIsRefused) {
  TfGraph graph = choosing("If", {}, schema::DT_BOOL);
  graph.graph.mutable_library()->mutable_function(1)->mutable_node_def(0)->set_op("Shape");
  expect_refusal(graph, "graphs that differ in type");
  graph = choosing("If", {}, schema::DT_BOOL);
  graph.graph.mutable_library()->mutable_function(1)->mutable_signature()->clear_output_arg();
  expect_refusal(graph, "no output");
  graph = choosing("If", {}, schema::DT_BOOL);
  graph.mutable_node("y")->mutable_attr()->erase("else_branch");
  expect_refusal(graph, "attribute else_branch is missing");
  graph = choosing("If", {}, schema::DT_BOOL);  // all that is not supported is in one message
  graph.graph.mutable_library()->mutable_function(0)->mutable_node_def(0)->set_op("Unknown");
  graph.graph.mutable_library()->mutable_function(1)->mutable_node_def(0)->set_op("Foreign");
  expect_refusal(graph, "Unknown (1 node: z)");
  expect_refusal(graph, "Foreign (1 node: z)");
}

// ---- loops ------------------------------------------------------------------------------------

// i = 0; while i < n: i += 1, x = `body` of i and x
TfGraph looping(const TfGraph& body, const std::string& result) {
  TfGraph graph, all = body;
  graph.placeholder("n", {}, schema::DT_INT32).placeholder("x", {1, 2}).integer("zero", 0);
  graph.node("While", "loop", {"zero", "n", "x"}, {{"cond", TfFunction{"cond"}}, {"body", TfFunction{"body"}}});
  graph.node("Identity", "y", {"loop:2"});
  all.integer("one", 1).node("AddV2", "next", {"i", "one:output:0"});
  graph.function("cond", {"i", "n", "x"}, TfGraph().node("Less", "less", {"i", "n"}), {"less:z:0"});
  graph.function("body", {"i", "n", "x"}, all, {"next:z:0", "n", result});
  return graph;
}

TEST_F(TensorFlowFunctions, While) {
  TfGraph graph = looping(TfGraph().node("AddV2", "sum", {"x", "x"}), "sum:z:0");
  const Array x = make({1, 2}, {1, -3});
  for (const char* op : {"While", "StatelessWhile"}) {
    graph.mutable_node("loop")->set_op(op);
    expect(graph, {make({}, {0}), x}, {x});
    expect(graph, {make({}, {1}), x}, {make({1, 2}, {2, -6})});
    expect(graph, {make({}, {4}), x}, {make({1, 2}, {16, -48})});
  }
}

// A tensor gets a row in each round.
TEST_F(TensorFlowFunctions, WhileThatGrows) {
  TfGraph body;
  body.integer("axis", 0).integer("from", 0).integer("row", 1);
  body.node("Cast", "number", {"i"}, {{"SrcT", schema::DT_INT32}, {"DstT", schema::DT_FLOAT}});
  body.floats("ones", make({1, 2}, {1, 1})).node("Mul", "row_i", {"ones:output:0", "number:y:0"});
  body.node("ConcatV2", "more", {"x", "row_i:z:0", "axis:output:0"});
  const TfGraph graph = looping(body, "more:output:0");
  const Array x = make({1, 2}, {1, -3});
  expect(graph, {make({}, {0}), x}, {x});
  expect(graph, {make({}, {3}), x}, {make({4, 2}, {1, -3, 0, 0, 1, 1, 2, 2})});
}

// A choice and a call within a loop; the call has a loop again.
TEST_F(TensorFlowFunctions, NestedFunctions) {
  TfGraph body;
  body.integer("two", 2).integer("zero", 0).node("FloorMod", "odd", {"i", "two:output:0"});
  body.node("If", "chosen", {"odd:z:0", "x"},
            {{"then_branch", TfFunction{"neg"}}, {"else_branch", TfFunction{"four"}}});
  TfGraph graph = looping(body, "chosen:output:0");
  add_operator(&graph, "neg", "Neg");
  TfGraph four;
  four.integer("zero", 0).integer("two", 2);
  four.node("While", "z", {"zero:output:0", "two:output:0", "x"},
            {{"cond", TfFunction{"cond"}}, {"body", TfFunction{"double"}}});
  graph.function("four", {"x"}, four, {"z:output:2"});
  TfGraph twice;
  twice.integer("one", 1).node("AddV2", "next", {"i", "one:output:0"}).node("AddV2", "sum", {"x", "x"});
  graph.function("double", {"i", "n", "x"}, twice, {"next:z:0", "n", "sum:z:0"});
  const Array x = make({1, 2}, {1, -3});
  expect(graph, {make({}, {1}), x}, {make({1, 2}, {4, -12})});
  expect(graph, {make({}, {3}), x}, {make({1, 2}, {-16, 48})});
}

// "size" is the first dimension of "rows", which is open.
TfGraph& add_open_size(TfGraph* graph) {
  graph->placeholder("rows", {-1, 2}).node("Shape", "shape", {"rows"});
  graph->integers("b", {0}).integers("e", {1}).integers("s", {1});
  return graph->node("StridedSlice", "size", {"shape", "b", "e", "s"}, {{"shrink_axis_mask", 1}});
}

// The number of rounds is a size that the run knows, or a countdown begins with it.
TEST_F(TensorFlowFunctions, WhileToAnOpenSize) {
  const Array x = make({1, 2}, {1, -3});
  for (const bool counts_down : {false, true}) {
    TfGraph graph;
    graph.placeholder("x", {1, 2}).integer("zero", 0);
    add_open_size(&graph);
    graph.node("While", "loop", {counts_down ? "size" : "zero", counts_down ? "zero" : "size", "x"},
               {{"cond", TfFunction{"cond"}}, {"body", TfFunction{"body"}}});
    graph.node("Identity", "y", {"loop:2"});
    TfGraph body;
    body.integer("step", counts_down ? -1 : 1).node("AddV2", "next", {"i", "step:output:0"});
    body.node("AddV2", "sum", {"x", "x"});
    graph.function("cond", {"i", "n", "x"}, TfGraph().node(counts_down ? "Greater" : "Less", "more", {"i", "n"}),
                   {"more:z:0"});
    graph.function("body", {"i", "n", "x"}, body, {"next:z:0", "n", "sum:z:0"});
    for (const size_t rows : {1u, 3u}) {
      const float factor = rows == 1 ? 2 : 8;
      expect(graph, {x, test::random({rows, 2}, 1)}, {make({1, 2}, {factor, -3 * factor})});
    }
  }
}

// TensorFlow's sizes have 32 bits, and so have the numbers of a range.
TEST_F(TensorFlowFunctions, RangeToAnOpenSize) {
  TfGraph graph;
  add_open_size(&graph).integer("zero", 0).integer("step", 2).node("Range", "range", {"zero", "size", "step"});
  graph.node("Cast", "y", {"range"}, {{"SrcT", schema::DT_INT32}, {"DstT", schema::DT_FLOAT}});
  expect(graph, {test::random({1, 2}, 1)}, {make({1}, {0})});
  expect(graph, {test::random({5, 2}, 1)}, {make({3}, {0, 2, 4})});
}

TEST_F(TensorFlowFunctions, SliceToAnOpenSize) {
  TfGraph graph;
  add_open_size(&graph).integer("one", 1).node("Sub", "last", {"size", "one"}).node("Pack", "begin", {"last"});
  graph.node("Pack", "end", {"size"}).node("StridedSlice", "y", {"rows", "begin", "end", "s"});
  expect(graph, {make({1, 2}, {1, 2})}, {make({1, 2}, {1, 2})});
  expect(graph, {make({3, 2}, {1, 2, 3, 4, 5, 6})}, {make({1, 2}, {5, 6})});
}

TEST_F(TensorFlowFunctions, TilesOfAnOpenSize) {
  TfGraph graph;
  add_open_size(&graph).integer("one", 1).node("Pack", "times", {"one", "size"});
  graph.node("Tile", "y", {"rows", "times"});
  expect(graph, {make({1, 2}, {1, 2})}, {make({1, 2}, {1, 2})});
  expect(graph, {make({2, 2}, {1, 2, 3, 4})}, {make({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4})});
}

// Branches that return a size that is open: one that they get, and one of what they get.
TEST_F(TensorFlowFunctions, IfOfAnOpenSize) {
  TfGraph graph;
  graph.placeholder("c", {}, schema::DT_BOOL);
  add_open_size(&graph);
  graph.node("If", "y", {"c", "size", "rows"}, {{"then_branch", TfFunction{"f"}}, {"else_branch", TfFunction{"g"}}});
  graph.integer("one", 1);
  graph.function("f", {"n", "rows"}, TfGraph().integers("list", {1}).node("Reshape", "z", {"n", "list:output:0"}),
                 {"z:output:0"});
  TfGraph body;
  body.integers("b", {0}).integers("e", {1}).integers("s", {1}).node("Shape", "shape", {"rows"});
  body.node("StridedSlice", "z", {"shape:output:0", "b:output:0", "e:output:0", "s:output:0"});
  graph.function("g", {"n", "rows"}, body, {"z:output:0"});
  for (const float condition : {0.f, 1.f}) {
    expect(graph, {make({}, {condition}), test::random({3, 2}, 1)}, {make({1}, {3})});
  }
}

// How wide a band is must be known at import: this fixes the size that says so, also where a graph of a node reads it, or
// a graph within.
TEST_F(TensorFlowFunctions, GraphsFixSizes) {
  TfGraph band, nested;
  band.integers("b", {0}).integers("e", {1}).integer("none", -1).node("Shape", "shape", {"x"});
  band.node("StridedSlice", "size", {"shape:output:0", "b:output:0", "e:output:0", "e:output:0"},
            {{"shrink_axis_mask", 1}});
  band.node("MatrixBandPart", "z", {"x", "size:output:0", "none:output:0"});
  nested.node("If", "z", {"c", "c", "x"}, {{"then_branch", TfFunction{"band"}}, {"else_branch", TfFunction{"same"}}});
  const auto expect_fixed = [&](const std::string& op, const test::TfAttributes& attributes,
                                const std::string& output) {
    std::vector<std::string> inputs = {"c", "x"};
    if (op == "If") inputs.insert(inputs.begin(), "c");
    TfGraph graph;
    graph.placeholder("c", {}, schema::DT_BOOL).placeholder("rows", {-1, 2}).node("Neg", "x", {"rows"});
    graph.node(op, "choice", inputs, attributes);
    graph.node("Identity", "y", {output});
    graph.function("band", {"c", "x"}, band, {"z:band:0"});
    graph.function("same", {"c", "x"}, TfGraph(), {"x"});
    graph.function("nested", {"c", "x"}, nested, {"z:output:0"});
    graph.function("goes_on", {"c", "x"}, TfGraph(), {"c"});
    graph.function("step", {"c", "x"}, band, {"c", "z:band:0"});
    const Graph imported = import(graph);
    EXPECT_EQ(imported.inputs[1].fixed, 1) << op;
    EXPECT_NE(std::string(imported.inputs[1].fixed_by.c_str()).find("z"), std::string::npos) << op;
  };
  expect_fixed("If", {{"then_branch", TfFunction{"same"}}, {"else_branch", TfFunction{"band"}}}, "choice");
  expect_fixed("If", {{"then_branch", TfFunction{"nested"}}, {"else_branch", TfFunction{"same"}}}, "choice");
  expect_fixed("While", {{"cond", TfFunction{"goes_on"}}, {"body", TfFunction{"step"}}}, "choice:1");
}

TEST_F(TensorFlowFunctions, WhileThatIsRefused) {
  const auto loop = [](const std::function<void(schema::FunctionDef*)>& change, int function) {
    TfGraph graph = looping(TfGraph().node("AddV2", "sum", {"x", "x"}), "sum:z:0");
    change(graph.graph.mutable_library()->mutable_function(function));
    return graph;
  };
  const auto returns = [](const char* result, const char* name) {
    return [=](schema::FunctionDef* function) { (*function->mutable_ret())[name] = result; };
  };
  expect_refusal(loop(returns("i", "result0"), 0), "the condition is not one bool");
  expect_refusal(loop([](auto* f) { f->mutable_signature()->clear_output_arg(); }, 0), "the condition is not one bool");
  expect_refusal(loop([](auto* f) { f->mutable_signature()->mutable_output_arg()->RemoveLast(); }, 1),
                 "the body has another number of outputs");
  expect_refusal(loop([](auto* f) { f->mutable_signature()->mutable_input_arg()->RemoveLast(); }, 1),
                 "function 'body' has other inputs");
  expect_refusal(loop(returns("i", "result2"), 1), "a value that changes its type");
  expect_refusal(loop([](auto* f) { f->mutable_node_def(0)->set_op("Unknown"); }, 1), "Unknown (1 node: sum)");
  TfGraph both = loop([](auto* f) { f->mutable_node_def(0)->set_op("Unknown"); }, 1);
  both.graph.mutable_library()->mutable_function(0)->mutable_node_def(0)->set_op("Foreign");
  expect_refusal(both,
                 "While: its graph has Foreign (1 node: less); its graph has Unknown (1 node: sum) (1 node: loop)");
  TfGraph endless = looping({}, "x");  // the body runs itself
  schema::FunctionDef& body = *endless.graph.mutable_library()->mutable_function(1);
  TfGraph nodes;
  nodes.node("While", "next", {"i", "n", "x"}, {{"cond", TfFunction{"cond"}}, {"body", TfFunction{"body"}}});
  *body.mutable_node_def() = nodes.graph.node();
  (*body.mutable_ret())["result0"] = "next:output:0";
  expect_refusal(endless, "function 'body' calls itself");
}

}  // namespace tensorflow_functions_test
}  // namespace quern

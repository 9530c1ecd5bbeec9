// Loops, conditionals and arrays of tensors of TensorFlow's version 1. tensorflow_old_loops.py compares more with TensorFlow.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "convert/convert.h"
#include "tensorflow_graph.h"

namespace quern {
namespace tensorflow_old_loops_test {

using test::Array;
using test::Ints;
using test::make;
using test::TfAttributes;
using test::TfGraph;
namespace schema = tensorflow::schema;

class TensorFlowOldLoops : public testing::Test {
 protected:
  Graph import(const TfGraph& graph, const ImportOptions& options) {
    test::keep_model("pbtxt", graph.graph.DebugString());
    return import_tensorflow(folder_.write("net.pb", graph.bytes()), options);
  }
  void expect(const TfGraph& graph, const std::vector<Array>& inputs, const std::vector<Array>& outputs,
              const std::vector<std::string>& names = {"y"}) {
    test::expect_outputs(import(graph, {names, {}, {}}), inputs, outputs, 1e-5f);
  }
  void expect_refusal(const TfGraph& graph, const std::string& part) {
    const std::string message = test::error_of([&] { import(graph, {{"y"}, {}, {}}); });
    EXPECT_NE(message.find(part), std::string::npos) << message << "\ninstead of " << part;
    EXPECT_LT(message.size(), 2000u);
  }
  test::Folder folder_;
};

// ---- loops ------------------------------------------------------------------------------------

TfAttributes in_frame(const char* frame, bool is_constant = false) {
  return {{"frame_name", frame}, {"is_constant", is_constant}};
}

// Begins a variable of a loop, which is `name` in a round; end_variable() says what it is in the next one. Behind the loop
// it is `name`/exit. The loop's LoopCond is `frame`/cond.
void begin_variable(TfGraph* graph, const char* frame, const std::string& name, const std::string& from) {
  graph->node("Enter", name + "/enter", {from}, in_frame(frame));
  graph->node("Merge", name + "/merge", {name + "/enter", name + "/next"});
  graph->node("Switch", name + "/switch", {name + "/merge", std::string(frame) + "/cond"});
  graph->node("Identity", name, {name + "/switch:1"}).node("Exit", name + "/exit", {name + "/switch"});
}
void end_variable(TfGraph* graph, const std::string& name, const std::string& next) {
  graph->node("NextIteration", name + "/next", {next});
}

// Counts i from 0 to a tensor.
void count(TfGraph* graph, const char* frame, const std::string& to) {
  const std::string f = frame, i = f + "/i";
  graph->integer(f + "/0", 0).integer(f + "/1", 1);
  begin_variable(graph, frame, i, f + "/0");
  graph->node("Enter", f + "/n", {to}, in_frame(frame, true)).node("Less", f + "/less", {i + "/merge", f + "/n"});
  graph->node("LoopCond", f + "/cond", {f + "/less"}).node("AddV2", f + "/more", {i, f + "/1"});
  end_variable(graph, i, f + "/more");
}

// x doubles n times.
TfGraph doubling() {
  TfGraph graph;
  graph.placeholder("n", {}, schema::DT_INT32).placeholder("x", {2});
  count(&graph, "loop", "n");
  begin_variable(&graph, "loop", "v", "x");
  graph.node("AddV2", "sum", {"v", "v"});
  end_variable(&graph, "v", "sum");
  return graph.node("Identity", "y", {"v/exit"});
}

TEST_F(TensorFlowOldLoops, Loop) {
  const Array x = make({2}, {1, -3});
  for (const float n : {0.f, 1.f, 4.f}) {
    const float factor = std::exp2(n);
    expect(doubling(), {make({}, {n}), x}, {make({2}, {factor, -3 * factor})});
  }
  expect(doubling(), {make({}, {2}), x}, {make({2}, {4, -12}), make({}, {2})}, {"y", "loop/i/exit"});
}

// The outputs, if none are named, are those that nobody reads, not what loops are made of.
TEST_F(TensorFlowOldLoops, OutputsOfTheGraph) {
  const Graph graph = import(doubling(), {});
  std::set<std::string> names;
  for (const Port& output : graph.outputs) names.insert(graph.tensors[static_cast<size_t>(output.tensor)].name.c_str());
  EXPECT_EQ(names, (std::set<std::string>{"y", "loop/i/exit"}));
}

// Tensors of a round can be inputs and outputs.
TEST_F(TensorFlowOldLoops, CutWithin) {
  const Graph graph = import(doubling(), {{"sum"}, {}, {{"v", {2}}}});
  test::expect_outputs(graph, {make({2}, {1, -3})}, {make({2}, {2, -6})}, 1e-5f);
}

TEST_F(TensorFlowOldLoops, LoopWithinLoop) {
  TfGraph graph;
  graph.placeholder("n", {}, schema::DT_INT32).placeholder("x", {2});
  count(&graph, "outer", "n");
  begin_variable(&graph, "outer", "v", "x");
  count(&graph, "inner", "outer/i");
  begin_variable(&graph, "inner", "w", "v");
  graph.node("AddV2", "sum", {"w", "w"});
  end_variable(&graph, "w", "sum");
  end_variable(&graph, "v", "w/exit");
  graph.node("Identity", "y", {"v/exit"});  // doubles 0 + 1 + ... + n - 1 times
  expect(graph, {make({}, {3}), make({2}, {1, -3})}, {make({2}, {8, -24})});
}

TEST_F(TensorFlowOldLoops, LoopsThatAreNone) {
  TfGraph graph = doubling();
  graph.mutable_node("loop/cond")->set_op("Identity");  // Switch chooses by something else
  expect_refusal(graph, "Exit (1 node: v/exit)");
  graph = doubling();
  graph.mutable_node("v/next")->set_op("Identity");
  EXPECT_NE(test::error_of([&] { import(graph, {{"y"}, {}, {}}); }), "");
  graph = doubling();
  graph.mutable_node("v/merge")->set_input(1, "sum");
  EXPECT_NE(test::error_of([&] { import(graph, {{"y"}, {}, {}}); }), "");
  graph = doubling();
  graph.mutable_node("v/next")->clear_input();
  expect_refusal(graph, "Exit (1 node: v/exit)");
  graph = doubling();
  graph.mutable_node("sum")->set_input(0, "nothing");
  expect_refusal(graph, "nothing");
  graph = doubling();
  graph.mutable_node("sum")->set_op("Unknown");
  expect_refusal(graph, "While: its graph has Unknown (1 node: sum) (1 node: loop/loop)");
}

// ---- conditionals -----------------------------------------------------------------------------

// y = c ? -x : 7
TfGraph choosing() {
  TfGraph graph;
  graph.placeholder("c", {}, schema::DT_BOOL).placeholder("x", {2}).node("Switch", "x/switch", {"x", "c"});
  graph.node("Neg", "yes", {"x/switch:1"}).floats("no", make({2}, {7, 7}));
  return graph.node("Merge", "y", {"no", "yes"});
}

TEST_F(TensorFlowOldLoops, Conditional) {
  expect(choosing(), {make({}, {1}), make({2}, {1, -3})}, {make({2}, {-1, 3})});
  expect(choosing(), {make({}, {0}), make({2}, {1, -3})}, {make({2}, {7, 7})});
}

// y = c ? 2 : 5, as tf.cond writes it: nothing but control inputs leads from the constants to c.
TfGraph choosing_constants() {
  TfGraph graph;
  graph.placeholder("c", {}, schema::DT_BOOL).node("Identity", "pred_id", {"c"}).node("Switch", "switch", {"c", "c"});
  graph.node("Identity", "switch_t", {"switch:1"}).node("Identity", "switch_f", {"switch"});
  graph.floats("yes", make({}, {2})).floats("no", make({}, {5}));
  graph.mutable_node("yes")->add_input("^switch_t");
  graph.mutable_node("no")->add_input("^switch_f");
  return graph.node("Merge", "y", {"no", "yes"});
}

TEST_F(TensorFlowOldLoops, ConditionalOfConstants) {
  for (const float c : {0.f, 1.f}) {
    const Array expected = make({}, {c != 0 ? 2.f : 5.f});
    expect(choosing_constants(), {make({}, {c})}, {expected});
    TfGraph graph = choosing_constants();
    graph.mutable_node("no")->clear_input();  // one side tells
    expect(graph, {make({}, {c})}, {expected});
    graph = choosing_constants();
    graph.mutable_node("no")->set_input(0, "^c");  // no pivot
    expect(graph, {make({}, {c})}, {expected});
    graph = choosing_constants();  // the constants are not the results themselves
    graph.node("Identity", "no more", {"no"}).node("Neg", "yes more", {"yes"});
    graph.mutable_node("y")->set_input(0, "no more");
    graph.mutable_node("y")->set_input(1, "yes more");
    expect(graph, {make({}, {c})}, {make({}, {c != 0 ? -2.f : 5.f})});
  }
}

TEST_F(TensorFlowOldLoops, ConditionalsOfConstantsThatAreNone) {
  TfGraph graph = choosing_constants();
  graph.mutable_node("yes")->set_input(0, "^switch_f");  // both in one branch
  expect_refusal(graph, "Merge (1 node: y)");
  graph = choosing_constants();
  graph.mutable_node("no")->set_input(0, "^switch_t");
  graph.mutable_node("yes")->set_input(0, "^switch_f");  // each in the other's
  expect_refusal(graph, "Merge (1 node: y)");
  graph = choosing_constants();
  graph.placeholder("d", {}, schema::DT_BOOL)
      .node("Switch", "other", {"d", "d"})
      .node("Identity", "other_f", {"other"});
  graph.mutable_node("no")->set_input(0, "^other_f");  // two conditions
  expect_refusal(graph, "Merge (1 node: y)");
  for (const char* const pivot : {"^", "^nothing", "^switch", "^pred_id"}) {
    graph = choosing_constants();
    for (const char* const side : {"no", "yes"}) graph.mutable_node(side)->set_input(0, pivot);
    EXPECT_NE(test::error_of([&] { import(graph, {{"y"}, {}, {}}); }), "") << pivot;
  }
}

// The pivot of a loop's body is Identity of Switch as well, and no condition's.
TEST_F(TensorFlowOldLoops, ConditionalOfConstantsWithinLoop) {
  for (const bool has_pivots : {true, false}) {
    TfGraph graph;
    graph.placeholder("n", {}, schema::DT_INT32).placeholder("x", {2});
    count(&graph, "loop", "n");
    begin_variable(&graph, "loop", "v", "x");
    graph.integer("one", 1).node("Greater", "late", {"loop/i", "one"}).node("Switch", "switch", {"late", "late"});
    graph.node("Identity", "switch_t", {"switch:1"}).node("Identity", "switch_f", {"switch"});
    graph.floats("no", make({2}, {1, 1})).floats("yes", make({2}, {10, 10}));
    for (const char* const name : {"one", "no", "yes"}) graph.mutable_node(name)->add_input("^loop/i");
    if (has_pivots) graph.mutable_node("no")->add_input("^switch_f");
    if (has_pivots) graph.mutable_node("yes")->add_input("^switch_t");
    graph.node("Merge", "merged", {"no", "yes"}).node("AddV2", "sum", {"v", "merged"});
    end_variable(&graph, "v", "sum");
    graph.node("Identity", "y", {"v/exit"});
    if (has_pivots) expect(graph, {make({}, {3}), make({2}, {1, -3})}, {make({2}, {13, 9})});
    if (!has_pivots) expect_refusal(graph, "Exit (1 node: v/exit)");
  }
}

TEST_F(TensorFlowOldLoops, ConditionalWithinLoop) {
  TfGraph graph;
  graph.placeholder("n", {}, schema::DT_INT32).placeholder("x", {2}).floats("seven", make({2}, {7, 7}));
  count(&graph, "loop", "n");
  begin_variable(&graph, "loop", "v", "x");
  graph.integer("one", 1).node("Greater", "late", {"loop/i", "one"}).node("Switch", "v/chosen", {"v", "late"});
  graph.node("Neg", "yes", {"v/chosen:1"}).node("AddV2", "no", {"v/chosen", "v/chosen"});
  graph.node("Merge", "merged", {"no", "yes"});
  end_variable(&graph, "v", "merged");
  graph.node("Identity", "y", {"v/exit"});
  expect(graph, {make({}, {3}), make({2}, {1, -3})}, {make({2}, {-4, 12})});
}

TEST_F(TensorFlowOldLoops, ConditionalsThatAreNone) {
  TfGraph graph = choosing();
  graph.mutable_node("yes")->set_input(0, "x/switch");  // the first input is what is taken if the condition is false
  expect_refusal(graph, "Merge (1 node: y)");
  graph = choosing();
  graph.mutable_node("yes")->set_input(0, "no");  // nothing says which side is which
  expect_refusal(graph, "Merge (1 node: y)");
  graph = choosing();
  graph.placeholder("d", {}, schema::DT_BOOL).node("Switch", "other", {"x", "d"}).node("Neg", "neg", {"other"});
  graph.mutable_node("y")->set_input(0, "neg");
  expect_refusal(graph, "Merge (1 node: y)");
  graph = choosing();
  graph.mutable_node("y")->mutable_input()->RemoveLast();
  expect_refusal(graph, "Merge (1 node: y)");
  graph = choosing();
  graph.mutable_node("y")->add_input("yes");  // of three
  expect_refusal(graph, "Merge (1 node: y)");
}

// Each Merge copies its branches: here one constant of 256 KB, which the file has once.
TEST_F(TensorFlowOldLoops, ConditionalsThatShareALargeConstant) {
  constexpr size_t size = 1 << 16;
  const auto sharing = [](size_t count) {
    TfGraph graph;
    graph.placeholder("c", {}, schema::DT_BOOL)
        .placeholder("x", {1})
        .floats("large", make({size}, std::vector<float>(size, 1)));
    graph.integer("0", 0);
    std::vector<std::string> sums;
    for (size_t i = 0; i < count; ++i) {
      const std::string at = std::to_string(i);
      graph.node("Switch", "switch" + at, {"x", "c"}).node("Mul", "yes" + at, {"switch" + at + ":1", "large"});
      graph.node("Sub", "no" + at, {"switch" + at, "large"}).node("Merge", "merge" + at, {"no" + at, "yes" + at});
      sums.push_back("sum" + at);
      graph.node("Sum", sums.back(), {"merge" + at, "0"});
    }
    return graph.node("AddN", "y", sums);
  };
  expect(sharing(4), {make({}, {1}), make({1}, {0.5f})}, {make({}, {4 * size / 2})});
  expect_refusal(sharing(60), "Merge (36 nodes, first: merge24)");
}

// Tries that fail spend the budget of copies, too. What is behind them is refused only if the outputs need it.
TEST_F(TensorFlowOldLoops, ConditionalsThatNobodyNeeds) {
  TfGraph graph = choosing();
  std::string last = "x";
  for (size_t i = 0; i < 2000; ++i) {
    const std::string name = "passing" + std::to_string(i);
    graph.node("Neg", name, {last});
    last = name;
  }
  for (size_t i = 0; i < 200; ++i) graph.node("Merge", "none" + std::to_string(i), {last, last});
  graph.node("Neg", "z", {last});
  const Array x = make({2}, {1, -3});
  test::expect_outputs(import(graph, {{"z"}, {}, {}}), {x}, {make({2}, {-1, 3})}, 1e-5f);
  expect(graph, {make({}, {1}), x}, {make({2}, {-1, 3})});  // tried before these
}

// ---- arrays -----------------------------------------------------------------------------------

// Reverses the rows of x.
TfGraph reversing() {
  TfGraph graph;
  const TfAttributes of_floats = {{"dtype", schema::DT_FLOAT}, {"dynamic_size", false}};
  graph.placeholder("x", {3, 2}).integer("3", 3).integer("2", 2).integers("all", {0, 1, 2});
  graph.node("TensorArrayV3", "given", {"3"}, of_floats).node("TensorArrayV3", "made", {"3"}, of_floats);
  graph.node("TensorArrayScatterV3", "scattered", {"given", "all", "x", "given:1"});
  count(&graph, "loop", "3");
  begin_variable(&graph, "loop", "flow", "made:1");
  graph.node("Enter", "handle", {"given"}, in_frame("loop", true));
  graph.node("Enter", "flow of given", {"scattered"}, in_frame("loop", true));
  graph.node("Enter", "handle of made", {"made"}, in_frame("loop", true));
  graph.node("TensorArrayReadV3", "row", {"handle", "loop/i", "flow of given"}, {{"dtype", schema::DT_FLOAT}});
  graph.node("Sub", "place", {"2", "loop/i"});
  graph.node("TensorArrayWriteV3", "write", {"handle of made", "place", "row", "flow"});
  end_variable(&graph, "flow", "write");
  graph.node("TensorArrayGatherV3", "y", {"made", "all", "flow/exit"}, {{"dtype", schema::DT_FLOAT}});
  return graph.node("TensorArraySizeV3", "size", {"made", "flow/exit"});
}

TEST_F(TensorFlowOldLoops, Arrays) {
  expect(reversing(), {make({3, 2}, {1, 2, 3, 4, 5, 6})}, {make({3, 2}, {5, 6, 3, 4, 1, 2}), make({}, {3})},
         {"y", "size"});
}

TEST_F(TensorFlowOldLoops, ArraysThatAreRefused) {
  TfGraph graph = reversing();
  graph.mutable_node("made")->mutable_attr()->at("dynamic_size").set_b(true);
  expect_refusal(graph, "TensorArrayV3: a list that grows (1 node: made)");
  graph = reversing();
  graph.mutable_node("scattered")->set_input(3, "x");
  expect_refusal(graph, "expected a list of tensors as flow");
  graph = reversing();
  graph.mutable_node("y")->set_op("TensorArrayConcatV3");
  expect_refusal(graph, "TensorArrayConcatV3 (1 node: y)");
}

}  // namespace tensorflow_old_loops_test
}  // namespace quern

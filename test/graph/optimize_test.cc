// The optimizer as a whole; each pass has a test of its own.
#include "graph/pass/observer.h"
#include "optimized.h"

namespace quern::test {
namespace optimize_test {

// Nodes and tensors go, so that all numbers change but those of the graph's inputs and outputs.
TEST(Optimize, StatesAndSubgraphsStay) {
  GraphBuilder b;
  const int unused = b.node(OpKind::exp, {b.constant({4, 4})});
  b.node(OpKind::exp, {unused});
  const int x = b.input("x", {1, 16}), a = b.input("a", {1, 16}), c = b.input("c", {1, 16});
  const int y = b.node(OpKind::clamp, {b.node(OpKind::add, {x, a})});
  b.output(y, "y");
  b.output(b.node(OpKind::clamp, {b.node(OpKind::add, {y, c})}), "next c");
  b.output(b.node(OpKind::clamp, {b.node(OpKind::sub, {y, a})}), "next a");
  b.graph.states = {{1, 2}, {2, 1}};
  b.graph.subgraphs = nested_graph().subgraphs;
  const Graph before = b.done();
  const Graph after = expect_optimized(before, "add add sub");
  ASSERT_EQ(after.states.size(), 2u);
  for (size_t i = 0; i < after.states.size(); ++i) {
    const auto names = [i](const Graph& graph) {
      const State state = graph.states[i];
      return std::string(tensor_of(graph, graph.inputs[state.input].tensor).name) + " <- " +
             std::string(tensor_of(graph, graph.outputs[state.output].tensor).name);
    };
    EXPECT_EQ(names(after), i == 0 ? "a <- next a" : "c <- next c");
  }
  EXPECT_NE(before.outputs[0].tensor, after.outputs[0].tensor) << "the test has lost its point";
  ASSERT_EQ(after.subgraphs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) expect_same(before.subgraphs[i], after.subgraphs[i]);
}

TEST(Optimize, SampleGraph) {
  expect_optimized(sample_graph(), "conv2d conv2d add concat max_pool reshape fully_connected softmax");
}

TEST(Optimize, IsDoneAfterOnce) {
  Graph graph = sample_graph();
  ASSERT_EQ(optimize(graph), QN_OK);
  Graph again = graph;
  ASSERT_EQ(optimize(again), QN_OK);
  expect_same(graph, again);
}

// ---- what the optimizer tells

TEST(Optimize, TellsWhatPassesHaveDone) {
  GraphBuilder b;
  int x = b.node(OpKind::conv2d, {b.input("x", {1, 4, 4, 2}), b.constant({3, 1, 1, 2})});
  x = b.node(OpKind::clamp, {b.node(OpKind::power, {x}, power(2, 1, 1))}, range(0, 6));
  b.node(OpKind::tanh, {x});  // nobody reads it
  b.output(x, "y");
  Graph graph = b.done();
  std::string steps;
  const auto saw = [](void* text, const PassStep& step) {
    EXPECT_NE(step.sentence, nullptr);
    *static_cast<std::string*>(text) += std::to_string(step.round) + " " + step.name + " " +
                                        std::to_string(step.before) + " " + std::to_string(step.after) + "\n";
  };
  expect_ok(optimize(graph, {saw, &steps}));
  EXPECT_EQ(steps, "1 fold-affine 4 3\n1 fuse-clamps 3 2\n1 remove-dead 2 1\n");
  steps.clear();
  expect_ok(optimize(graph, {saw, &steps}));
  EXPECT_EQ(steps, "") << "there is nothing left to do";
}

}  // namespace optimize_test
}  // namespace quern::test

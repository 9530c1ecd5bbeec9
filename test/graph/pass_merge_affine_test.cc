// Pass merge-affine.
#include "optimized.h"

namespace quern::test {
namespace {

TEST(Optimize, Relu6OfTwoRelusAndTwoPowers) {
  GraphBuilder b;
  const int x = b.input("x", {1, 5, 5, 3});
  int y = b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 3})});
  for (int i = 0; i < 2; ++i) {
    y = b.node(OpKind::clamp, {y}, range(0, infinity));
    y = b.node(OpKind::power, {y}, power(-1, 6, 1));
  }
  b.output(y, "y");
  const Graph graph = expect_optimized(b.done(), "conv2d");
  EXPECT_EQ(graph.nodes[0].attributes.min, 0);
  EXPECT_EQ(graph.nodes[0].attributes.max, 6);
}

TEST(Optimize, ChainsBecomeTheSimplestNode) {
  GraphBuilder b;
  const char* const names[] = {"a", "b", "c", "d", "e", "f"};
  size_t next = 0;
  const auto chain = [&](std::vector<std::pair<OpKind, Attributes>> nodes) {
    int y = b.node(OpKind::sigmoid, {b.input(names[next++], {2, 3})});
    for (auto& [kind, attributes] : nodes) y = b.node(kind, {y}, attributes);
    return y;
  };
  b.output(chain({{OpKind::clamp, range(0, 6)}, {OpKind::clamp, range(-1, 3)}}), "clamp");
  b.output(chain({{OpKind::clamp, range(0, 2)}, {OpKind::clamp, range(5, 9)}}), "always 5");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(3, -1, 1)}}), "power");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(0.5, -0.5, 1)}}), "nothing");
  b.output(chain({{OpKind::clamp, range(1, 2)}, {OpKind::power, power(-2, 1, 1)}}), "as it was");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(1, 0, 2)}}), "square");
  const Graph graph = expect_optimized(
      b.done(), "sigmoid clamp sigmoid clamp sigmoid power sigmoid sigmoid clamp power sigmoid power power");
  EXPECT_EQ(graph.nodes[1].attributes.max, 3);
  EXPECT_EQ(graph.nodes[3].attributes.min, 5);
  EXPECT_EQ(graph.nodes[5].attributes.alpha, 6);
  EXPECT_EQ(graph.nodes[5].attributes.beta, 2);
}

TEST(Optimize, ChainsThatClampBecomeAScaleWhereChannelsAreFixed) {
  GraphBuilder b;
  const int x = b.node(OpKind::prelu, {b.input("x", {2, 3}), b.constant({3})});
  const int y = b.node(OpKind::power, {b.node(OpKind::clamp, {x}, range(1, 2))}, power(-2, 1, 1));
  b.output(y, "y");
  const Graph graph = expect_optimized(b.done(), "prelu scale");
  EXPECT_EQ(graph.nodes[1].attributes.min, -3);
  EXPECT_EQ(graph.nodes[1].attributes.max, -1);
}

TEST(Optimize, ChannelsAreFixedBehindAReshapeThatGivesThem) {
  const auto chain = [](Attributes shape) {
    GraphBuilder b;
    const int part =
        b.node(OpKind::slice, {b.node(OpKind::reshape, {b.input("x", {2, 6})}, shape)}, values({0, 1, -1, 3}));
    b.output(b.node(OpKind::power, {b.node(OpKind::clamp, {part}, range(1, 2))}, power(-2, 1, 1)), "y");
    return b.done();
  };
  expect_optimized(chain(values({-1, 4})), "reshape slice scale");
  expect_optimized(chain(values({3, -1})), "reshape slice clamp power");
}

// What was known about the input when the model was converted must not be built in.
TEST(Optimize, ChainsStayResizable) {
  GraphBuilder b;
  const int x = b.node(OpKind::power, {b.input("x", {1, 100})}, power(0.2f, 0.5, 1));
  b.output(b.node(OpKind::clamp, {x}, range(0, 1)), "y");
  Graph graph = expect_optimized(b.done(), "power clamp");
  graph.tensors[static_cast<size_t>(graph.inputs[0].tensor)].shape = {1, 200};
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
}

// Where the input has one column, the sum still has none: no number to add says that.
TEST(Optimize, SumsWithConstantsOfNoElementsStay) {
  GraphBuilder b;
  const int x = b.node(OpKind::power, {b.input("x", {5, 0})}, power(2, 1, 1));
  b.output(b.node(OpKind::add, {x, b.constant({5, 0})}), "y");
  Graph graph = expect_optimized(b.done(), "power add");
  graph.tensors[at(graph.inputs[0].tensor)].shape = {5, 1};
  expect_ok(infer_shapes(graph));
  EXPECT_EQ(tensor_of(graph, graph.outputs[0].tensor).shape, (Shape{5, 0}));
}

}  // namespace
}  // namespace quern::test

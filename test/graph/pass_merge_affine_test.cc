// Pass merge-affine.
#include "optimized.h"

namespace quern::test {
namespace pass_merge_affine_test {

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
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(0.5, -0.5, 1)}}),
           "x, of which the 1 has taken bits");
  b.output(chain({{OpKind::clamp, range(1, 2)}, {OpKind::power, power(-2, 1, 1)}}), "as it was");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(1, 0, 2)}}), "square");
  const Graph graph = expect_optimized(
      b.done(),
      "sigmoid clamp sigmoid clamp sigmoid power sigmoid power power sigmoid clamp power sigmoid power power");
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

// What one step loses to rounding, or to overflow, the next one does not bring back.
TEST(Optimize, StepsThatLoseDigitsStay) {
  const auto of = [](const std::vector<Attributes>& steps) {
    GraphBuilder b;
    int y = b.input("x", {2, 3});
    for (const Attributes& step : steps) y = b.node(OpKind::power, {y}, step);
    b.output(y, "y");
    return b.done();
  };
  expect_optimized(of({power(1, 12582912, 1), power(1, -12582912, 1)}), "power power");
  expect_optimized(of({power(2, -1, 1), power(0.5, 0.5, 1)}), "power power");
  expect_optimized(of({power(1e30f, 0, 1), power(1e-30f, 0, 1)}), "power power");
  expect_optimized(of({power(1e-30f, 0, 1), power(1e30f, 0, 1)}), "power power");
  // The product of the scales is a denormal, which has few digits.
  expect_optimized(of({power(0.24743372f, 0, 1), power(0.24743372f, 0, 1), power(1 / 3e38f, 0, 1)}),
                   "power power power");
  // The first two could become one, but the third would show the difference. The last two round as one node does.
  expect_optimized(of({power(1, 3, 1), power(1.7f, 0, 1), power(1, -5.1f, 1)}), "power power");
  expect_optimized(of({power(0.3f, 0, 1), power(1.7f, 0, 1), power(1, -5.1f, 1)}), "power");
}

// A clamp proves that a step does not overflow.
TEST(Optimize, ClampsLimitWhatStepsMayLose) {
  const auto of = [](float low, float high) {
    GraphBuilder b;
    const int x = b.node(OpKind::add, {b.input("x", {2, 3}), b.input("x2", {2, 3})}, range(low, high));
    b.output(b.node(OpKind::power, {b.node(OpKind::power, {x}, power(300, 0, 1))}, power(1 / 7.f, 0, 1)), "y");
    return b.done();
  };
  expect_optimized(of(-infinity, infinity), "add power power");
  expect_optimized(of(0, infinity), "add power power");
  expect_optimized(of(-6, 6), "add power");
}

TEST(Optimize, NormalizationOfImagesBecomesOneStep) {
  const auto constant = [](GraphBuilder& b, const std::vector<float>& values) {
    return add_constant(b.graph, String(), QN_F32, {values.size()}, values.data());
  };
  const std::vector<float> mean = {0.485f, 0.456f, 0.406f}, deviation = {0.229f, 0.224f, 0.225f};
  for (const OpKind first : {OpKind::mul, OpKind::div, OpKind::count}) {
    GraphBuilder b;
    int x = b.input("x", {1, 4, 4, 3});
    if (first != OpKind::count) x = b.node(first, {x, constant(b, {first == OpKind::mul ? 1 / 255.f : 255.f})});
    x = b.node(OpKind::div, {b.node(OpKind::sub, {x, constant(b, mean)}), constant(b, deviation)});
    b.output(x, "y");
    expect_optimized(b.done(), "scale");
  }
}

}  // namespace pass_merge_affine_test
}  // namespace quern::test

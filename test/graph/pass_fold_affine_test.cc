// Pass fold-affine.
#include "optimized.h"

namespace quern::test {
namespace pass_fold_affine_test {

TEST(Optimize, FoldsBatchNormalizationIntoConvolution) {
  GraphBuilder b;
  const int x = b.input("x", {1, 5, 5, 3});
  const int c = b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 3}), b.constant({8})}, window(1, 1, 1));
  const int n = b.node(OpKind::scale, {c, b.constant({8}, 0.5, 2), b.constant({8})});  // batch norm
  const int s = b.node(OpKind::scale, {n, b.constant({8}, 0.5, 2), b.constant({8})});  // scale
  b.output(b.node(OpKind::clamp, {s}, range(0, infinity)), "y");
  const Graph graph = expect_optimized(b.done(), "conv2d");
  EXPECT_EQ(graph.nodes[0].attributes.min, 0);
}

TEST(Optimize, FoldsIntoDepthwiseAndFullyConnected) {
  GraphBuilder b;
  Attributes depthwise = window(1, 1, 1);
  depthwise.groups = 4;
  const int x = b.input("x", {2, 3, 3, 4});
  const int c = b.node(OpKind::conv2d, {x, b.constant({4, 3, 3, 1})}, depthwise);
  const int m = b.node(OpKind::mul, {b.constant({1, 1, 1, 4}), c});
  const int a = b.node(OpKind::add, {m, b.constant({4})});
  const int f = b.node(OpKind::fully_connected, {a, b.constant({5, 4})});
  const int p = b.node(OpKind::power, {f}, power(-2, 3, 1));
  const int d = b.node(OpKind::div, {p, b.constant({1}, 2, 3)}, range(-1, 1));
  b.output(d, "y");
  expect_optimized(b.done(), "conv2d fully_connected");
}

TEST(Optimize, FoldsSubtractionsInBothOrders) {
  GraphBuilder b;
  const int x = b.input("x", {2, 4});
  const int f = b.node(OpKind::fully_connected, {x, b.constant({3, 4}), b.constant({3})});
  const int s = b.node(OpKind::sub, {f, b.constant({3})});
  b.output(b.node(OpKind::sub, {b.constant({3}), s}), "y");
  expect_optimized(b.done(), "fully_connected");
}

TEST(Optimize, DoesNotFoldWhatTheGraphStillNeeds) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 3, 2});
  const int c = b.output(b.node(OpKind::conv2d, {x, b.constant({2, 1, 1, 2})}), "before");
  b.output(b.node(OpKind::clamp, {c}, range(0, 1)), "after");
  const int d = b.node(OpKind::conv2d, {x, b.constant({2, 1, 1, 2})});
  b.output(b.node(OpKind::add, {b.node(OpKind::clamp, {d}, range(0, 1)), d}), "sum");
  expect_optimized(b.done(), "conv2d clamp conv2d clamp add");
}

TEST(Optimize, DoesNotFoldAScaleBehindAClamp) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 3, 2});
  const int c = b.node(OpKind::conv2d, {x, b.constant({2, 1, 1, 2})});
  const int r = b.node(OpKind::clamp, {c}, range(0, infinity));
  b.output(b.node(OpKind::scale, {r, b.constant({2}), b.constant({2})}), "y");
  expect_optimized(b.done(), "conv2d scale");
}

TEST(Optimize, DoesNotFoldWhatBroadcastsUp) {
  GraphBuilder b;
  const int x = b.input("x", {1, 1, 1, 2});
  const int c = b.node(OpKind::conv2d, {x, b.constant({1, 1, 1, 2})});
  b.output(b.node(OpKind::add, {c, b.constant({3})}), "y");
  expect_optimized(b.done(), "conv2d add");
}

// Its numbers are no floats.
TEST(Optimize, DoesNotFoldIntoABiasOfIntegers) {
  GraphBuilder b;
  const int x = b.input("x", {2, 4});
  const int bias = add_constant(b.graph, "bias", QN_S32, {3}, std::vector<int32_t>{1 << 20, 3, 5}.data());
  b.graph.tensors[at(bias)].quantization = {{0.5f}, {}, -1};
  const int f = b.node(OpKind::fully_connected, {x, b.constant({3, 4}), bias});
  b.output(b.node(OpKind::mul, {f, b.constant({3})}), "y");
  Graph graph = b.done();
  expect_ok(optimize(graph));
  EXPECT_EQ(kinds(graph), "fully_connected mul");
}

}  // namespace pass_fold_affine_test
}  // namespace quern::test

// Pass fold-pads.
#include "optimized.h"

namespace quern::test {
namespace pass_fold_pads_test {

TEST(Optimize, FoldsPads) {
  const auto padded = [](float value, OpKind kind, Attributes attributes, bool relu = false) {
    GraphBuilder b;
    int x = b.input("x", {1, 6, 6, 2});
    if (relu) x = b.node(OpKind::clamp, {x}, range(0, infinity));
    Attributes widths = values({0, 1, 0, 0, 0, 2, 1, 0});
    widths.alpha = value;
    Vector<int> inputs = {b.node(OpKind::pad, {x}, widths)};
    if (kind == OpKind::conv2d) inputs.push_back(b.constant({3, 3, 3, 2}));
    b.output(b.node(kind, inputs, attributes), "y");
    return b.done();
  };
  const Graph conv = expect_optimized(padded(0, OpKind::conv2d, window(1, 2, 1)), "conv2d");
  EXPECT_EQ(conv.nodes[0].attributes.padding.top, 2u);
  EXPECT_EQ(conv.nodes[0].attributes.padding.left, 1u);
  EXPECT_EQ(conv.nodes[0].attributes.padding.bottom, 3u);
  EXPECT_EQ(conv.nodes[0].attributes.padding.right, 2u);
  expect_optimized(padded(1, OpKind::conv2d, window(1, 2, 1)), "pad conv2d");

  expect_optimized(padded(-INFINITY, OpKind::max_pool, window(3, 2, 0)), "max_pool");
  expect_optimized(padded(0, OpKind::max_pool, window(3, 2, 0)), "pad max_pool");
  expect_optimized(padded(0, OpKind::max_pool, window(3, 2, 0), true), "clamp max_pool");
  expect_optimized(padded(0, OpKind::max_pool, window(2, 1, 0), true), "clamp pad max_pool");  // too wide

  const Graph average = expect_optimized(padded(0, OpKind::average_pool, window(3, 1, 0)), "average_pool");
  EXPECT_TRUE(average.nodes[0].attributes.count_padding);
  Attributes own = window(5, 1, 1);
  expect_optimized(padded(0, OpKind::average_pool, own), "pad average_pool");
  own.count_padding = true;
  expect_optimized(padded(0, OpKind::average_pool, own), "average_pool");
  own.ceil_mode = true;
  expect_optimized(padded(0, OpKind::average_pool, own), "pad average_pool");
}

// Layers that quantize their input take no padding.
TEST(Optimize, KeepsPadsOfLayersThatQuantizeTheirInput) {
  GraphBuilder b;
  const int weights = add_constant(b.graph, "weights", QN_S8, {3, 1, 1, 2}, std::vector<signed char>(6, 5).data());
  b.graph.tensors[at(weights)].quantization = {{0.5f}, {}, -1};
  const int pad = b.node(OpKind::pad, {b.input("x", {1, 6, 6, 2})}, values({0, 1, 1, 0, 0, 1, 1, 0}));
  Attributes a = window(1, 1, 0);
  a.quantize_input = true;
  b.output(b.node(OpKind::conv2d, {pad, weights}, a), "y");
  Graph graph = b.done();
  expect_ok(optimize(graph));
  EXPECT_EQ(kinds(graph), "pad conv2d");
}

}  // namespace pass_fold_pads_test
}  // namespace quern::test

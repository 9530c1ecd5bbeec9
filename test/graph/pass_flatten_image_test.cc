// Pass flatten-image.
#include "optimized.h"

namespace quern::test {
namespace pass_flatten_image_test {

TEST(Optimize, FullyConnectedReadsTheImage) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4, 5});
  const int nchw = b.node(OpKind::transpose, {x}, values({0, 3, 1, 2}));
  const int flat = b.node(OpKind::reshape, {nchw}, values({0, -1}));
  const int f = b.node(OpKind::fully_connected, {flat, b.constant({7, 60}), b.constant({7})});
  b.output(b.node(OpKind::clamp, {f}, range(0, 2)), "y");
  const Graph graph = expect_optimized(b.done(), "conv2d reshape");
  EXPECT_EQ(graph.nodes[0].attributes.max, 2);
  // Another height and width with as many pixels is refused as before... by the reshape to 7 numbers per image.
  Graph other = graph;
  other.tensors[static_cast<size_t>(other.inputs[0].tensor)].shape = {2, 4, 3, 5};
  EXPECT_EQ(infer_shapes(other), QN_BAD_MODEL);
  other.tensors[static_cast<size_t>(other.inputs[0].tensor)].shape = {9, 3, 4, 5};
  EXPECT_EQ(infer_shapes(other), QN_OK);
}

// The reshape of no elements to rows of 7 says nothing of the image's size.
TEST(Optimize, FullyConnectedOfOtherRowsStays) {
  GraphBuilder b;
  const int nchw = b.node(OpKind::transpose, {b.input("x", {0, 4, 4, 3})}, values({0, 3, 1, 2}));
  const int flat = b.node(OpKind::reshape, {nchw}, values({0, 7}));
  b.output(b.node(OpKind::fully_connected, {flat, b.constant({5, 7})}), "y");
  expect_optimized(b.done(), "transpose reshape fully_connected");
}

}  // namespace pass_flatten_image_test
}  // namespace quern::test

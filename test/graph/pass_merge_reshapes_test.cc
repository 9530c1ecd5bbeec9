// Pass merge-reshapes.
#include "optimized.h"

namespace quern::test {
namespace pass_merge_reshapes_test {

TEST(Optimize, MergesReshapes) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4});
  b.output(b.node(OpKind::reshape, {b.node(OpKind::reshape, {x}, values({0, -1, 2}))}, values({0, 0, 1, 2})), "y");
  b.output(b.node(OpKind::reshape, {b.node(OpKind::reshape, {x}, values({-1, 4}))}, values({0, 2, 2})), "z");
  b.output(b.node(OpKind::reshape, {b.node(OpKind::reshape, {x}, values({-1, 4}))}, values({0, 2, -1})), "kept");
  const Graph graph = expect_optimized(b.done(), "reshape reshape reshape reshape");
  EXPECT_EQ(graph.nodes.back().attributes.values, (Vector<int64_t>{0, 2, -1}));
}

TEST(Optimize, KeepsReshapesOfWhichOneCopiesAnInferredSizeTwice) {
  GraphBuilder b;
  const int rows = b.node(OpKind::reshape, {b.input("x", {4, 4, 1})}, values({-1, 4}));
  b.output(b.node(OpKind::reshape, {rows}, values({0, copy_dimension(0, 1)})), "y");
  expect_optimized(b.done(), "reshape reshape");
}

}  // namespace pass_merge_reshapes_test
}  // namespace quern::test

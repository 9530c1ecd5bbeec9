// Pass fold-constants.
#include "optimized.h"

namespace quern::test {
namespace pass_fold_constants_test {

TEST(Optimize, FoldsConstants) {
  GraphBuilder b;
  const int x = b.input("x", {2, 6});
  const int c = b.node(OpKind::exp, {b.constant({3, 2})});
  const int t = b.node(OpKind::transpose, {c}, values({1, 0}));
  const int s = b.node(OpKind::reshape, {t}, values({6}));
  b.output(b.node(OpKind::prelu, {x, b.constant({6})}), "y");
  b.output(b.node(OpKind::div, {s, x}), "z");
  b.output(b.node(OpKind::sigmoid, {s}), "constant");
  const Graph graph = expect_optimized(b.done(), "prelu div");
  EXPECT_GE(graph.tensors[static_cast<size_t>(tensor_named(graph, "constant"))].constant, 0);
}

TEST(Optimize, DoesNotFoldWhatGrows) {
  GraphBuilder b;
  b.output(b.node(OpKind::pad, {b.constant({1, 1})}, values({0, 0, 999, 999})), "y");
  expect_optimized(b.done(), "pad");
}

}  // namespace pass_fold_constants_test
}  // namespace quern::test

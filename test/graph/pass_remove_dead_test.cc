// Pass remove-dead.
#include "optimized.h"

namespace quern::test {
namespace pass_remove_dead_test {

TEST(Optimize, RemovesDeadCode) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2});
  b.node(OpKind::sigmoid, {b.node(OpKind::conv2d, {x, b.constant({3, 1, 1, 2})})});
  b.output(b.node(OpKind::tanh, {x}), "y");
  const Graph graph = expect_optimized(b.done(), "tanh");
  EXPECT_TRUE(graph.constants.empty());
  EXPECT_EQ(graph.tensors.size(), 2u);
}

}  // namespace pass_remove_dead_test
}  // namespace quern::test

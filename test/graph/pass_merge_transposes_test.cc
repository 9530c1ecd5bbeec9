// Pass merge-transposes.
#include "optimized.h"

namespace quern::test {
namespace pass_merge_transposes_test {

TEST(Optimize, CancelsAndMergesTransposes) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4, 5});
  const int nchw = b.node(OpKind::transpose, {x}, values({0, 3, 1, 2}));
  const int back = b.node(OpKind::transpose, {nchw}, values({0, 2, 3, 1}));
  b.output(b.node(OpKind::sigmoid, {back}), "y");
  b.output(b.node(OpKind::transpose, {nchw}, values({3, 2, 1, 0})), "z");
  const Graph graph = expect_optimized(b.done(), "sigmoid transpose");
  EXPECT_EQ(graph.nodes[1].attributes.values, (Vector<int64_t>{2, 1, 3, 0}));
}

}  // namespace pass_merge_transposes_test
}  // namespace quern::test

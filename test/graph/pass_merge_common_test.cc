// Pass merge-common.
#include "optimized.h"

namespace quern::test {
namespace pass_merge_common_test {

TEST(Optimize, MergesCommonSubexpressions) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2});
  const std::vector<float> w = {1, 2, 3, 4};
  const auto branch = [&] {
    return b.node(OpKind::sigmoid, {b.node(OpKind::conv2d, {x, b.constant_of({2, 1, 1, 2}, w)})});
  };
  const int y = b.output(branch(), "y");
  b.output(b.node(OpKind::mul, {y, branch()}), "z");
  b.output(b.node(OpKind::conv2d, {x, b.constant_of({2, 1, 1, 2}, w)}, window(1, 2, 0)), "other stride");
  const Graph graph = expect_optimized(b.done(), "conv2d sigmoid mul conv2d");
  EXPECT_EQ(graph.constants.size(), 1u);
}

}  // namespace pass_merge_common_test
}  // namespace quern::test

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

// Two layers with equal weights: a file has them once.
TEST(Optimize, EqualWeightsAreStoredOnce) {
  GraphBuilder b;
  const std::vector<float> w(64 * 64, 0.5f);
  const int x = b.node(OpKind::fully_connected, {b.input("x", {1, 64}), b.constant_of({64, 64}, w)});
  b.output(b.node(OpKind::fully_connected, {x, b.constant_of({64, 64}, w)}), "y");
  Graph graph = b.done();
  const auto file_bytes = [&] {
    Vector<unsigned char> bytes;
    expect_ok(write_model(graph, &bytes));
    return bytes.size();
  };
  const size_t before = file_bytes();
  expect_ok(optimize(graph));
  EXPECT_LE(file_bytes() + w.size() * sizeof(float), before);
}

}  // namespace pass_merge_common_test
}  // namespace quern::test

// Pass recognize-hard-swish.
#include "optimized.h"

namespace quern::test {
namespace pass_recognize_hard_swish_test {

// x * clamp(x + shift, 0, 6) and what follows it.
GraphBuilder swish(float shift, float scale_before, float scale_after, bool mul_first = false) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2});
  int gate = b.node(OpKind::clamp, {b.node(OpKind::power, {x}, power(1, shift, 1))}, range(0, 6));
  if (scale_before != 1) gate = b.node(OpKind::power, {gate}, power(scale_before, 0, 1));
  int y = b.node(OpKind::mul, mul_first ? Vector<int>{gate, x} : Vector<int>{x, gate});
  if (scale_after != 1) y = b.node(OpKind::mul, {y, b.constant_of({1}, {scale_after})});
  b.output(y, "y");
  return b;
}

TEST(Optimize, RecognizesHardSwish) {
  expect_optimized(swish(3, 1, 1 / 6.0f).done(), "hard_swish");
  expect_optimized(swish(3, 1 / 6.0f, 1).done(), "hard_swish");
  expect_optimized(swish(3, 1 / 6.0f, 1, true).done(), "hard_swish");
  expect_optimized(swish(3, 0.5f, 1 / 3.0f).done(), "hard_swish");
}

TEST(Optimize, RecognizesNoOtherSwishAsHard) {
  expect_optimized(swish(2.9f, 1, 1 / 6.0f).done(), "power clamp mul mul");
  expect_optimized(swish(3, 1, 1).done(), "power clamp mul");
  expect_optimized(swish(3, 1 / 6.0f, 2).done(), "hard_swish mul");
}

// The gate belongs to another tensor, or somebody else reads it, too.
TEST(Optimize, RecognizesHardSwishOnlyWhereItIsAll) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2}), z = b.input("z", {1, 4, 4, 2});
  const int gate = b.node(OpKind::clamp, {b.node(OpKind::power, {z}, power(1 / 6.0f, 0.5f, 1))}, range(0, 1));
  b.output(b.node(OpKind::mul, {x, gate}), "y");
  expect_optimized(b.done(), "power clamp mul");
  GraphBuilder c;
  const int w = c.input("w", {1, 4, 4, 2});
  const int read = c.node(OpKind::clamp, {c.node(OpKind::power, {w}, power(1 / 6.0f, 0.5f, 1))}, range(0, 1));
  c.output(c.node(OpKind::mul, {w, read}), "y");
  c.output(read, "gate");
  expect_optimized(c.done(), "power clamp mul");
}

}  // namespace pass_recognize_hard_swish_test
}  // namespace quern::test

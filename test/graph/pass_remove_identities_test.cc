// Pass remove-identities.
#include "optimized.h"

namespace quern::test {
namespace pass_remove_identities_test {

TEST(Optimize, RemovesIdentities) {
  GraphBuilder b;
  int x = b.input("x", {2, 3, 3, 4});
  x = b.node(OpKind::sigmoid, {x});
  x = b.node(OpKind::clamp, {x});
  x = b.node(OpKind::concat, {x}, axis(1));
  x = b.node(OpKind::pad, {x}, values({0, 0, 0, 0, 0, 0, 0, 0}));
  x = b.node(OpKind::power, {x}, power(1, 0, 1));
  x = b.node(OpKind::resize, {x}, power(1, 1, 0));
  x = b.node(OpKind::slice, {x}, values({0, 0, 0, 0, -1, -1, -1, -1}));
  x = b.node(OpKind::transpose, {x}, values({0, 1, 2, 3}));
  x = b.node(OpKind::reshape, {x}, values({0, -1, 0, 0}));
  b.output(x, "y");
  expect_optimized(b.done(), "sigmoid");
}

// Explicit sizes may be others after a resize.
TEST(Optimize, KeepsWhatIsAnIdentityForOneShapeOnly) {
  GraphBuilder b;
  int x = b.input("x", {2, 3, 3, 4});
  x = b.node(OpKind::slice, {x}, values({0, 0, 0, 0, 2, 3, 3, 4}));
  x = b.node(OpKind::sigmoid, {x});
  b.output(b.node(OpKind::reshape, {x}, values({2, 3, 3, 4})), "y");
  expect_optimized(b.done(), "slice sigmoid reshape");
}

TEST(Optimize, KeepsNamesOfOutputsThroughIdentities) {
  GraphBuilder b;
  const int x = b.input("x", {4});
  const int y = b.output(b.node(OpKind::tanh, {x}), "y");
  b.output(b.node(OpKind::clamp, {y}), "also y");  // two names, so two nodes
  b.output(b.node(OpKind::clamp, {x}), "x again");
  const int s = b.node(OpKind::sigmoid, {x});
  b.output(b.node(OpKind::clamp, {s}), "s");  // one name, one node, read by another
  b.output(b.node(OpKind::exp, {s}), "e");
  expect_optimized(b.done(), "tanh clamp clamp sigmoid exp");
}

}  // namespace pass_remove_identities_test
}  // namespace quern::test

// Pass move-transposes, for kinds of the library; test/convert/recognize_test.cc has registered ones.
#include "optimized.h"

namespace quern::test {
namespace pass_move_transposes_test {

const Vector<int64_t> to_nchw = {0, 3, 1, 2}, to_nhwc = {0, 2, 3, 1};

Attributes with_values(Vector<int64_t> values) {
  Attributes a;
  a.values = std::move(values);
  return a;
}
Attributes with_axis(int axis) {
  Attributes a;
  a.axis = axis;
  return a;
}

// x [1,4,5,3] with its dimensions in the order N, C, H, W.
int moved(GraphBuilder& b, const char* name = "x") {
  return b.node(OpKind::transpose, {b.input(name, {1, 4, 5, 3})}, with_values(to_nchw));
}
Graph back(GraphBuilder& b, int x) {
  b.output(b.node(OpKind::transpose, {x}, with_values(to_nhwc)), "y");
  return b.done();
}

TEST(Optimize, MovesTransposesBehindElementwiseNodes) {
  GraphBuilder b;
  expect_optimized(back(b, b.node(OpKind::exp, {b.node(OpKind::tanh, {moved(b)})})), "tanh exp");
  GraphBuilder c;
  const int x = moved(c), z = moved(c, "z");
  expect_optimized(back(c, c.node(OpKind::mul, {x, c.node(OpKind::tanh, {z})})), "tanh mul");
  GraphBuilder d;  // one number, and one for each channel or column
  int y = d.node(OpKind::tanh, {d.node(OpKind::add, {moved(d), d.constant_of({}, {2})})});
  y = d.node(OpKind::tanh, {d.node(OpKind::mul, {y, d.constant({3, 1, 1})})});
  expect_optimized(back(d, d.node(OpKind::sub, {d.constant({5}), y})), "add tanh mul tanh sub");
}

TEST(Optimize, MovesTransposesBehindNodesOfDimensions) {
  GraphBuilder b;
  const int x = moved(b), z = moved(b, "z");
  expect_optimized(back(b, b.node(OpKind::concat, {x, z}, with_axis(1))), "concat");
  GraphBuilder c;
  expect_optimized(back(c, c.node(OpKind::pad, {moved(c)}, with_values({0, 1, 2, 0, 0, 0, 3, 4}))), "pad");
  GraphBuilder d;
  expect_optimized(back(d, d.node(OpKind::slice, {moved(d)}, with_values({0, 1, 2, 0, -1, 3, -1, 4}))), "slice");
}

// There is one transpose more in between, not one for each reader.
TEST(Optimize, MovesTransposesThatOthersRead) {
  GraphBuilder b;
  const int x = moved(b), y = b.node(OpKind::exp, {x});
  b.output(x, "x'");
  expect_optimized(back(b, y), "transpose exp");
  GraphBuilder c;
  const int z = moved(c);
  c.output(z, "z'");
  c.output(c.node(OpKind::exp, {z}), "y");
  expect_optimized(c.done(), "transpose exp");
}

TEST(Optimize, LeavesTransposesBeforeOthers) {
  GraphBuilder b;  // of another order, or of none
  const int x = moved(b), z = b.node(OpKind::transpose, {b.input("z", {1, 5, 4, 3})}, with_values({0, 3, 2, 1}));
  expect_optimized(back(b, b.node(OpKind::add, {x, z})), "transpose transpose add transpose");
  GraphBuilder c;
  const int u = moved(c), v = c.input("v", {1, 3, 4, 5});
  expect_optimized(back(c, c.node(OpKind::add, {u, v})), "transpose add transpose");
  GraphBuilder d;  // parameters of the last dimension, and a constant of several
  expect_optimized(back(d, d.node(OpKind::prelu, {moved(d), d.constant({5})})), "transpose prelu transpose");
  GraphBuilder e;
  expect_optimized(back(e, e.node(OpKind::add, {moved(e), e.constant({4, 5})})), "transpose add transpose");
}

}  // namespace pass_move_transposes_test
}  // namespace quern::test

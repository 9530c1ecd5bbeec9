// Pass fuse-clamps.
#include "optimized.h"

namespace quern::test {
namespace pass_fuse_clamps_test {

TEST(Optimize, FusesClamps) {
  for (const OpKind kind :
       {OpKind::conv2d, OpKind::fully_connected, OpKind::max_pool, OpKind::average_pool, OpKind::global_max_pool,
        OpKind::global_average_pool, OpKind::add, OpKind::sub, OpKind::mul, OpKind::div, OpKind::scale}) {
    SCOPED_TRACE(op_name(kind));
    GraphBuilder b;
    const int x = b.input("x", {1, 4, 4, 2});
    Vector<int> inputs = {x};
    if (kind == OpKind::conv2d) inputs.push_back(b.constant({2, 1, 1, 2}));
    if (kind == OpKind::fully_connected) inputs.push_back(b.constant({2, 2}));
    if (kind == OpKind::scale) inputs.push_back(b.constant({2}));
    if (kind >= OpKind::add && kind <= OpKind::div) inputs.push_back(b.input("z", {4, 1}));
    const int y = b.node(kind, inputs, range(-0.5, infinity));
    b.output(b.node(OpKind::clamp, {y}, range(-1, 0.5)), "y");
    const Graph graph = expect_optimized(b.done(), op_name(kind));
    EXPECT_EQ(graph.nodes[0].attributes.min, -0.5f);
    EXPECT_EQ(graph.nodes[0].attributes.max, 0.5f);
  }
}

}  // namespace pass_fuse_clamps_test
}  // namespace quern::test

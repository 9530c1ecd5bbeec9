// The descriptors of kinds hold for what nodes of these kinds do; nodes with several outputs pass through the passes.
#include "graph/ir/kinds.h"

#include <set>

#include "graph/backend/backend.h"
#include "graph/pass/rewrite.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace kinds_test {

// A node in a graph whose shapes are inferred.
struct Made {
  explicit Made(Graph made) : graph(std::move(made)) {}
  explicit Made(OpKind kind) : graph(graph_of_kind(kind)) {
    while (graph.nodes[at].kind != kind) ++at;
  }
  Made(OpKind kind, const Shape& x, const Attributes& attributes) {
    GraphBuilder b;
    b.output(b.node(kind, {b.input("x", x)}, attributes), "y");
    graph = b.done();
  }

  const Node& node() const { return graph.nodes[at]; }
  Node& node() { return graph.nodes[at]; }
  const Tensor& in() const { return graph.tensors[static_cast<size_t>(node().inputs[0])]; }
  const Tensor& out() const { return graph.tensors[static_cast<size_t>(node().outputs[0])]; }
  Graph graph;
  size_t at = 0;  // the node's index
};

// Calls test(kind, a node of it) for every kind.
template <class Test>
void each_kind(Test&& test) {
  for (size_t i = 0; i < static_cast<size_t>(OpKind::count); ++i) {
    const auto kind = static_cast<OpKind>(i);
    SCOPED_TRACE(op_name(kind));
    Made made(kind);
    test(kind_of(kind), made);
  }
}

TEST(Kinds, HaveNames) {
  std::set<std::string> names;
  each_kind([&](const Kind& kind, const Made&) {
    EXPECT_TRUE(names.insert(kind.name).second);
    EXPECT_TRUE(kind.built);
  });
  for (const OpKind none : {OpKind::count, static_cast<OpKind>(60000)}) {
    EXPECT_STREQ(op_name(none), "?");
    EXPECT_FALSE(kind_of(none).built);
  }
}

TEST(Kinds, KeepWhatTheySay) {
  each_kind([](const Kind& kind, const Made& made) {
    const bool shape = kind.has(Kind::keeps_shape), channels = kind.has(Kind::keeps_channels);
    EXPECT_TRUE(!shape || made.in().shape == made.out().shape);
    EXPECT_TRUE(!channels || made.in().shape.back() == made.out().shape.back());
    EXPECT_TRUE(!shape || channels);
    // What is neither broadcasts, and converters ask for its second input.
    EXPECT_TRUE(!kind.has(Kind::elementwise) || shape || kind.min_inputs == 2);
    const bool bytes = kind.types == TypeRule::made_quantized || kind.types == TypeRule::made_other;
    EXPECT_EQ(made.out().type, bytes ? QN_S8 : QN_F32);
  });
}

// An empty range is an error where the kind clamps, and means nothing elsewhere.
TEST(Kinds, ClampWhereTheySaySo) {
  each_kind([](const Kind& kind, Made& made) {
    made.node().attributes.min = 1, made.node().attributes.max = 0;
    EXPECT_EQ(check_graph(made.graph), kind.has(Kind::clamps) ? QN_BAD_MODEL : QN_OK);
  });
}

TEST(Kinds, TakeParametersWhereTheySaySo) {
  each_kind([](const Kind& kind, Made& made) {
    Node& node = made.node();
    EXPECT_EQ(data_inputs(node), kind.has(Kind::parameters) ? 1 : node.inputs.size());
    EXPECT_FALSE(kind.has(Kind::parameters) && node.inputs.size() == 1);
    if (node.inputs.size() == 1) return;
    node.inputs[1] = made.graph.inputs[0].tensor;
    EXPECT_EQ(check_graph(made.graph), kind.has(Kind::parameters) ? QN_BAD_MODEL : QN_OK);
  });
}

TEST(Kinds, TakeAsManyOutputsAsTheySay) {
  each_kind([](const Kind& kind, Made& made) {
    Node& node = made.node();
    while (node.outputs.size() <= kind.max_outputs) node.outputs.push_back(add_tensor(made.graph, "", QN_F32, {}));
    EXPECT_EQ(check_graph(made.graph), QN_BAD_MODEL);
    EXPECT_NE(std::string(qn_last_message()).find("outputs instead of"), std::string::npos) << qn_last_message();
    node.outputs.clear();
    EXPECT_EQ(check_graph(made.graph), QN_BAD_MODEL);
  });
}

TEST(Kinds, TermsAreThoseOfOneElement) {
  const auto terms = [](OpKind kind) {
    const Made made(kind);
    return terms_of(made.graph, made.node());
  };
  EXPECT_EQ(terms(OpKind::conv2d), 18u);
  EXPECT_EQ(terms(OpKind::fully_connected), 4u);
  EXPECT_EQ(terms(OpKind::max_pool), 9u);
  EXPECT_EQ(terms(OpKind::average_pool), 9u);
  EXPECT_EQ(terms(OpKind::global_max_pool), 30u);
  EXPECT_EQ(terms(OpKind::lrn), 3u);
  EXPECT_EQ(terms(OpKind::exp), 0u);
}

// What the descriptor says of a kind is what the CPU's operator says of a node.
TEST(Kinds, OperatorsOfTheCpuAgree) {
  each_kind([](const Kind& kind, const Made& made) {
    EXPECT_EQ(cpu_backend.claims(made.graph, made.node()), !kind.has(Kind::view));
    if (kind.has(Kind::view)) return;
    std::unique_ptr<NodeOperator> op;
    expect_ok(cpu_backend.create(made.graph, made.node(), nullptr, &op));
    EXPECT_EQ(op->layouts(), kind.layouts);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(op->in_place(i), kind.has(Kind::elementwise) && i < data_inputs(made.node())) << i;
    }
  });
}

TEST(Kinds, DepthwiseConvolutionsKeepTheLayout) {
  const auto conv = [](size_t groups, const Shape& weights) {
    GraphBuilder b;
    Attributes attributes;
    attributes.groups = groups;
    b.output(b.node(OpKind::conv2d, {b.input("x", {1, 5, 5, 4}), b.constant(weights)}, attributes), "y");
    return Made(b.done());
  };
  const Made depthwise = conv(4, {4, 3, 3, 1}), twice = conv(4, {8, 3, 3, 1}), grouped = conv(2, {4, 3, 3, 2}),
             plain = conv(1, {4, 3, 3, 4});
  for (const Made* made : {&depthwise, &twice}) EXPECT_EQ(layouts_of(made->graph, made->node()), Layouts::same);
  for (const Made* made : {&grouped, &plain}) EXPECT_EQ(layouts_of(made->graph, made->node()), Layouts::any);
}

TEST(Kinds, ViewsByShape) {
  const auto view = [](OpKind kind, const Shape& x, const Attributes& attributes) {
    const Made made(kind, x, attributes);
    return is_view(made.graph, made.node());
  };
  EXPECT_TRUE(view(OpKind::reshape, {2, 3}, values({6})));
  EXPECT_TRUE(view(OpKind::transpose, {1, 1, 1, 5}, values({0, 3, 1, 2})));
  EXPECT_FALSE(view(OpKind::transpose, {1, 2, 1, 5}, values({0, 3, 1, 2})));
  EXPECT_FALSE(view(OpKind::transpose, {3, 3}, values({1, 0})));
  EXPECT_TRUE(view(OpKind::slice, {2, 3}, values({0, 0, 2, 3})));
  EXPECT_FALSE(view(OpKind::slice, {2, 3}, values({0, 0, 2, 2})));
  EXPECT_TRUE(view(OpKind::pad, {2}, values({0, 0})));
  EXPECT_FALSE(view(OpKind::pad, {2}, values({0, 1})));
  EXPECT_TRUE(view(OpKind::concat, {2}, axis(0)));
  EXPECT_FALSE(view(OpKind::clamp, {2}, {}));
  each_kind(
      [](const Kind& kind, const Made& made) { EXPECT_EQ(is_view(made.graph, made.node()), kind.has(Kind::view)); });
}

// ---- several outputs. No kind has them yet, so these graphs are for passes that do not ask the kinds.

// x -> two nodes that are equal, with two outputs each -> add, add -> y
Graph two_outputs() {
  GraphBuilder b;
  const int x = b.input("x", {4});
  const int first = add_node(b.graph, OpKind::slice, "a", {x}, {}, 2);
  const int second = add_node(b.graph, OpKind::slice, "b", {x}, {}, 2);
  for (const int made : {first, first + 1, second, second + 1}) b.graph.tensors[static_cast<size_t>(made)].shape = {2};
  const int left = b.node(OpKind::add, {first, second + 1});
  b.output(b.node(OpKind::add, {left, second}), "y");
  return std::move(b.graph);
}

template <class Pass>
void apply(Graph& graph, Pass&& pass) {
  Rewriter rewriter(graph);
  pass(rewriter);
  rewriter.finish();
}

TEST(SeveralOutputs, EachNamesItsNode) {
  Graph graph = two_outputs();
  ASSERT_EQ(graph.nodes[0].outputs.size(), 2u);
  Rewriter r(graph);
  for (const Node& node : graph.nodes) {
    for (const int output : node.outputs) EXPECT_EQ(r.writer(output), &node);
  }
}

TEST(SeveralOutputs, EqualNodesBecomeOne) {
  Graph graph = two_outputs();
  apply(graph, merge_common);
  ASSERT_EQ(graph.nodes.size(), 3u);
  const Vector<int> outputs = graph.nodes[0].outputs;
  EXPECT_EQ(graph.nodes[1].inputs, (Vector<int>{outputs[0], outputs[1]}));
  EXPECT_EQ(graph.nodes[2].inputs[1], outputs[0]);
  EXPECT_STREQ(graph.nodes[0].name.c_str(), "a");
}

TEST(SeveralOutputs, NodesWithNamedOutputsStay) {
  Graph graph = two_outputs();
  graph.outputs.push_back({.tensor = graph.nodes[1].outputs[1]});
  apply(graph, merge_common);
  EXPECT_EQ(graph.nodes.size(), 4u);
}

TEST(SeveralOutputs, NodesLiveAsLongAsOneIsRead) {
  Graph graph = two_outputs();
  graph.nodes[2].inputs[1] = graph.nodes[0].outputs[0];  // of the second node, the first output is read
  apply(graph, remove_dead);
  EXPECT_EQ(graph.nodes.size(), 4u);
  graph.nodes[3].inputs[1] = graph.nodes[2].outputs[0];  // none is
  apply(graph, remove_dead);
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_STREQ(graph.nodes[0].name.c_str(), "a");
}

TEST(SeveralOutputs, OneGoesToTheReader) {
  Graph graph = two_outputs();
  graph.nodes[3].inputs = {graph.nodes[2].outputs[0]};
  graph.nodes[2].inputs = {graph.nodes[0].outputs[1]};
  const int taken = graph.nodes[2].outputs[0], other = graph.nodes[0].outputs[0];
  apply(graph, [&](Rewriter& r) {
    r.take_output(r.node(0), r.node(2).inputs[0], r.node(2));
    EXPECT_EQ(r.writer(taken), &r.node(0));
  });
  EXPECT_EQ(graph.nodes[0].outputs, (Vector<int>{other, taken}));
}

TEST(SeveralOutputs, CompactingKeepsThem) {
  Graph graph = two_outputs();
  add_tensor(graph, "", QN_F32, {});
  std::swap(graph.tensors.front(), graph.tensors.back());
  for (Node& node : graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), 0, 7);
  graph.inputs[0].tensor = 7;
  compact(graph);
  ASSERT_EQ(graph.tensors.size(), 7u);
  EXPECT_EQ(graph.nodes[0].outputs, (Vector<int>{0, 1}));
  EXPECT_EQ(graph.nodes[1].outputs, (Vector<int>{2, 3}));
  EXPECT_EQ(graph.nodes[0].inputs, Vector<int>{6});
}

}  // namespace kinds_test
}  // namespace quern::test

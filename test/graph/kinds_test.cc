// The descriptors of kinds hold for what nodes of these kinds do; nodes with several outputs pass through the passes.
#include "graph/ir/kinds.h"

#include <set>

#include "graph/backend/backend.h"
#include "graph/pass/rewrite.h"
#include "small_graphs.h"

namespace quern::test {
namespace {

constexpr size_t all_kinds = static_cast<size_t>(OpKind::count);

// One node of each kind, in the order of op.inc: the shapes of its data, then those of its constants.
struct Sample {
  OpKind kind;
  Vector<Shape> data, constants = {};
  Attributes attributes = {};
};

Attributes lrn() {
  Attributes a = power(1, 0.75f, 1);
  a.size = 3;
  return a;
}

Vector<Sample> samples() {
  const Shape image = {1, 6, 4, 5};
  Vector<Sample> all = {
      {OpKind::conv2d, {image}, {{8, 3, 3, 5}, {8}}},
      {OpKind::fully_connected, {{3, 5}}, {{8, 5}}},
      {OpKind::max_pool, {image}, {}, window(2, 2, 0)},
      {OpKind::average_pool, {image}, {}, window(3, 1, 1)},
      {OpKind::global_max_pool, {image}},
      {OpKind::global_average_pool, {image}},
  };
  for (const OpKind kind : {OpKind::add, OpKind::sub, OpKind::mul, OpKind::div}) {
    all.push_back({kind, {image, {6, 1, 5}}});
  }
  for (const OpKind kind : {OpKind::clamp, OpKind::sigmoid, OpKind::tanh, OpKind::hard_swish, OpKind::exp}) {
    all.push_back({kind, {image}});
  }
  all.push_back({OpKind::power, {image}, {}, power(2, 1, 1)});
  all.push_back({OpKind::prelu, {image}, {{5}}});
  all.push_back({OpKind::scale, {image}, {{5}, {5}}});
  all.push_back({OpKind::softmax, {image}, {}, axis(3)});
  all.push_back({OpKind::concat, {image, image}, {}, axis(3)});
  all.push_back({OpKind::lrn, {image}, {}, lrn()});
  all.push_back({OpKind::pad, {{2, 3}}, {}, values({0, 1, 1, 0})});
  all.push_back({OpKind::resize, {image}, {}, values({3, 9})});
  all.push_back({OpKind::reshape, {image}, {}, values({-1, 10})});
  all.push_back({OpKind::transpose, {image}, {}, values({0, 3, 1, 2})});
  all.push_back({OpKind::slice, {image}, {}, values({0, 1, 0, 0, 1, 6, 4, 2})});
  return all;
}

// The node of a sample, in a graph whose shapes are inferred.
struct Made {
  explicit Made(const Sample& sample) {
    GraphBuilder b;
    Vector<int> inputs;
    for (const Shape& shape : sample.data) inputs.push_back(b.input("", shape));
    for (const Shape& shape : sample.constants) inputs.push_back(b.constant(shape));
    b.output(b.node(sample.kind, inputs, sample.attributes), "y");
    graph = b.done();
  }
  const Node& node() const { return graph.nodes[0]; }
  const Shape& in() const { return graph.tensors[static_cast<size_t>(node().inputs[0])].shape; }
  const Shape& out() const { return graph.tensors[static_cast<size_t>(node().outputs[0])].shape; }
  Graph graph;
};

TEST(Kinds, EachHasANameAndASample) {
  const Vector<Sample> all = samples();
  ASSERT_EQ(all.size(), all_kinds);
  std::set<std::string> names;
  for (size_t i = 0; i < all_kinds; ++i) {
    EXPECT_EQ(static_cast<size_t>(all[i].kind), i);
    EXPECT_TRUE(names.insert(op_name(all[i].kind)).second);
    EXPECT_TRUE(kind_of(all[i].kind).built);
  }
  for (const OpKind none : {OpKind::count, static_cast<OpKind>(60000)}) {
    EXPECT_STREQ(op_name(none), "?");
    EXPECT_FALSE(kind_of(none).built);
  }
}

TEST(Kinds, KeepWhatTheySay) {
  for (const Sample& sample : samples()) {
    const Made made(sample);
    const Kind& kind = kind_of(sample.kind);
    EXPECT_EQ(kind.has(Kind::keeps_shape), kind.has(Kind::keeps_shape) && made.in() == made.out()) << kind.name;
    EXPECT_EQ(kind.has(Kind::keeps_channels), kind.has(Kind::keeps_channels) && made.in().back() == made.out().back())
        << kind.name;
    EXPECT_FALSE(kind.has(Kind::keeps_shape) && !kind.has(Kind::keeps_channels)) << kind.name;
    // What is neither broadcasts, and converters ask for its second input.
    EXPECT_TRUE(!kind.has(Kind::elementwise) || kind.has(Kind::keeps_shape) || kind.min_inputs == 2) << kind.name;
    EXPECT_EQ(made.graph.tensors[static_cast<size_t>(made.node().outputs[0])].type, QN_F32);
  }
}

// A clamp belongs to the kinds that say so: only there is one that is empty an error.
TEST(Kinds, ClampWhereTheySaySo) {
  for (const Sample& sample : samples()) {
    Made made(sample);
    made.graph.nodes[0].attributes.min = 1, made.graph.nodes[0].attributes.max = 0;
    const Kind& kind = kind_of(sample.kind);
    EXPECT_EQ(check_graph(made.graph), kind.has(Kind::clamps) ? QN_BAD_MODEL : QN_OK) << kind.name;
  }
}

TEST(Kinds, TakeParametersWhereTheySaySo) {
  for (const Sample& sample : samples()) {
    const Made made(sample);
    const Kind& kind = kind_of(sample.kind);
    EXPECT_EQ(kind.has(Kind::parameters), !sample.constants.empty()) << kind.name;
    EXPECT_EQ(data_inputs(made.node()), sample.data.size()) << kind.name;
  }
}

TEST(Kinds, TermsAreThoseOfOneElement) {
  const std::pair<OpKind, uint64_t> expected[] = {
      {OpKind::conv2d, 45},      {OpKind::fully_connected, 5},  {OpKind::max_pool, 4},
      {OpKind::average_pool, 9}, {OpKind::global_max_pool, 24}, {OpKind::global_average_pool, 24},
      {OpKind::lrn, 3},
  };
  for (const Sample& sample : samples()) {
    const auto* found =
        std::find_if(std::begin(expected), std::end(expected), [&](const auto& e) { return e.first == sample.kind; });
    const Made made(sample);
    EXPECT_EQ(terms_of(made.graph, made.node()), found == std::end(expected) ? 0 : found->second)
        << op_name(sample.kind);
  }
}

// What the descriptor says of a kind is what the CPU's operator says of a node.
TEST(Kinds, OperatorsOfTheCpuAgree) {
  for (const Sample& sample : samples()) {
    const Made made(sample);
    const Kind& kind = kind_of(sample.kind);
    EXPECT_EQ(cpu_backend.claims(made.graph, made.node()), !kind.has(Kind::view)) << kind.name;
    if (kind.has(Kind::view)) continue;
    std::unique_ptr<NodeOperator> op;
    expect_ok(cpu_backend.create(made.graph, made.node(), nullptr, &op));
    EXPECT_EQ(op->layouts(), kind.layouts) << kind.name;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(op->in_place(i), kind.has(Kind::elementwise) && i < sample.data.size()) << kind.name << i;
    }
  }
}

TEST(Kinds, DepthwiseConvolutionsKeepTheLayout) {
  const auto conv = [](size_t groups, const Shape& weights) {
    Sample sample = {OpKind::conv2d, {{1, 5, 5, 4}}, {weights}};
    sample.attributes.groups = groups;
    return Made(sample);
  };
  const Made depthwise = conv(4, {4, 3, 3, 1}), twice = conv(4, {8, 3, 3, 1}), grouped = conv(2, {4, 3, 3, 2}),
             plain = conv(1, {4, 3, 3, 4});
  for (const Made* made : {&depthwise, &twice}) EXPECT_EQ(layouts_of(made->graph, made->node()), Layouts::same);
  for (const Made* made : {&grouped, &plain}) EXPECT_EQ(layouts_of(made->graph, made->node()), Layouts::any);
}

TEST(Kinds, ViewsByShape) {
  const auto view = [](OpKind kind, const Shape& x, const Attributes& attributes) {
    const Made made({kind, {x}, {}, attributes});
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
  for (const Sample& sample : samples()) {
    const Made made(sample);
    EXPECT_EQ(is_view(made.graph, made.node()), sample.kind == OpKind::reshape) << op_name(sample.kind);
  }
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
  const Rewriter indexed(graph);
  Rewriter& r = const_cast<Rewriter&>(indexed);
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

}  // namespace
}  // namespace quern::test

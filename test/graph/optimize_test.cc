// Every pass: the kinds of nodes before and after, equal results, the same outputs under the same names.
#include <cmath>
#include <map>

#include "graph/ir/rules.h"
#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace {

std::string kinds(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (!text.empty()) text += ' ';
    text += op_name(node.kind);
  }
  return text;
}

int tensor_named(const Graph& graph, const String& name) {
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].name == name) return static_cast<int>(i);
  }
  return no_tensor;
}

// Results of plain evaluation by name of output.
std::map<String, std::vector<float>> results(const Graph& graph, const std::map<String, std::vector<float>>& inputs) {
  Values values;
  for (const Port& port : graph.inputs) {
    values[port.tensor] = inputs.at(graph.tensors[static_cast<size_t>(port.tensor)].name);
  }
  evaluate_naively(graph, values);
  std::map<String, std::vector<float>> outputs;
  for (const Port& port : graph.outputs) {
    outputs[graph.tensors[static_cast<size_t>(port.tensor)].name] = values.at(port.tensor);
  }
  return outputs;
}

constexpr float tolerance = 2e-6f;

// Optimizes a copy and checks that it computes the same and consists of `after`. Returns it.
Graph expect_optimized(const Graph& before, const std::string& after) {
  Graph graph = before;
  EXPECT_EQ(optimize(graph), QN_OK) << qn_last_message();
  EXPECT_EQ(kinds(graph), after) << "from " << kinds(before);
  std::map<String, std::vector<float>> inputs;
  for (const auto& [tensor, value] : random_inputs(before, 3)) {
    std::vector<float> larger = value;
    for (float& x : larger) x *= 8;  // beyond the clamps of the tests
    inputs[before.tensors[static_cast<size_t>(tensor)].name] = larger;
  }
  const auto expected = results(before, inputs), actual = results(graph, inputs);
  EXPECT_EQ(expected.size(), actual.size());
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end() || found->second.size() != values.size()) {
      ADD_FAILURE() << "output " << name.c_str() << " is missing or of another size";
      continue;
    }
    EXPECT_LE(difference(values, found->second.data()), tolerance) << name.c_str();
  }
  EXPECT_EQ(before.outputs.size(), graph.outputs.size());
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Tensor& a = before.tensors[static_cast<size_t>(before.outputs[i].tensor)];
    const Tensor& b = graph.tensors[static_cast<size_t>(graph.outputs[i].tensor)];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape);
  }
  return graph;
}

// ---- constants, identities, dead code, common subexpressions

TEST(Optimize, FoldsConstants) {
  GraphBuilder b;
  const int x = b.input("x", {2, 6});
  const int c = b.node(OpKind::exp, {b.constant({3, 2})});
  const int t = b.node(OpKind::transpose, {c}, values({1, 0}));
  const int s = b.node(OpKind::reshape, {t}, values({6}));
  b.output(b.node(OpKind::prelu, {x, b.constant({6})}), "y");
  b.output(b.node(OpKind::div, {s, x}), "z");
  b.output(b.node(OpKind::sigmoid, {s}), "constant");
  const Graph graph = expect_optimized(b.done(), "prelu div");
  EXPECT_GE(graph.tensors[static_cast<size_t>(tensor_named(graph, "constant"))].constant, 0);
}

TEST(Optimize, DoesNotFoldWhatGrows) {
  GraphBuilder b;
  b.output(b.node(OpKind::pad, {b.constant({1, 1})}, values({0, 0, 999, 999})), "y");
  expect_optimized(b.done(), "pad");
}

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

TEST(Optimize, RemovesDeadCode) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2});
  b.node(OpKind::sigmoid, {b.node(OpKind::conv2d, {x, b.constant({3, 1, 1, 2})})});
  b.output(b.node(OpKind::tanh, {x}), "y");
  const Graph graph = expect_optimized(b.done(), "tanh");
  EXPECT_TRUE(graph.constants.empty());
  EXPECT_EQ(graph.tensors.size(), 2u);
}

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

// ---- affine chains

TEST(Optimize, FoldsBatchNormalizationIntoConvolution) {
  GraphBuilder b;
  const int x = b.input("x", {1, 5, 5, 3});
  const int c = b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 3}), b.constant({8})}, window(1, 1, 1));
  const int n = b.node(OpKind::scale, {c, b.constant({8}, 0.5, 2), b.constant({8})});  // batch norm
  const int s = b.node(OpKind::scale, {n, b.constant({8}, 0.5, 2), b.constant({8})});  // scale
  b.output(b.node(OpKind::clamp, {s}, range(0, infinity)), "y");
  const Graph graph = expect_optimized(b.done(), "conv2d");
  EXPECT_EQ(graph.nodes[0].attributes.min, 0);
}

TEST(Optimize, FoldsIntoDepthwiseAndFullyConnected) {
  GraphBuilder b;
  Attributes depthwise = window(1, 1, 1);
  depthwise.groups = 4;
  const int x = b.input("x", {2, 3, 3, 4});
  const int c = b.node(OpKind::conv2d, {x, b.constant({4, 3, 3, 1})}, depthwise);
  const int m = b.node(OpKind::mul, {b.constant({1, 1, 1, 4}), c});
  const int a = b.node(OpKind::add, {m, b.constant({4})});
  const int f = b.node(OpKind::fully_connected, {a, b.constant({5, 4})});
  const int p = b.node(OpKind::power, {f}, power(-2, 3, 1));
  const int d = b.node(OpKind::div, {p, b.constant({1}, 2, 3)}, range(-1, 1));
  b.output(d, "y");
  expect_optimized(b.done(), "conv2d fully_connected");
}

TEST(Optimize, FoldsSubtractionsInBothOrders) {
  GraphBuilder b;
  const int x = b.input("x", {2, 4});
  const int f = b.node(OpKind::fully_connected, {x, b.constant({3, 4}), b.constant({3})});
  const int s = b.node(OpKind::sub, {f, b.constant({3})});
  b.output(b.node(OpKind::sub, {b.constant({3}), s}), "y");
  expect_optimized(b.done(), "fully_connected");
}

TEST(Optimize, DoesNotFoldWhatTheGraphStillNeeds) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 3, 2});
  const int c = b.output(b.node(OpKind::conv2d, {x, b.constant({2, 1, 1, 2})}), "before");
  b.output(b.node(OpKind::clamp, {c}, range(0, 1)), "after");
  const int d = b.node(OpKind::conv2d, {x, b.constant({2, 1, 1, 2})});
  b.output(b.node(OpKind::add, {b.node(OpKind::clamp, {d}, range(0, 1)), d}), "sum");
  expect_optimized(b.done(), "conv2d clamp conv2d clamp add");
}

TEST(Optimize, DoesNotFoldAScaleBehindAClamp) {
  GraphBuilder b;
  const int x = b.input("x", {1, 3, 3, 2});
  const int c = b.node(OpKind::conv2d, {x, b.constant({2, 1, 1, 2})});
  const int r = b.node(OpKind::clamp, {c}, range(0, infinity));
  b.output(b.node(OpKind::scale, {r, b.constant({2}), b.constant({2})}), "y");
  expect_optimized(b.done(), "conv2d scale");
}

TEST(Optimize, DoesNotFoldWhatBroadcastsUp) {
  GraphBuilder b;
  const int x = b.input("x", {1, 1, 1, 2});
  const int c = b.node(OpKind::conv2d, {x, b.constant({1, 1, 1, 2})});
  b.output(b.node(OpKind::add, {c, b.constant({3})}), "y");
  expect_optimized(b.done(), "conv2d add");
}

TEST(Optimize, Relu6OfTwoRelusAndTwoPowers) {
  GraphBuilder b;
  const int x = b.input("x", {1, 5, 5, 3});
  int y = b.node(OpKind::conv2d, {x, b.constant({8, 3, 3, 3})});
  for (int i = 0; i < 2; ++i) {
    y = b.node(OpKind::clamp, {y}, range(0, infinity));
    y = b.node(OpKind::power, {y}, power(-1, 6, 1));
  }
  b.output(y, "y");
  const Graph graph = expect_optimized(b.done(), "conv2d");
  EXPECT_EQ(graph.nodes[0].attributes.min, 0);
  EXPECT_EQ(graph.nodes[0].attributes.max, 6);
}

TEST(Optimize, ChainsBecomeTheSimplestNode) {
  GraphBuilder b;
  const char* const names[] = {"a", "b", "c", "d", "e", "f"};
  size_t next = 0;
  const auto chain = [&](std::vector<std::pair<OpKind, Attributes>> nodes) {
    int y = b.node(OpKind::sigmoid, {b.input(names[next++], {2, 3})});
    for (auto& [kind, attributes] : nodes) y = b.node(kind, {y}, attributes);
    return y;
  };
  b.output(chain({{OpKind::clamp, range(0, 6)}, {OpKind::clamp, range(-1, 3)}}), "clamp");
  b.output(chain({{OpKind::clamp, range(0, 2)}, {OpKind::clamp, range(5, 9)}}), "always 5");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(3, -1, 1)}}), "power");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(0.5, -0.5, 1)}}), "nothing");
  b.output(chain({{OpKind::clamp, range(1, 2)}, {OpKind::power, power(-2, 1, 1)}}), "as it was");
  b.output(chain({{OpKind::power, power(2, 1, 1)}, {OpKind::power, power(1, 0, 2)}}), "square");
  const Graph graph = expect_optimized(
      b.done(), "sigmoid clamp sigmoid clamp sigmoid power sigmoid sigmoid clamp power sigmoid power power");
  EXPECT_EQ(graph.nodes[1].attributes.max, 3);
  EXPECT_EQ(graph.nodes[3].attributes.min, 5);
  EXPECT_EQ(graph.nodes[5].attributes.alpha, 6);
  EXPECT_EQ(graph.nodes[5].attributes.beta, 2);
}

TEST(Optimize, ChainsThatClampBecomeAScaleWhereChannelsAreFixed) {
  GraphBuilder b;
  const int x = b.node(OpKind::prelu, {b.input("x", {2, 3}), b.constant({3})});
  const int y = b.node(OpKind::power, {b.node(OpKind::clamp, {x}, range(1, 2))}, power(-2, 1, 1));
  b.output(y, "y");
  const Graph graph = expect_optimized(b.done(), "prelu scale");
  EXPECT_EQ(graph.nodes[1].attributes.min, -3);
  EXPECT_EQ(graph.nodes[1].attributes.max, -1);
}

// What was known about the input when the model was converted must not be built in.
TEST(Optimize, ChainsStayResizable) {
  GraphBuilder b;
  const int x = b.node(OpKind::power, {b.input("x", {1, 100})}, power(0.2f, 0.5, 1));
  b.output(b.node(OpKind::clamp, {x}, range(0, 1)), "y");
  Graph graph = expect_optimized(b.done(), "power clamp");
  graph.tensors[static_cast<size_t>(graph.inputs[0].tensor)].shape = {1, 200};
  EXPECT_EQ(infer_shapes(graph), QN_OK) << qn_last_message();
}

// Nodes and tensors go, so that all numbers change but those of the graph's inputs and outputs.
TEST(Optimize, StatesAndSubgraphsStay) {
  GraphBuilder b;
  const int unused = b.node(OpKind::exp, {b.constant({4, 4})});
  b.node(OpKind::exp, {unused});
  const int x = b.input("x", {1, 16}), a = b.input("a", {1, 16}), c = b.input("c", {1, 16});
  const int y = b.node(OpKind::clamp, {b.node(OpKind::add, {x, a})});
  b.output(y, "y");
  b.output(b.node(OpKind::clamp, {b.node(OpKind::add, {y, c})}), "next c");
  b.output(b.node(OpKind::clamp, {b.node(OpKind::sub, {y, a})}), "next a");
  b.graph.states = {{1, 2}, {2, 1}};
  b.graph.subgraphs = nested_graph().subgraphs;
  const Graph before = b.done();
  const Graph after = expect_optimized(before, "add add sub");
  ASSERT_EQ(after.states.size(), 2u);
  for (size_t i = 0; i < after.states.size(); ++i) {
    const auto names = [i](const Graph& graph) {
      const State state = graph.states[i];
      return std::string(tensor_of(graph, graph.inputs[state.input].tensor).name) + " <- " +
             std::string(tensor_of(graph, graph.outputs[state.output].tensor).name);
    };
    EXPECT_EQ(names(after), i == 0 ? "a <- next a" : "c <- next c");
  }
  EXPECT_NE(before.outputs[0].tensor, after.outputs[0].tensor) << "the test has lost its point";
  ASSERT_EQ(after.subgraphs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) expect_same(before.subgraphs[i], after.subgraphs[i]);
}

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

// ---- shapes

TEST(Optimize, MergesReshapes) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4});
  b.output(b.node(OpKind::reshape, {b.node(OpKind::reshape, {x}, values({0, -1, 2}))}, values({0, 0, 1, 2})), "y");
  b.output(b.node(OpKind::reshape, {b.node(OpKind::reshape, {x}, values({-1, 4}))}, values({0, 2, 2})), "z");
  b.output(b.node(OpKind::reshape, {b.node(OpKind::reshape, {x}, values({-1, 4}))}, values({0, 2, -1})), "kept");
  const Graph graph = expect_optimized(b.done(), "reshape reshape reshape reshape");
  EXPECT_EQ(graph.nodes.back().attributes.values, (Vector<int64_t>{0, 2, -1}));
}

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

TEST(Optimize, FoldsPads) {
  const auto padded = [](float value, OpKind kind, Attributes attributes, bool relu = false) {
    GraphBuilder b;
    int x = b.input("x", {1, 6, 6, 2});
    if (relu) x = b.node(OpKind::clamp, {x}, range(0, infinity));
    Attributes widths = values({0, 1, 0, 0, 0, 2, 1, 0});
    widths.alpha = value;
    Vector<int> inputs = {b.node(OpKind::pad, {x}, widths)};
    if (kind == OpKind::conv2d) inputs.push_back(b.constant({3, 3, 3, 2}));
    b.output(b.node(kind, inputs, attributes), "y");
    return b.done();
  };
  const Graph conv = expect_optimized(padded(0, OpKind::conv2d, window(1, 2, 1)), "conv2d");
  EXPECT_EQ(conv.nodes[0].attributes.padding.top, 2u);
  EXPECT_EQ(conv.nodes[0].attributes.padding.left, 1u);
  EXPECT_EQ(conv.nodes[0].attributes.padding.bottom, 3u);
  EXPECT_EQ(conv.nodes[0].attributes.padding.right, 2u);
  expect_optimized(padded(1, OpKind::conv2d, window(1, 2, 1)), "pad conv2d");

  expect_optimized(padded(-INFINITY, OpKind::max_pool, window(3, 2, 0)), "max_pool");
  expect_optimized(padded(0, OpKind::max_pool, window(3, 2, 0)), "pad max_pool");
  expect_optimized(padded(0, OpKind::max_pool, window(3, 2, 0), true), "clamp max_pool");
  expect_optimized(padded(0, OpKind::max_pool, window(2, 1, 0), true), "clamp pad max_pool");  // too wide

  const Graph average = expect_optimized(padded(0, OpKind::average_pool, window(3, 1, 0)), "average_pool");
  EXPECT_TRUE(average.nodes[0].attributes.count_padding);
  Attributes own = window(5, 1, 1);
  expect_optimized(padded(0, OpKind::average_pool, own), "pad average_pool");
  own.count_padding = true;
  expect_optimized(padded(0, OpKind::average_pool, own), "average_pool");
  own.ceil_mode = true;
  expect_optimized(padded(0, OpKind::average_pool, own), "pad average_pool");
}

TEST(Optimize, FullyConnectedReadsTheImage) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4, 5});
  const int nchw = b.node(OpKind::transpose, {x}, values({0, 3, 1, 2}));
  const int flat = b.node(OpKind::reshape, {nchw}, values({0, -1}));
  const int f = b.node(OpKind::fully_connected, {flat, b.constant({7, 60}), b.constant({7})});
  b.output(b.node(OpKind::clamp, {f}, range(0, 2)), "y");
  const Graph graph = expect_optimized(b.done(), "conv2d reshape");
  EXPECT_EQ(graph.nodes[0].attributes.max, 2);
  // Another height and width with as many pixels is refused as before... by the reshape to 7 numbers per image.
  Graph other = graph;
  other.tensors[static_cast<size_t>(other.inputs[0].tensor)].shape = {2, 4, 3, 5};
  EXPECT_EQ(infer_shapes(other), QN_BAD_MODEL);
  other.tensors[static_cast<size_t>(other.inputs[0].tensor)].shape = {9, 3, 4, 5};
  EXPECT_EQ(infer_shapes(other), QN_OK);
}

// ---- the whole

TEST(Optimize, SampleGraph) {
  expect_optimized(sample_graph(), "conv2d conv2d add concat max_pool reshape fully_connected softmax");
}

TEST(Optimize, IsDoneAfterOnce) {
  Graph graph = sample_graph();
  ASSERT_EQ(optimize(graph), QN_OK);
  Graph again = graph;
  ASSERT_EQ(optimize(again), QN_OK);
  expect_same(graph, again);
}

}  // namespace
}  // namespace quern::test

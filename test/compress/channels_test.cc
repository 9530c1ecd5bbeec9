// Channel pruning of small graphs: which channels go together, which are kept, and what is left of weights.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "channels_fixture.h"
#include "convert/model_stats.h"
#include "graph/small_graphs.h"

namespace quern {
namespace channels_test {

using namespace compress_test;
using test::axis;
using test::expect_ok;
using test::GraphBuilder;
using test::power;
using test::range;
using test::Shape;
using test::values;
using test::window;

Channels found(Graph& graph) {
  Channels channels;
  expect_ok(find_channels(graph, &channels));
  return channels;
}

// "conv2d0[1] conv2d3[1]" for each set.
std::vector<std::string> names(const Graph& graph, const Channels& channels) {
  std::vector<std::string> sets;
  for (const ChannelSet& set : channels.sets) {
    std::string& text = sets.emplace_back();
    for (const ChannelRow& row : set.rows) {
      if (!text.empty()) text += ' ';
      text += std::string(graph.nodes[row.node].name) + '[' + std::to_string(row.row) + ']';
    }
  }
  return sets;
}
std::vector<std::string> sets_of(Graph graph) {
  const Channels channels = found(graph);
  return names(graph, channels);
}

Graph without(Graph graph, const std::set<size_t>& sets) {
  const Channels channels = found(graph);
  Vector<bool> removed(channels.sets.size());
  for (const size_t set : sets) removed[set] = true;
  expect_exact_removal(graph, channels, removed, 1);
  expect_ok(remove_channels(channels, removed, graph));
  return graph;
}

Floats floats_of(const Graph& graph, int tensor) {
  const float* const data = constant_floats(graph, tensor);
  return Floats(data, data + graph.constants[at(tensor_of(graph, tensor).constant)].bytes / sizeof(float));
}

// A network from 4x4 pixels of 3 channels to 2 numbers for each pixel: conv2d0 with `channels` outputs, a part, and a
// last convolution that reads everything.
class Network {
 public:
  explicit Network(size_t channels, float min = -infinity) {
    first_ =
        b.node(OpKind::conv2d, {b.input("x", {1, 4, 4, 3}), b.constant({channels, 1, 1, 3}), b.constant({channels})},
               range(min, infinity));
    infer();
  }

  int first() const { return first_; }
  // Adds a node and infers its shape.
  int add(OpKind kind, Vector<int> inputs, Attributes attributes = {}) {
    const int output = b.node(kind, std::move(inputs), std::move(attributes));
    infer();
    return output;
  }
  void infer() {
    const Node node = b.graph.nodes.back();
    expect_ok(infer_node(b.graph, node));
  }
  int conv(int x, size_t outputs, size_t groups = 1) {
    Attributes a;
    a.groups = groups;
    return add(OpKind::conv2d, {x, b.constant({outputs, 1, 1, b.graph.tensors[at(x)].shape.back() / groups})}, a);
  }
  Graph end(int x) {
    b.output(conv(x, 2), "y");
    return b.done();
  }

  GraphBuilder b;

 private:
  static constexpr float infinity = std::numeric_limits<float>::infinity();

  int first_;
};

using Names = std::vector<std::string>;

// ---- what is left -----------------------------------------------------------------------------

TEST(Channels, RowsBiasesAndColumnsGo) {
  Network n(3);
  Graph graph = n.end(n.add(OpKind::clamp, {n.first()}, range(0, 6)));
  EXPECT_EQ(sets_of(graph), (Names{"conv2d0[0]", "conv2d0[1]", "conv2d0[2]"}));
  const Channels channels = found(graph);
  for (const ChannelSet& set : channels.sets) {
    EXPECT_EQ(set.weights, 3u + 1 + 2);
    EXPECT_EQ(set.macs, 16u * (3 + 2));
  }
  const Graph left = without(graph, {1});
  const Node &first = left.nodes[0], &last = left.nodes[2];
  const Floats rows = floats_of(graph, graph.nodes[0].inputs[1]), bias = floats_of(graph, graph.nodes[0].inputs[2]),
               columns = floats_of(graph, graph.nodes[2].inputs[1]);
  EXPECT_EQ(tensor_of(left, first.inputs[1]).shape, (Shape{2, 1, 1, 3}));
  EXPECT_EQ(floats_of(left, first.inputs[1]), (Floats{rows[0], rows[1], rows[2], rows[6], rows[7], rows[8]}));
  EXPECT_EQ(floats_of(left, first.inputs[2]), (Floats{bias[0], bias[2]}));
  EXPECT_EQ(floats_of(left, last.inputs[1]), (Floats{columns[0], columns[2], columns[3], columns[5]}));
  EXPECT_EQ(tensor_of(left, last.outputs[0]).shape, tensor_of(graph, last.outputs[0]).shape);
}

TEST(Channels, FlattenedChannelsLoseAColumnPerPixel) {
  Network n(3);
  const int pooled = n.add(OpKind::max_pool, {n.first()}, window(2, 2, 0));
  const int flat = n.add(OpKind::reshape, {pooled}, values({1, 12}));
  n.b.output(n.add(OpKind::fully_connected, {flat, n.b.constant({2, 12})}), "y");
  const Graph graph = n.b.done(), left = without(graph, {0});
  const Floats before = floats_of(graph, graph.nodes[3].inputs[1]), after = floats_of(left, left.nodes[3].inputs[1]);
  Floats expected;
  for (size_t i = 0; i < before.size(); ++i) {
    if (i % 3 != 0) expected.push_back(before[i]);
  }
  EXPECT_EQ(after, expected);
  EXPECT_EQ(left.nodes[2].attributes.values, (Vector<int64_t>{1, 8}));
}

TEST(Channels, DepthwiseConvolutionsLoseGroups) {
  Network n(3);
  const Graph graph = n.end(n.conv(n.first(), 6, 3));
  EXPECT_EQ(sets_of(graph), (Names{"conv2d0[0] conv2d1[0] conv2d1[1]", "conv2d0[1] conv2d1[2] conv2d1[3]",
                                   "conv2d0[2] conv2d1[4] conv2d1[5]"}));
  const Graph left = without(graph, {0});
  EXPECT_EQ(left.nodes[1].attributes.groups, 2u);
  EXPECT_EQ(tensor_of(left, left.nodes[1].inputs[1]).shape, (Shape{4, 1, 1, 1}));
  EXPECT_EQ(without(graph, {0, 2}).nodes[1].attributes.groups, 1u);
}

TEST(Channels, GroupsKeepEquallyMany) {
  Network n(4);
  const Graph graph = n.end(n.conv(n.first(), 6, 2));
  EXPECT_EQ(sets_of(graph), (Names{"conv2d0[0] conv2d0[2]", "conv2d0[1] conv2d0[3]", "conv2d1[0] conv2d1[3]",
                                   "conv2d1[1] conv2d1[4]", "conv2d1[2] conv2d1[5]"}));
  const Graph left = without(graph, {1, 3});
  EXPECT_EQ(left.nodes[1].attributes.groups, 2u);
  EXPECT_EQ(tensor_of(left, left.nodes[1].inputs[1]).shape, (Shape{4, 1, 1, 1}));
}

TEST(Channels, SumsLoseBothBranches) {
  Network n(2);
  const int branch = n.conv(n.first(), 2);
  EXPECT_EQ(sets_of(n.end(n.add(OpKind::add, {branch, n.first()}))),
            (Names{"conv2d0[0] conv2d1[0]", "conv2d0[1] conv2d1[1]"}));
}

TEST(Channels, SlicesAndConcatenationsKeepTrack) {
  Network n(4);
  const int left = n.add(OpKind::slice, {n.first()}, values({0, 0, 0, 0, -1, -1, -1, 3}));
  const int right = n.add(OpKind::slice, {n.first()}, values({0, 0, 0, 3, -1, -1, -1, -1}));
  const int both = n.add(OpKind::concat, {n.conv(right, 2), left}, axis(3));
  Graph graph = n.end(both);
  // The last channel of the first convolution is all that one slice has.
  EXPECT_EQ(sets_of(graph), (Names{"conv2d0[0]", "conv2d0[1]", "conv2d0[2]", "conv2d3[0]", "conv2d3[1]"}));
  const Graph pruned = without(graph, {0, 2, 4});
  EXPECT_EQ(pruned.nodes[1].attributes.values, (Vector<int64_t>{0, 0, 0, 0, -1, -1, -1, 1}));
  EXPECT_EQ(pruned.nodes[2].attributes.values, (Vector<int64_t>{0, 0, 0, 1, -1, -1, -1, 2}));
  EXPECT_EQ(tensor_of(pruned, pruned.nodes[4].outputs[0]).shape, (Shape{1, 4, 4, 2}));
  // Each of them can go, but not all.
  Vector<bool> removed(5);
  removed[0] = removed[1] = removed[2] = true;
  Graph copy = graph;
  const Channels channels = found(copy);
  EXPECT_EQ(remove_channels(channels, removed, copy), QN_INVALID_ARGUMENT);
  EXPECT_NE(std::string(qn_last_message()).find("would lose all of its channels"), std::string::npos);
  EXPECT_EQ(tensor_of(copy, copy.nodes[0].inputs[1]).shape[0], 4u) << "the graph has changed";
  ChannelsLeft left_over(channels);
  EXPECT_TRUE(left_over.remove(0));
  EXPECT_FALSE(left_over.remove(0)) << "twice";
  EXPECT_TRUE(left_over.remove(1));
  EXPECT_FALSE(left_over.remove(2)) << "the last of a slice";
}

TEST(Channels, SlicesOfAnotherLayout) {
  Network n(4);
  const int turned = n.add(OpKind::transpose, {n.first()}, values({0, 3, 1, 2}));
  const int part = n.add(OpKind::slice, {turned}, values({0, 1, 0, 1, -1, -1, 3, -1}));
  const Graph graph = n.end(n.add(OpKind::transpose, {part}, values({0, 2, 3, 1})));
  EXPECT_EQ(without(graph, {0, 2}).nodes[2].attributes.values, (Vector<int64_t>{0, 0, 0, 1, -1, 2, 3, -1}));
}

// Shapes that copy dimensions still do, so that sessions can change the size of images.
TEST(Channels, ShufflesTieTheirGroups) {
  Network n(6);
  int y = n.add(OpKind::reshape, {n.first()}, values({0, 0, 0, 2, -1}));
  y = n.add(OpKind::transpose, {y}, values({0, 1, 2, 4, 3}));
  y = n.add(OpKind::reshape, {y}, values({0, 0, 0, 6}));
  const Graph graph = n.end(y);
  EXPECT_EQ(sets_of(graph), (Names{"conv2d0[0] conv2d0[3]", "conv2d0[1] conv2d0[4]", "conv2d0[2] conv2d0[5]"}));
  const Graph left = without(graph, {1});
  EXPECT_EQ(left.nodes[1].attributes.values, (Vector<int64_t>{0, 0, 0, 2, -1}));
  EXPECT_EQ(left.nodes[3].attributes.values, (Vector<int64_t>{0, 0, 0, 4}));
}

TEST(Channels, AGateGoesWithWhatItMultiplies) {
  Network n(2);
  const int gate = n.conv(n.add(OpKind::global_average_pool, {n.first()}), 2);
  const int y = n.add(OpKind::mul, {n.first(), n.add(OpKind::sigmoid, {gate})});
  EXPECT_EQ(sets_of(n.end(y)), (Names{"conv2d0[0] conv2d2[0]", "conv2d0[1] conv2d2[1]"}));
}

TEST(Channels, LayersThatShareWeightsShareChannels) {
  Network n(3);
  const int w = n.b.constant({3, 1, 1, 3});
  int y = n.add(OpKind::conv2d, {n.first(), w});
  y = n.add(OpKind::conv2d, {y, w});
  const Graph graph = n.end(y);
  EXPECT_EQ(sets_of(graph), (Names{"conv2d0[0] conv2d1[0] conv2d2[0]", "conv2d0[1] conv2d1[1] conv2d2[1]",
                                   "conv2d0[2] conv2d1[2] conv2d2[2]"}));
  const Graph left = without(graph, {2});
  EXPECT_EQ(left.nodes[1].inputs[1], left.nodes[2].inputs[1]);
  Graph copy = graph;
  EXPECT_EQ(found(copy).sets[0].macs, model_stats(graph).macs - model_stats(without(graph, {0})).macs)
      << "of one set, which has a row and a column of both layers";
  EXPECT_EQ(tensor_of(left, left.nodes[1].inputs[1]).shape, (Shape{2, 1, 1, 2}));
}

// ---- what is kept -----------------------------------------------------------------------------

struct Kept {
  const char* what;
  int (*part)(Network& n, int x);
};
const Kept kept[] = {
    {"a clamp that excludes 0", [](Network& n, int x) { return n.add(OpKind::clamp, {x}, range(1, 6)); }},
    {"a sum with a number",
     [](Network& n, int x) {
       return n.add(OpKind::add, {x, n.b.constant_of({1}, {1})});
     }},
    {"a sigmoid", [](Network& n, int x) { return n.add(OpKind::sigmoid, {x}); }},
    {"a pool of what is not zero",
     [](Network& n, int x) {
       const int pool = n.add(OpKind::global_max_pool, {n.add(OpKind::sigmoid, {x})});
       return n.add(OpKind::global_average_pool, {pool});  // of one pixel
     }},
    {"exp", [](Network& n, int x) { return n.add(OpKind::exp, {x}); }},
    {"a power of a sum", [](Network& n, int x) { return n.add(OpKind::power, {x}, power(1, 1, 2)); }},
    {"1 / x", [](Network& n, int x) { return n.add(OpKind::power, {x}, power(1, 0, -1)); }},
    {"x / x",
     [](Network& n, int x) {
       return n.add(OpKind::mul, {x, n.add(OpKind::power, {x}, power(1, 0, -1))});
     }},
    {"two dimensions in one sum",
     [](Network& n, int x) {
       return n.add(OpKind::add, {x, n.add(OpKind::transpose, {n.conv(x, 4)}, values({0, 3, 1, 2}))});
     }},
    {"a constant that is read along pixels, too",
     [](Network& n, int x) {
       const int k = n.b.constant({4});
       const int turned = n.add(OpKind::transpose, {n.add(OpKind::mul, {x, k})}, values({0, 3, 1, 2}));
       return n.add(OpKind::transpose, {n.add(OpKind::mul, {turned, k})}, values({0, 2, 3, 1}));
     }},
    {"a constant that is read along two dimensions",
     [](Network& n, int x) {
       const int k = n.b.constant({4, 4});
       const int turned = n.add(OpKind::transpose, {n.add(OpKind::mul, {x, k})}, values({0, 1, 3, 2}));
       return n.add(OpKind::transpose, {n.add(OpKind::mul, {turned, k})}, values({0, 1, 3, 2}));
     }},
    {"weights that are data, too",
     [](Network& n, int x) {
       const int w = n.b.constant({4, 4});
       return n.add(OpKind::fully_connected, {n.add(OpKind::mul, {x, w}), w});
     }},
    {"a constant of two tensors",
     [](Network& n, int x) {
       const int k = n.b.constant({4}), again = test::share_constant(n.b.graph, n.b.graph, k);
       const int turned = n.add(OpKind::transpose, {n.add(OpKind::mul, {x, k})}, values({0, 3, 1, 2}));
       const int y = n.add(OpKind::mul, {turned, again});
       return n.add(OpKind::transpose, {y}, values({0, 2, 3, 1}));
     }},
    {"windows of padding alone",
     [](Network& n, int x) {
       Attributes a = window(2, 1, 2);
       a.dilation = {5, 5};
       return n.add(OpKind::max_pool, {x}, a);
     }},
    {"softmax", [](Network& n, int x) { return n.add(OpKind::softmax, {x}, axis(3)); }},
    {"softmax over pixels", [](Network& n, int x) { return n.add(OpKind::softmax, {x}, axis(1)); }},
    {"LRN",
     [](Network& n, int x) {
       Attributes a = power(1, 0.75f, 1);
       a.size = 3;
       return n.add(OpKind::lrn, {x}, a);
     }},
    {"a border of ones",
     [](Network& n, int x) {
       Attributes a = values({0, 1, 1, 0, 0, 1, 1, 0});
       a.alpha = 1;
       return n.add(OpKind::pad, {x}, a);
     }},
    {"an output of the graph",
     [](Network& n, int x) { return n.b.output(n.add(OpKind::clamp, {x}, range(0, 6)), "z"); }},
    {"a sum with an input",
     [](Network& n, int x) {
       return n.add(OpKind::add, {x, n.b.input("other", {1, 4, 4, 4})});
     }},
    {"quantization",
     [](Network& n, int x) {
       const int bytes = n.b.quantized(x, 0.1f, 0);
       n.infer();
       return n.add(OpKind::dequantize, {bytes});
     }},
    {"mean over channels",
     [](Network& n, int x) {
       const int turned = n.add(OpKind::transpose, {x}, values({0, 3, 1, 2}));
       return n.add(OpKind::average_pool, {turned}, window(2, 1, 0));
     }},
    {"layers along another dimension",
     [](Network& n, int x) {
       const int turned = n.add(OpKind::transpose, {x}, values({0, 3, 1, 2}));
       return n.add(OpKind::fully_connected, {turned, n.b.constant({4, 4})});
     }},
    {"a slice of one channel",
     [](Network& n, int x) {
       int y = n.add(OpKind::slice, {x}, values({0, 0, 0, 0, -1, -1, -1, 1}));
       for (int64_t c = 1; c < 4; ++c) {
         y = n.add(OpKind::add, {y, n.add(OpKind::slice, {x}, values({0, 0, 0, c, -1, -1, -1, c + 1}))});
       }
       return y;
     }},
};

TEST(Channels, OthersAreKept) {
  for (const Kept& k : kept) {
    Network n(4);
    const Names sets = sets_of(n.end(k.part(n, n.first())));
    for (const std::string& set : sets) EXPECT_EQ(set.find("conv2d0["), std::string::npos) << k.what << ": " << set;
  }
  Network never_zero(4, 0.5f);
  EXPECT_EQ(sets_of(never_zero.end(never_zero.first())), Names{}) << "a layer that clamps to 0.5 and above";
}

TEST(Channels, IntegerWeightsAreKept) {
  Network n(4);
  Graph graph = n.end(n.first());
  Tensor& weights = graph.tensors[at(graph.nodes[0].inputs[1])];
  weights.type = QN_S8;
  weights.quantization = {{0.5f}, {}, -1};
  graph.constants[at(weights.constant)].bytes /= sizeof(float);
  graph.nodes[0].inputs.resize(2);
  expect_ok(check_graph(graph));
  EXPECT_EQ(sets_of(graph), Names{});
}

TEST(Channels, WhatABranchReadsIsKept) {
  Network n(4);
  for (int i = 0; i < 2; ++i) {
    GraphBuilder inner;
    inner.output(inner.node(OpKind::clamp, {inner.input("x", {1, 4, 4, 4})}, range(0, 1)), "y");
    n.b.graph.subgraphs.push_back(inner.done());
  }
  const int condition = n.b.input("condition", {1});
  n.b.graph.tensors[at(condition)].type = n.b.graph.inputs.back().type = QN_BOOL;
  const int y = add_node(n.b.graph, OpKind::branch, "branch", {condition, n.first()}, {});
  n.b.graph.tensors[at(y)].type = QN_F32;
  n.b.graph.nodes.back().subgraphs = {0, 1};
  n.b.output(y, "y");
  const int more = n.conv(n.first(), 3);
  n.b.output(n.conv(more, 2), "z");
  Graph graph = n.b.done();
  EXPECT_EQ(sets_of(graph), (Names{"conv2d2[0]", "conv2d2[1]", "conv2d2[2]"}));
  const Channels channels = found(graph);
  expect_ok(remove_channels(channels, {true, false, false}, graph));
  EXPECT_EQ(graph.subgraphs.size(), 2u);
}

// ---- choice -----------------------------------------------------------------------------------

// Gives each row of a layer's weights one value.
void set_rows(Graph& graph, size_t node, const Floats& rows) {
  const Tensor& weights = tensor_of(graph, graph.nodes[node].inputs[1]);
  auto* const data = static_cast<float*>(const_cast<void*>(graph.constants[at(weights.constant)].data));
  const size_t depth = weights.shape[3];
  for (size_t i = 0; i < weights.shape[0] * depth; ++i) data[i] = rows[i / depth];
}

// A layer with these rows, and another one with columns of equal norms.
Graph with_rows(const Floats& rows) {
  Network n(rows.size());
  Graph graph = n.end(n.first());
  set_rows(graph, 0, rows);
  set_rows(graph, 1, {1, 1});
  return graph;
}

std::vector<size_t> smallest(const Floats& rows, double part) {
  Graph graph = with_rows(rows);
  const Channels channels = found(graph);
  Vector<bool> removed;
  expect_ok(smallest_channels(graph, channels, part, &removed));
  std::vector<size_t> indices;
  for (size_t i = 0; i < removed.size(); ++i) {
    if (removed[i]) indices.push_back(i);
  }
  return indices;
}

TEST(Channels, TheSmallestGo) {
  using Indices = std::vector<size_t>;
  EXPECT_EQ(smallest({3, -1, 2, 0.5f}, 0.5), (Indices{1, 3}));
  EXPECT_EQ(smallest({3, -1, 2, 0.5f}, 0.7), (Indices{1, 3})) << "rounded down";
  EXPECT_EQ(smallest({3, -1, 2, 0.5f}, 0.99), (Indices{1, 2, 3})) << "one is left";
  EXPECT_EQ(smallest({3, -1, 2, 0.5f}, 0), Indices{});
  EXPECT_EQ(smallest({1, 1, 1, 1}, 0.5), (Indices{0, 1})) << "of equals the first";
  EXPECT_EQ(smallest({0, 0, 0, 0}, 0.25), Indices{0});
  EXPECT_EQ(smallest(Floats(100, 1), 0.29).size(), 29u);
  EXPECT_EQ(smallest({1, std::numeric_limits<float>::quiet_NaN(), 2, 3}, 0.75), (Indices{0, 2, 3}));
}

// The larger of two branches does not outvote the other.
TEST(Channels, MagnitudesAreRelativeToTheLayer) {
  Network n(2);
  const int first = n.conv(n.first(), 2), second = n.conv(n.first(), 2);
  Graph graph = n.end(n.add(OpKind::add, {first, second}));
  set_rows(graph, 1, {10, 11});
  set_rows(graph, 2, {0.2f, 0.1f});
  set_rows(graph, 4, {1, 1});
  const Channels channels = found(graph);
  Vector<bool> removed;
  expect_ok(smallest_channels(graph, channels, 0.5, &removed));
  const Names sets = names(graph, channels);
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].find("conv2d1") != 0) continue;
    EXPECT_EQ(removed[i], sets[i] == "conv2d1[1] conv2d2[1]") << sets[i];
  }
}

TEST(Channels, RefusesWhatMakesNoSense) {
  Graph graph = with_rows({1, 2, 3});
  const Channels channels = found(graph);
  Vector<bool> removed;
  for (const double part : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(smallest_channels(graph, channels, part, &removed), QN_INVALID_ARGUMENT);
    EXPECT_NE(std::string(qn_last_message()).find("expected a part of the channels"), std::string::npos);
  }
  EXPECT_EQ(remove_channels(channels, Vector<bool>(2), graph), QN_INVALID_ARGUMENT);
  EXPECT_EQ(remove_channels({}, {}, graph), QN_INVALID_ARGUMENT);
  EXPECT_EQ(remove_channels(channels, Vector<bool>(3, true), graph), QN_INVALID_ARGUMENT);
  EXPECT_EQ(tensor_of(graph, graph.nodes[0].inputs[1]).shape[0], 3u) << "the graph has changed";
}

}  // namespace channels_test
}  // namespace quern

// Transforms of networks: chains for every rule and every reason to refuse, random networks, trained models.
#include "compress/transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "channels_fixture.h"
#include "compress/symmetric.h"
#include "convert/convert.h"
#include "convert/model_stats.h"
#include "graph/ir/kinds.h"
#include "graph/small_graphs.h"
#include "random_network.h"
#include "trained.h"

namespace quern {
namespace transform_test {

using namespace compress_test;
using test::axis;
using test::expect_ok;
using test::GraphBuilder;
using test::range;
using test::Shape;
using test::values;
using test::window;

constexpr float no_limit = std::numeric_limits<float>::infinity();

using Apply = std::function<qn_status(Graph&, Vector<Transform>*)>;

// Applies a transform, which must not change what the graph computes.
Vector<Transform> applied(Graph* graph, const Apply& transform) {
  const Graph before = *graph;
  Vector<Transform> done;
  expect_ok(transform(*graph, &done));
  if (!done.empty()) expect_same_outputs(before, *graph, 1);
  uint64_t before_all = 0, after_all = 0;
  for (const Transform& t : done) {
    before_all += t.weights_before;
    after_all += t.weights_after;
    EXPECT_LT(t.macs_after, t.macs_before) << t.node.c_str();
  }
  EXPECT_EQ(after_all < before_all, !done.empty());
  return done;
}

const Tensor& weights_of(const Graph& graph, size_t node) { return tensor_of(graph, graph.nodes[node].inputs[1]); }

void set_values(Graph& graph, int tensor, const Floats& content) {
  const int made = add_constant(graph, String(), QN_F32, tensor_of(graph, tensor).shape, content.data());
  std::swap(graph.tensors[at(tensor)].constant, graph.tensors[at(made)].constant);
}

Floats values_of(const Graph& graph, int tensor) {
  const float* const data = constant_floats(graph, tensor);
  return Floats(data, data + graph.constants[at(tensor_of(graph, tensor).constant)].bytes / sizeof(float));
}

// ---- merging ----------------------------------------------------------------------------------

struct Step {
  Shape weights;
  Attributes attributes = {};
  bool bias = true;
};

int add_step(GraphBuilder& b, int x, const Step& step) {
  Vector<int> inputs = {x, b.constant(step.weights)};
  if (step.bias) inputs.push_back(b.constant({step.weights[0]}));
  return b.node(step.weights.size() == 4 ? OpKind::conv2d : OpKind::fully_connected, inputs, step.attributes);
}

Graph chain(Shape input, const std::vector<Step>& steps) {
  GraphBuilder b;
  int x = b.input("x", std::move(input));
  for (const Step& step : steps) x = add_step(b, x, step);
  b.output(x, "y");
  return b.done();
}

const Step pointwise = {{12, 1, 1, 3}}, thin = {{4, 1, 1, 12}};

Attributes clamped(Attributes a) {
  a.min = 0, a.max = 1;
  return a;
}

TEST(MergeLinearLayers, FullyConnected) {
  Graph graph = chain({2, 3, 4}, {{{16, 4}}, {{3, 16}, range(-1, 1)}});
  const Vector<Transform> done = applied(&graph, merge_linear_layers);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(name_of(done[0].kind), std::string("merged"));
  EXPECT_EQ(done[0].node, "fully_connected1");
  EXPECT_EQ(done[0].other, "fully_connected0");
  EXPECT_EQ(done[0].channels, 16u);
  EXPECT_EQ(done[0].weights_before, 64u + 16 + 48 + 3);
  EXPECT_EQ(done[0].weights_after, 12u + 3);
  EXPECT_EQ(done[0].macs_before, 6u * (64 + 48));
  EXPECT_EQ(done[0].macs_after, 6u * 12);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(weights_of(graph, 0).shape, (Shape{3, 4}));
  EXPECT_EQ(graph.constants.size(), 2u);
}

TEST(MergeLinearLayers, ConvolutionsOfWhichOneIsPointwise) {
  Step plain = {{4, 3, 3, 12}, clamped(window(1, 2, 0))}, padded = {{4, 3, 3, 12}, window(1, 1, 1)};
  plain.attributes.dilation = {1, 2};
  Step without_bias = pointwise;
  without_bias.bias = false;
  Step large = {{12, 3, 3, 3}, window(1, 2, 1)}, same = large, last = thin;
  same.attributes.same_padding = SamePadding::odd_pixel_last;
  same.attributes.padding = {0, 0, 1, 1};
  last.attributes = clamped({});
  last.bias = false;
  const Step rows = {{4, 12}};
  const struct {
    Step first, second;
    Shape weights;
  } cases[] = {
      {pointwise, plain, {4, 3, 3, 3}}, {without_bias, plain, {4, 3, 3, 3}}, {without_bias, padded, {4, 3, 3, 3}},
      {large, last, {4, 3, 3, 3}},      {same, last, {4, 3, 3, 3}},          {large, rows, {4, 3, 3, 3}},
      {pointwise, thin, {4, 1, 1, 3}},  {pointwise, rows, {4, 3}},           {{{12, 3}}, plain, {4, 3, 3, 3}}};
  for (const auto& [first, second, weights] : cases) {
    Graph graph = chain({1, 8, 8, 3}, {first, second});
    const Attributes before = graph.nodes[1].attributes;
    SCOPED_TRACE(testing::Message() << &first - &cases[0].first);
    EXPECT_EQ(applied(&graph, merge_linear_layers).size(), 1u);
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_EQ(weights_of(graph, 0).shape, weights);
    EXPECT_EQ(graph.nodes[0].inputs.size() > 2, first.bias || second.bias);
    EXPECT_EQ(graph.nodes[0].attributes.max, before.max);
    EXPECT_EQ(graph.nodes[0].kind == OpKind::conv2d, weights.size() == 4);
  }
}

TEST(MergeLinearLayers, LongChainsBecomeOneLayer) {
  Graph graph = chain({1, 6, 6, 3}, {pointwise, {{16, 1, 1, 12}}, {{4, 3, 3, 16}}, {{2, 4}}});
  EXPECT_EQ(applied(&graph, merge_linear_layers).size(), 3u);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(weights_of(graph, 0).shape, (Shape{2, 3, 3, 3}));
}

void expect_whole(Graph graph) {
  const size_t nodes = graph.nodes.size();
  EXPECT_EQ(applied(&graph, merge_linear_layers).size(), 0u);
  EXPECT_EQ(graph.nodes.size(), nodes);
}

TEST(MergeLinearLayers, RefusesPairsThatAreNotOneLayer) {
  const Step plain = {{4, 3, 3, 12}}, padded = {{4, 3, 3, 12}, window(1, 1, 1)};
  Step limited = pointwise;
  limited.attributes.min = 0;
  expect_whole(chain({1, 8, 8, 3}, {limited, plain}));
  expect_whole(chain({1, 8, 8, 3}, {pointwise, padded}));
  Step same = plain;  // no padding at this size
  same.attributes.same_padding = SamePadding::odd_pixel_last;
  same.attributes.stride = {3, 3};
  expect_whole(chain({1, 9, 9, 3}, {pointwise, same}));
  Step grouped = {{12, 1, 1, 3}}, of_groups = {{4, 3, 3, 6}};
  grouped.attributes.groups = of_groups.attributes.groups = 2;
  expect_whole(chain({1, 8, 8, 6}, {grouped, plain}));
  expect_whole(chain({1, 8, 8, 3}, {pointwise, of_groups}));
  expect_whole(chain({1, 8, 8, 3}, {{{12, 3, 3, 3}}, plain}));
  Step apart = thin;
  apart.attributes.stride = {2, 2};
  expect_whole(chain({1, 8, 8, 3}, {{{12, 3, 3, 3}}, apart}));
  apart.attributes = window(1, 1, 1);
  expect_whole(chain({1, 8, 8, 3}, {{{12, 3, 3, 3}}, apart}));
}

TEST(MergeLinearLayers, RefusesPairsThatWouldGrow) {
  expect_whole(chain({1, 16}, {{{2, 16}}, {{16, 2}}}));
  // Fewer weights, but more multiply-accumulates: the second layer has more pixels.
  expect_whole(chain({1, 1, 1, 16}, {{{15, 1, 1, 16}, {}, false}, {{4, 1, 1, 15}, window(1, 1, 4)}}));
  Graph sparse = chain({1, 4}, {{{16, 4}}, {{3, 16}}});
  for (size_t n = 0; n < 2; ++n) {
    const int weights = sparse.nodes[n].inputs[1];
    Floats content = values_of(sparse, weights);
    for (size_t i = 5; i < content.size(); ++i) content[i] = 0;
    set_values(sparse, weights, content);
  }
  expect_whole(std::move(sparse));
}

TEST(MergeLinearLayers, RefusesWhatOthersRead) {
  for (const bool output : {false, true}) {
    GraphBuilder b;
    const int x = add_step(b, b.input("x", {1, 4}), {{16, 4}});
    if (output) b.output(x, "between");
    b.output(add_step(b, x, {{3, 16}}), "y");
    if (!output) b.output(b.node(OpKind::tanh, {x}), "z");
    expect_whole(b.done());
  }
  GraphBuilder b;
  const int shared = b.constant({8, 8}), x = b.input("x", {1, 8});
  b.output(b.node(OpKind::fully_connected, {b.node(OpKind::fully_connected, {x, shared}), shared}), "y");
  expect_whole(b.done());
}

TEST(MergeLinearLayers, RefusesWeightsThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, no_limit, -no_limit, 3e38f}) {
    for (size_t input = 1; input < 3; ++input) {
      Graph graph = chain({1, 4}, {{{16, 4}}, {{3, 16}}});
      for (const Node& node : graph.nodes) {
        Floats content = values_of(graph, node.inputs[input]);
        for (float& value : content) value = bad;
        set_values(graph, node.inputs[input], content);
      }
      set_values(graph, graph.nodes[1].inputs[1], Floats(48, 2));  // the largest floats overflow by them
      Vector<Transform> done;
      expect_ok(merge_linear_layers(graph, &done));
      EXPECT_TRUE(done.empty());
      EXPECT_EQ(graph.nodes.size(), 2u);
    }
  }
}

// ---- dead channels ----------------------------------------------------------------------------

// Sets a row of a node's weights to zero, and its bias to `bias`.
void clear_row(Graph& graph, size_t node, size_t row, float bias = 0) {
  const Node layer = graph.nodes[node];
  Floats content = values_of(graph, layer.inputs[1]);
  const size_t depth = content.size() / weights_of(graph, node).shape[0];
  std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(row * depth), depth, 0.0f);
  set_values(graph, layer.inputs[1], content);
  if (layer.inputs.size() < 3) return;
  content = values_of(graph, layer.inputs[2]);
  content[row] = bias;
  set_values(graph, layer.inputs[2], content);
}

void clear_column(Graph& graph, size_t node, size_t column) {
  const int weights = graph.nodes[node].inputs[1];
  Floats content = values_of(graph, weights);
  const size_t inputs = tensor_of(graph, weights).shape.back();
  for (size_t i = column; i < content.size(); i += inputs) content[i] = 0;
  set_values(graph, weights, content);
}

std::vector<size_t> widths(const Graph& graph) {
  std::vector<size_t> result;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (kind_of(graph.nodes[n].kind).has_weights()) result.push_back(weights_of(graph, n).shape[0]);
  }
  return result;
}

using Widths = std::vector<size_t>;

// Output channels of the layers, after dead channels have gone.
Widths alive(Graph graph) {
  applied(&graph, remove_dead_channels);
  return widths(graph);
}

const Attributes relu = range(0, no_limit);

TEST(RemoveDeadChannels, RowsOfZeros) {
  Graph graph =
      chain({1, 6, 6, 3}, {{{4, 3, 3, 3}, relu}, {{5, 3, 3, 4}, window(1, 1, 1)}, {{2, 3, 3, 5}, window(1, 1, 1)}});
  clear_row(graph, 0, 1, -0.5f);  // ReLU makes it 0
  clear_row(graph, 0, 3);
  clear_row(graph, 1, 0, 0.25f);  // not 0, where the next layer pads
  clear_row(graph, 2, 0);         // an output of the graph
  Graph less = graph;
  const Vector<Transform> done = applied(&less, remove_dead_channels);
  EXPECT_EQ(widths(less), (Widths{2, 5, 2}));
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(name_of(done[0].kind), std::string("narrowed"));
  EXPECT_EQ(done[0].node, "conv2d0");
  EXPECT_EQ(done[0].channels, 2u);
  EXPECT_EQ(done[0].weights_before, 4u * 27 + 4);
  EXPECT_EQ(done[0].weights_after, 2u * 27 + 2);
  EXPECT_EQ(done[0].macs_after, done[0].macs_before / 2);
  EXPECT_EQ(done[1].node, "conv2d1");
  EXPECT_EQ(done[1].channels, 0u);
  EXPECT_EQ(done[1].weights_after, 5u * 9 * 2 + 5);
}

TEST(RemoveDeadChannels, ColumnsOfZerosAndThoseBefore) {
  Graph graph = chain({1, 6, 6, 3}, {{{4, 1, 1, 3}, relu}, {{5, 1, 1, 4}, relu}, {{2, 5}}});
  Floats content(5 * 4, 0);
  for (size_t o = 0; o < 5; ++o) content[o * 4 + 1] = 0.5f;  // all rows read channel 1
  content[2 * 4 + 2] = 0.5f;                                 // and row 2, which nobody reads, channel 2
  set_values(graph, graph.nodes[1].inputs[1], content);
  clear_column(graph, 2, 2);
  EXPECT_EQ(alive(graph), (Widths{1, 4, 2}));
}

TEST(RemoveDeadChannels, ThroughActivationsAndDepthwise) {
  for (const OpKind kind : {OpKind::hard_swish, OpKind::prelu, OpKind::tanh, OpKind::sigmoid, OpKind::count}) {
    GraphBuilder b;
    int x = add_step(b, b.input("x", {1, 6, 6, 3}), {{4, 1, 1, 3}, kind == OpKind::count ? relu : Attributes()});
    if (kind == OpKind::prelu) {
      x = b.node(kind, {x, b.constant({4})});
    } else if (kind != OpKind::count) {
      x = b.node(kind, {x});
    }
    Attributes each = window(1, 1, 1);
    each.groups = 4;
    x = add_step(b, x, {{4, 3, 3, 1}, each});
    b.output(add_step(b, x, {{2, 3, 3, 4}, window(1, 1, 1)}), "y");
    Graph graph = b.done();
    const size_t depthwise = graph.nodes.size() - 2;
    clear_row(graph, 0, 2);
    Floats bias = values_of(graph, graph.nodes[depthwise].inputs[2]);
    bias[2] = 0;
    set_values(graph, graph.nodes[depthwise].inputs[2], bias);
    const Widths less = {3, 3, 2}, whole = {4, 4, 2};
    EXPECT_EQ(alive(graph), kind == OpKind::sigmoid ? whole : less) << op_name(kind);
    bias[2] = 0.5f;
    set_values(graph, graph.nodes[depthwise].inputs[2], bias);
    EXPECT_EQ(alive(graph), whole) << op_name(kind);
  }
}

TEST(RemoveDeadChannels, BranchesGoTogether) {
  GraphBuilder b;
  const int x = b.input("x", {1, 6, 6, 3});
  const int sum = b.node(OpKind::add, {add_step(b, x, {{4, 1, 1, 3}}), add_step(b, x, {{4, 1, 1, 3}})}, relu);
  const int shifted = b.node(OpKind::add, {sum, b.constant_of({4}, {0, 0, 0.5f, 0})});
  b.output(add_step(b, shifted, {{2, 1, 1, 4}}), "y");
  Graph graph = b.done();
  clear_row(graph, 0, 1);
  EXPECT_EQ(alive(graph), (Widths{4, 4, 2}));
  clear_row(graph, 1, 1);
  clear_row(graph, 0, 2);  // zero, but something is added
  clear_row(graph, 1, 2);
  EXPECT_EQ(alive(graph), (Widths{3, 3, 2}));
}

TEST(RemoveDeadChannels, AConstantThatMultipliesWhatIsNotZero) {
  GraphBuilder b;
  int x = b.node(OpKind::sigmoid, {add_step(b, b.input("x", {1, 3}), {{4, 3}})});
  x = b.node(OpKind::mul, {x, b.constant_of({4}, {0, 2, 3, 4})});
  b.output(add_step(b, x, {{2, 4}}), "y");
  Graph graph = b.done();
  clear_row(graph, 0, 0);
  clear_row(graph, 0, 1);
  EXPECT_EQ(alive(graph), (Widths{3, 2}));
}

TEST(RemoveDeadChannels, ChannelsThatASliceLeavesOut) {
  GraphBuilder b;
  int x = add_step(b, b.input("x", {1, 4, 4, 3}), {{6, 1, 1, 3}});
  x = b.node(OpKind::slice, {x}, values({0, 0, 0, 1, -1, -1, -1, 5}));
  b.output(add_step(b, x, {{2, 1, 1, 4}}), "y");
  EXPECT_EQ(alive(b.done()), (Widths{4, 2}));
}

TEST(RemoveDeadChannels, OneChannelIsLeft) {
  Graph graph = chain({1, 3}, {{{4, 3}, relu}, {{2, 4}}});
  for (size_t o = 0; o < 4; ++o) clear_row(graph, 0, o);
  EXPECT_EQ(alive(graph), (Widths{1, 2}));
}

TEST(RemoveDeadChannels, ConstantsGoToTheNextBias) {
  for (const bool bias : {false, true}) {
    Graph graph = chain({1, 6, 6, 3}, {{{4, 3, 3, 3}, relu}, {{5, 3, 3, 4}, window(1, 2, 0), bias}, {{2, 5}}});
    clear_row(graph, 0, 1, 0.5f);
    clear_row(graph, 0, 2, 2);
    EXPECT_EQ(applied(&graph, remove_dead_channels).size(), 2u);
    EXPECT_EQ(widths(graph), (Widths{2, 5, 2}));
    EXPECT_EQ(graph.nodes[1].inputs.size(), 3u);
  }
  GraphBuilder b;
  int x = add_step(b, b.input("x", {1, 6, 6, 3}), {{4, 3, 3, 3}, relu});
  x = b.node(OpKind::reshape, {b.node(OpKind::global_average_pool, {x})}, values({0, -1}));
  b.output(add_step(b, x, {{2, 4}}), "y");
  Graph graph = b.done();
  clear_row(graph, 0, 1, 0.5f);
  EXPECT_EQ(alive(graph), (Widths{3, 2}));
}

TEST(RemoveDeadChannels, ActivationsMakeOtherConstants) {
  for (const OpKind kind : {OpKind::hard_swish, OpKind::tanh, OpKind::sigmoid}) {
    GraphBuilder b;
    const int x = b.node(kind, {add_step(b, b.input("x", {1, 3}), {{4, 3}})});
    b.output(add_step(b, x, {{2, 4}}), "y");
    Graph graph = b.done();
    clear_row(graph, 0, 1, 0.5f);
    EXPECT_EQ(alive(graph), (Widths{4, 2})) << op_name(kind);
  }
}

// A padded layer sees zeros around a constant.
TEST(RemoveDeadChannels, PaddedConstantsVary) {
  Attributes each = window(1, 1, 1);
  each.groups = 4;
  Graph graph = chain({1, 6, 6, 3}, {{{4, 1, 1, 3}, relu}, {{4, 3, 3, 1}, each}, {{2, 1, 1, 4}}});
  clear_row(graph, 0, 1, 0.5f);
  EXPECT_EQ(alive(graph), (Widths{4, 4, 2}));
  graph.nodes[1].attributes.padding = {};
  expect_ok(infer_shapes(graph));
  EXPECT_EQ(alive(graph), (Widths{3, 3, 2}));
}

// A layer all of whose inputs are constant is constant, too; and so on.
TEST(RemoveDeadChannels, ConstantsOfConstants) {
  Graph graph = chain({1, 3}, {{{4, 3}, relu}, {{5, 4}, relu}, {{6, 5}, relu}, {{2, 6}}});
  for (size_t o = 1; o < 4; ++o) clear_row(graph, 0, o, 0.5f);
  Floats content = values_of(graph, graph.nodes[1].inputs[1]);
  for (size_t o = 0; o < 3; ++o) content[o * 4] = 0;  // they do not read what varies
  set_values(graph, graph.nodes[1].inputs[1], content);
  EXPECT_EQ(alive(graph), (Widths{1, 2, 6, 2}));
}

TEST(RemoveDeadChannels, NegligibleRows) {
  Graph graph = chain({1, 3}, {{{4, 3}, relu}, {{2, 4}}});
  Floats content = values_of(graph, graph.nodes[0].inputs[1]);
  for (size_t i = 0; i < 3; ++i) content[3 + i] *= 1e-12f, content[6 + i] *= 1e-6f;
  set_values(graph, graph.nodes[0].inputs[1], content);
  EXPECT_EQ(alive(graph), (Widths{3, 2}));
  content[0] = no_limit;  // nothing is negligible beside it
  set_values(graph, graph.nodes[0].inputs[1], content);
  Vector<Transform> done;
  expect_ok(remove_dead_channels(graph, &done));
  EXPECT_TRUE(done.empty());
}

TEST(RemoveDeadChannels, ClampsAndNans) {
  Graph graph = chain({1, 3}, {{{4, 3}, range(0.5f, 6)}, {{2, 4}}});
  clear_row(graph, 0, 1, 0.25f);  // 0.5, which the next layer reads
  EXPECT_EQ(alive(graph), (Widths{4, 2}));
  clear_column(graph, 1, 2);
  EXPECT_EQ(alive(graph), (Widths{4, 2}));  // channels.h keeps what would not be zero
  Graph nans = chain({1, 3}, {{{4, 3}, relu}, {{2, 4}}});
  clear_row(nans, 0, 1, std::numeric_limits<float>::quiet_NaN());
  Vector<Transform> done;
  expect_ok(remove_dead_channels(nans, &done));
  EXPECT_TRUE(done.empty());
}

// ---- low rank ---------------------------------------------------------------------------------

RealMatrix random_symmetric(size_t n, unsigned seed, double size = 1) {
  RealMatrix matrix(n, n);
  const Floats content = random(n * n, seed);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k <= i; ++k) {
      matrix.row(i)[k] = matrix.row(k)[i] = size * double{content[i * n + k]};
    }
  }
  return matrix;
}

// Compares A v with lambda v, and the vectors with each other. Returns the largest difference, relative to A.
double eigen_error(const RealMatrix& matrix) {
  const size_t n = matrix.rows();
  const SymmetricEigen eigen(matrix);
  const RealMatrix vectors = eigen.vectors(n), images = matrix_product(vectors, matrix);
  double largest = 0, worst = 0;
  for (const double value : matrix.values()) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < n; ++i) {
    EXPECT_GE(eigen.values()[i == 0 ? 0 : i - 1], eigen.values()[i]);
    for (size_t k = 0; k < n; ++k) {
      const double error = std::fabs(images.row(i)[k] - eigen.values()[i] * vectors.row(i)[k]);
      worst = std::max(worst, largest == 0 ? error : error / largest);
      double product = 0;
      for (size_t j = 0; j < n; ++j) product += vectors.row(i)[j] * vectors.row(k)[j];
      worst = std::max(worst, std::fabs(product - (i == k ? 1 : 0)));
    }
  }
  return worst;
}

TEST(SymmetricEigen, VectorsAndValues) {
  for (const size_t n : {1, 2, 3, 5, 16, 61}) EXPECT_LT(eigen_error(random_symmetric(n, 1)), 1e-13 * (1 + n)) << n;
  EXPECT_LT(eigen_error(random_symmetric(20, 2, 1e76)), 1e-12) << "squares of the largest floats";
  EXPECT_LT(eigen_error(random_symmetric(20, 3, 1e-90)), 1e-12) << "and of the smallest";
}

TEST(SymmetricEigen, SpecialMatrices) {
  RealMatrix identity(12, 12), ones(12, 12), steps(12, 12), path(12, 12);
  for (size_t i = 0; i < 12; ++i) {
    identity.row(i)[i] = 1;
    steps.row(i)[i] = static_cast<double>(i % 3) - 1;
    for (size_t k = 0; k < 12; ++k) ones.row(i)[k] = 1;
    if (i > 0) path.row(i)[i - 1] = path.row(i - 1)[i] = 1;
  }
  for (const RealMatrix& matrix : {RealMatrix(12, 12), identity, ones, steps, path}) {
    EXPECT_LT(eigen_error(matrix), 1e-13);
  }
  EXPECT_NEAR(SymmetricEigen(ones).values()[0], 12, 1e-12);
  EXPECT_NEAR(SymmetricEigen(path).values()[0], 2 * std::cos(std::acos(-1.0) / 13), 1e-12);
}

// Rows of random orthonormal vectors.
RealMatrix orthonormal(size_t count, size_t n, unsigned seed) {
  return SymmetricEigen(random_symmetric(n, seed)).vectors(count);
}

// A matrix with these singular values.
Floats with_values(size_t rows, size_t columns, const std::vector<double>& singular) {
  RealMatrix left(rows, singular.size()), right = orthonormal(singular.size(), columns, 2);
  const RealMatrix vectors = orthonormal(singular.size(), rows, 1);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < singular.size(); ++k) left.row(i)[k] = singular[k] * vectors.row(k)[i];
  }
  const RealMatrix matrix = matrix_product(left, right);
  return Floats(matrix.values().begin(), matrix.values().end());
}

Graph layer_with(Shape input, Shape weights, const Floats& content, const Attributes& attributes = {}) {
  Graph graph = chain(std::move(input), {{std::move(weights), attributes}});
  set_values(graph, graph.nodes[0].inputs[1], content);
  return graph;
}

Apply split_at(double error) {
  return [error](Graph& graph, Vector<Transform>* done) { return split_low_rank(graph, error, done); };
}

TEST(SplitLowRank, FullyConnectedOfLowRank) {
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{60, 90}, {90, 60}, {70, 70}}) {
    Graph graph = layer_with({3, columns}, {rows, columns}, with_values(rows, columns, {5, 4, 3, 2, 1}), range(-1, 2));
    const Vector<Transform> done = applied(&graph, split_at(0));
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(name_of(done[0].kind), std::string("split"));
    EXPECT_EQ(done[0].node, "fully_connected0");
    EXPECT_EQ(done[0].other, "fully_connected0_low_rank");
    EXPECT_EQ(done[0].channels, 5u);
    EXPECT_EQ(done[0].weights_before, rows * columns + rows);
    EXPECT_EQ(done[0].weights_after, 5 * (rows + columns) + rows);
    EXPECT_EQ(done[0].macs_before, 3 * rows * columns);
    EXPECT_EQ(done[0].macs_after, 3 * 5 * (rows + columns));
    EXPECT_LT(done[0].error, 1e-6);
    ASSERT_EQ(graph.nodes.size(), 2u);
    EXPECT_EQ(weights_of(graph, 0).shape, (Shape{5, columns}));
    EXPECT_EQ(weights_of(graph, 1).shape, (Shape{rows, 5}));
    EXPECT_EQ(graph.nodes[0].inputs.size(), 2u);
    EXPECT_EQ(applied(&graph, simplify).size(), 0u) << "merged again";
  }
}

TEST(SplitLowRank, ConvolutionsOfLowRank) {
  Attributes a = clamped(window(1, 2, 1));
  a.dilation = {2, 1};
  Graph graph = layer_with({1, 9, 8, 16}, {40, 3, 3, 16}, with_values(40, 144, {3, 2, 1}), a);
  const Vector<Transform> done = applied(&graph, split_at(0));
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(weights_of(graph, 0).shape, (Shape{3, 3, 3, 16}));
  EXPECT_EQ(weights_of(graph, 1).shape, (Shape{40, 1, 1, 3}));
  EXPECT_EQ(graph.nodes[0].attributes.min, -no_limit);
  EXPECT_EQ(graph.nodes[1].attributes.max, 1);
  EXPECT_EQ(graph.nodes[1].inputs.size(), 3u);
  EXPECT_EQ(done[0].macs_after, 4u * 4 * 3 * (40 + 144));
}

// The rank is the least one, and the error what is left out.
TEST(SplitLowRank, ErrorsAreThoseAskedFor) {
  std::vector<double> singular;
  double all = 0;
  for (size_t i = 0; i < 64; ++i) {
    singular.push_back(std::pow(0.9, static_cast<double>(i)));
    all += singular.back() * singular.back();
  }
  for (const double error : {0.3, 0.1, 0.03, 0.01}) {
    Graph graph = layer_with({2, 128}, {80, 128}, with_values(80, 128, singular));
    Vector<Transform> done;
    expect_ok(split_low_rank(graph, error, &done));
    ASSERT_EQ(done.size(), 1u) << error;
    double left = 0, before = 0;
    for (size_t i = 64; i-- > done[0].channels;) left += singular[i] * singular[i];
    before = left + singular[done[0].channels - 1] * singular[done[0].channels - 1];
    EXPECT_NEAR(done[0].error, std::sqrt(left / all), 1e-6);
    EXPECT_LE(done[0].error, error);
    EXPECT_GT(std::sqrt(before / all), error);
  }
}

TEST(SplitLowRank, NamesRemainUnique) {
  std::vector<double> singular(256);
  for (size_t i = 0; i < singular.size(); ++i) singular[i] = std::pow(0.9, static_cast<double>(i));
  Graph graph = layer_with({2, 256}, {256, 256}, with_values(256, 256, singular));
  for (const double error : {0.01, 0.5}) {
    Vector<Transform> done;
    expect_ok(split_low_rank(graph, error, &done));
    EXPECT_FALSE(done.empty()) << error;
    std::set<std::string> names;
    for (const Node& node : graph.nodes) names.insert(node.name.c_str());
    EXPECT_EQ(names.size(), graph.nodes.size()) << error;
  }
}

void expect_not_split(Graph graph, double error = 0.1) {
  const size_t nodes = graph.nodes.size();
  Vector<Transform> done;
  expect_ok(split_low_rank(graph, error, &done));
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(graph.nodes.size(), nodes);
}

TEST(SplitLowRank, RefusesWhatDoesNotPay) {
  expect_not_split(chain({1, 80}, {{{80, 80}}}));                             // of full rank
  expect_not_split(layer_with({1, 50}, {50, 50}, with_values(50, 50, {1})));  // small
  expect_not_split(chain({1, 8000}, {{{1, 8000}}}));
  expect_not_split(chain({1, 1}, {{{8000, 1}}}));
  Floats sparse(100 * 100, 0);
  for (size_t i = 0; i < sparse.size() / 2; ++i) sparse[i] = i % 100 < 90 ? 1 : 0;  // of rank 1
  Graph half = layer_with({1, 100}, {100, 100}, sparse);
  EXPECT_EQ(applied(&half, split_at(0)).size(), 1u);
  for (size_t i = 4000; i < sparse.size(); ++i) sparse[i] = 0;
  expect_not_split(layer_with({1, 100}, {100, 100}, sparse));  // few nonzeros
}

TEST(SplitLowRank, RefusesWeightsThatAreNotFiniteOrZero) {
  Floats content = with_values(80, 80, {1});
  expect_not_split(layer_with({1, 80}, {80, 80}, Floats(content.size(), 0)));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), no_limit, -no_limit}) {
    content[17] = bad;
    expect_not_split(layer_with({1, 80}, {80, 80}, content));
  }
  for (const float size : {1e38f, 1e-38f, 1e-44f}) {  // the factors are far from such limits
    Graph graph = layer_with({1, 80}, {80, 80}, Floats(content.size(), size));
    Vector<Transform> done;
    expect_ok(split_low_rank(graph, 0, &done));
    ASSERT_EQ(done.size(), 1u) << size;
    EXPECT_EQ(done[0].channels, 1u);
    EXPECT_LT(done[0].error, 1e-6);
  }
}

TEST(SplitLowRank, RefusesGroupsAndSharedWeights) {
  Attributes two;
  two.groups = 2;
  expect_not_split(layer_with({1, 4, 4, 128}, {128, 1, 1, 64}, with_values(128, 64, {1}), two));
  GraphBuilder b;
  const int shared = b.constant_of({80, 80}, with_values(80, 80, {1})), x = b.input("x", {1, 80});
  b.output(b.node(OpKind::fully_connected, {b.node(OpKind::fully_connected, {x, shared}), shared}), "y");
  expect_not_split(b.done());
}

TEST(SplitLowRank, ChecksTheError) {
  Graph graph = chain({1, 80}, {{{80, 80}}});
  Vector<Transform> done;
  for (const double error : {-0.1, 1.0, std::nan("")}) {
    EXPECT_EQ(split_low_rank(graph, error, &done), QN_INVALID_ARGUMENT);
  }
}

// ---- random networks --------------------------------------------------------------------------

// Sets some sets of channels to zero, and the columns of others.
void kill_some(Graph& graph, std::mt19937& random) {
  Channels channels;
  expect_ok(find_channels(graph, &channels));
  Vector<bool> zeroed(channels.sets.size()), unread(channels.sets.size());
  for (size_t s = 0; s < zeroed.size(); ++s) {
    zeroed[s] = random() % 4 == 0;
    unread[s] = random() % 4 == 0;
  }
  zero_channels(channels, zeroed, graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!kind_of(graph.nodes[n].kind).has_weights()) continue;
    const Vector<uint32_t>& columns = channels.set_of[at(graph.nodes[n].inputs[1])].back();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] != kept_channel && unread[columns[i]]) clear_column(graph, n, i);
    }
  }
}

TEST(Simplify, RandomNetworksComputeTheSame) {
  size_t merged = 0, narrowed = 0;
  for (unsigned seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Graph graph = RandomNetwork(seed).make();
    expect_ok(optimize(graph));
    if (seed % 4 != 0) kill_some(graph, random);
    for (const Transform& t : applied(&graph, simplify)) {
      (t.kind == TransformKind::merged ? merged : narrowed) += 1;
    }
    EXPECT_EQ(applied(&graph, remove_dead_channels).size(), 0u);
  }
  EXPECT_GE(merged, 20u);
  EXPECT_GE(narrowed, 400u);
}

// Layers of integers, states, branches and loops remain.
TEST(Simplify, OtherGraphsRemain) {
  GraphBuilder b;
  const std::vector<int8_t> bytes(80 * 80, 1);
  const int weights = add_constant(b.graph, String(), QN_S8, {80, 80}, bytes.data());
  b.graph.tensors[at(weights)].quantization = {{0.25f}, {}, -1};
  Attributes rows;
  rows.quantize_input = true;
  const int x = b.node(OpKind::fully_connected, {b.input("x", {1, 80}), weights}, rows);
  b.output(b.node(OpKind::fully_connected, {x, weights}), "y");
  for (const Graph& graph : {b.done(), test::nested_graph(), test::integer_graph()}) {
    for (const Apply& transform : {Apply(simplify), split_at(0.5)}) {
      Graph after = graph;
      Vector<Transform> done;
      expect_ok(transform(after, &done));
      EXPECT_TRUE(done.empty());
      test::expect_same(graph, after);
    }
  }
}

// Weight decay has left most channels of the person detector without weights.
TEST(Simplify, TrainedModelsLoseDeadChannels) {
  const std::string folder = trained_models();
  if (folder.empty()) GTEST_SKIP() << "no assets: set QUERN_ASSETS";
  const struct {
    const char* file;
    uint64_t weights, macs;  // at most, after
  } models[] = {{"tflite/vww_96_float.tflite", 50'000, 4'200'000},
                {"onnx/mobilenet_v1_0.75_224.onnx", 2'570'000, 317'000'000}};
  for (const auto& [file, weights, macs] : models) {
    SCOPED_TRACE(file);
    Graph graph = import_model({folder + file});
    expect_ok(optimize(graph));
    applied(&graph, simplify);
    const ModelStats stats = model_stats(graph);
    EXPECT_LE(stats.parameters, weights);
    EXPECT_LE(stats.macs, macs);
  }
}

}  // namespace transform_test
}  // namespace quern

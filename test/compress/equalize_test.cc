// Equalization: outputs keep their bits, and channels are scaled only where the network is homogeneous.
#include "compress/equalize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "channels_fixture.h"
#include "compress/quantize.h"
#include "graph/ir/kinds.h"
#include "random_network.h"

namespace quern {
namespace equalize_test {

using namespace compress_test;
using test::expect_ok;
using test::GraphBuilder;

constexpr float infinity = std::numeric_limits<float>::infinity();
const Attributes relu = range(0, infinity), relu6 = range(0, 6);

// Shows the values of one sample.
void show(const Graph& graph, const Floats& x, Equalization* equalization) {
  if (equalization->tensors().empty()) return;
  const std::vector<Output> seen = run(observed(graph, equalization->tensors()), x);
  for (size_t i = 0; i < seen.size(); ++i) equalization->add(i, seen[i].floats.data(), seen[i].floats.size());
}

// Powers of two that differ more than the factors. None is larger than its factor, because of limits.
Vector<double> rounded(const Vector<double>& factors) {
  constexpr double spread = 4;
  Vector<double> powers;
  for (const double f : factors) powers.push_back(std::exp2(std::floor(std::log2(f) * (f < 1 ? spread : 1))));
  return powers;
}

Floats floats_of(const Graph& graph, int tensor) {
  const float* const data = constant_floats(graph, tensor);
  return Floats(data, data + graph.constants[at(tensor_of(graph, tensor).constant)].bytes / sizeof(float));
}

// How many layers have other weights?
size_t changed_layers(const Graph& before, const Graph& after) {
  size_t changed = 0;
  for (const Node& node : before.nodes) {
    if (!kind_of(node.kind).has_weights()) continue;
    changed += floats_of(before, node.inputs[1]) != floats_of(after, node.inputs[1]);
  }
  return changed;
}

// Scales by powers of two, and expects the same bits. Returns the number of layers whose weights change.
size_t expect_same_bits(const Graph& graph, const Floats& x) {
  Graph scaled = graph;
  Equalization equalization;
  expect_ok(equalization.find(scaled));
  show(scaled, x, &equalization);
  equalization.scale(rounded(equalization.factors(scaled)), scaled);
  const std::vector<Output> expected = run(graph, x), actual = run(scaled, x);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(expected[i].floats, actual[i].floats) << "output " << i;
  return changed_layers(graph, scaled);
}

// A network from 6x6 pixels of 3 channels to vectors of 2 numbers for each pixel.
class Network {
 public:
  Network() : x_(b.input("x", {1, 6, 6, 3})) {}

  int input() const { return x_; }
  const test::Shape& shape(int tensor) const { return b.graph.tensors[at(tensor)].shape; }
  // Adds a node and infers its shape.
  int add(OpKind kind, Vector<int> inputs, Attributes attributes = {}) {
    const int output = b.node(kind, std::move(inputs), std::move(attributes));
    const Node node = b.graph.nodes.back();
    expect_ok(infer_node(b.graph, node));
    return output;
  }
  // Weights of successive rows differ in size.
  int conv(int x, size_t outputs, Attributes attributes = {}, size_t groups = 1) {
    attributes.groups = groups;
    const size_t inputs = shape(x).back() / groups;
    Floats weights;
    for (size_t o = 0; o < outputs; ++o) {
      const float size = std::exp2(-static_cast<float>(o % 4));
      for (const float w : random(inputs, seed_++, -size, size)) weights.push_back(w);
    }
    return add(OpKind::conv2d, {x, b.constant_of({outputs, 1, 1, inputs}, weights), b.constant({outputs}, -0.1f, 0.1f)},
               attributes);
  }
  // Returns how many layers change.
  size_t finish(int x) {
    b.output(conv(x, 2), "y");
    const Graph graph = b.done();
    return expect_same_bits(graph, input_of(graph, 1));
  }

  GraphBuilder b;

 private:
  unsigned seed_ = 1;
  int x_;
};

// ---- channels that are scaled -------------------------------------------------------------------

TEST(Equalize, ConvolutionsWithReluChange) {
  Network n;
  EXPECT_EQ(n.finish(n.conv(n.conv(n.input(), 8, relu), 4, relu)), 3u);
}

TEST(Equalize, HalvesOfAConcatChange) {
  Network n;
  const int x = n.conv(n.input(), 4, relu);
  EXPECT_EQ(n.finish(n.add(OpKind::concat, {n.conv(x, 4, relu), n.conv(x, 6, relu)}, axis(3))), 4u);
}

TEST(Equalize, SumsHaveOneFactorForAllTheirTerms) {
  Network n;
  const int x = n.conv(n.input(), 4, relu);
  EXPECT_EQ(n.finish(n.add(OpKind::add, {x, n.conv(x, 4)}, relu)), 3u);
}

// Their weights remain, and their biases change.
TEST(Equalize, DepthwiseConvolutionsKeepTheirWeights) {
  Network n;
  EXPECT_EQ(n.finish(n.conv(n.conv(n.input(), 8, relu), 8, relu, 8)), 2u);
}

TEST(Equalize, PoolsAndShufflesCarryFactors) {
  Network n;
  int x = n.add(OpKind::max_pool, {n.conv(n.input(), 8, relu)}, window(2, 2, 0));
  x = n.add(OpKind::reshape, {x}, values({1, 3, 3, 2, 4}));
  x = n.add(OpKind::transpose, {x}, values({0, 1, 2, 4, 3}));
  x = n.add(OpKind::reshape, {x}, values({1, 3, 3, 8}));
  EXPECT_EQ(n.finish(n.add(OpKind::global_average_pool, {x})), 2u);
}

TEST(Equalize, ConstantFactorsCarryFactors) {
  Network n;
  const int x = n.add(OpKind::mul, {n.conv(n.input(), 8), n.b.constant({8})});
  EXPECT_EQ(n.finish(n.add(OpKind::prelu, {x, n.b.constant({8})})), 2u);
}

// ---- channels that are kept ---------------------------------------------------------------------

TEST(Equalize, OtherFunctionsKeepChannels) {
  for (const OpKind kind : {OpKind::sigmoid, OpKind::tanh, OpKind::hard_swish, OpKind::exp}) {
    SCOPED_TRACE(op_name(kind));
    Network n;
    EXPECT_EQ(n.finish(n.add(kind, {n.conv(n.input(), 8)})), 0u);
  }
  for (const Attributes& clamp : {range(-1, 1), range(0.5f, infinity), range(-infinity, -0.5f)}) {
    Network alone, of_layer;
    EXPECT_EQ(alone.finish(alone.add(OpKind::clamp, {alone.conv(alone.input(), 8)}, clamp)), 0u);
    EXPECT_EQ(of_layer.finish(of_layer.conv(of_layer.input(), 8, clamp)), 0u);
  }
}

TEST(Equalize, ProductsOfTwoTensorsKeepChannels) {
  Network n;
  const int x = n.input();
  EXPECT_EQ(n.finish(n.add(OpKind::mul, {n.conv(x, 8), n.conv(x, 8)})), 0u);
}

TEST(Equalize, AddedConstantsKeepChannels) {
  Network n;
  EXPECT_EQ(n.finish(n.add(OpKind::add, {n.conv(n.input(), 8), n.b.constant({8})})), 0u);
  Network scaled;
  const int x = scaled.conv(scaled.input(), 8);
  EXPECT_EQ(scaled.finish(scaled.add(OpKind::scale, {x, scaled.b.constant({8}), scaled.b.constant({8})})), 0u);
}

// A bias that an operator also multiplies by would have two factors.
TEST(Equalize, ConstantsOfSeveralRolesKeepChannels) {
  Network n;
  const int bias = n.b.constant({8});
  const int x = n.add(OpKind::conv2d, {n.input(), n.b.constant({8, 1, 1, 3}), bias});
  EXPECT_EQ(n.finish(n.add(OpKind::mul, {x, bias})), 0u);
}

// ---- limits -------------------------------------------------------------------------------------

// Returns the factors of two channels with ReLU6 whose largest values are these.
Vector<double> factors_of(float first, float second) {
  GraphBuilder b;
  const int x = b.input("x", {1, 1, 1, 1});
  const int y = b.node(OpKind::conv2d, {x, b.constant_of({2, 1, 1, 1}, {first, second})}, relu6);
  b.output(b.node(OpKind::conv2d, {y, b.constant({2, 1, 1, 2})}), "y");
  Graph graph = b.done();
  Equalization equalization;
  expect_ok(equalization.find(graph));
  show(graph, {1}, &equalization);
  return equalization.factors(graph);
}

TEST(Equalize, ChannelsStayBelowTheirLimits) {
  EXPECT_EQ(factors_of(6, 5), (Vector<double>{1, 1}));  // both come near the limit
  const Vector<double> apart = factors_of(4, 0.25f);
  EXPECT_LT(apart[0], 1);
  EXPECT_GT(apart[1], 1);
  const Vector<double> large = factors_of(9, 4);
  EXPECT_EQ(large[0], 1);
  EXPECT_GE(large[1], 1);
  EXPECT_LE(4 * large[1], 0.75 * 6);
}

TEST(Equalize, ChannelsThatAreAlwaysZeroAreKept) { EXPECT_EQ(factors_of(1, -1)[1], 1); }

// ---- random graphs ------------------------------------------------------------------------------

TEST(Equalize, RandomGraphsKeepTheirBits) {
  size_t changed = 0;
  for (unsigned seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = RandomNetwork(seed).make();
    if (seed % 2 != 0) expect_ok(optimize(graph));
    changed += expect_same_bits(graph, input_of(graph, seed)) != 0;
  }
  EXPECT_GE(changed, 200u);
}

}  // namespace equalize_test
}  // namespace quern

// Quantization after training: which nodes compute with bytes, the numbers that tensors get, and how far results are off.
#include "compress/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/pass/passes.h"
#include "run.h"

namespace quern {
namespace quantize_test {

using namespace compress_test;

constexpr float infinity = std::numeric_limits<float>::infinity();

// Builds graphs; weights are random.
struct Builder {
  Graph graph;
  unsigned seed = 1;

  int input(Vector<size_t> shape) {
    const int tensor = add_tensor(graph, "x", QN_F32, std::move(shape));
    graph.inputs.push_back({.tensor = tensor});
    return tensor;
  }
  int weights(Vector<size_t> shape) {
    size_t count = 1;
    for (const size_t d : shape) count *= d;
    return add_constant(graph, "", QN_F32, std::move(shape), random(count, ++seed).data());
  }
  int node(OpKind kind, Vector<int> inputs, Attributes a = {}) {
    String name = op_name(kind);
    name += std::to_string(graph.nodes.size()).c_str();
    return add_node(graph, kind, std::move(name), std::move(inputs), std::move(a));
  }
  int conv(int x, size_t in, size_t out, size_t kernel) {
    Attributes a;
    a.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
    a.min = 0;
    return node(OpKind::conv2d, {x, weights({out, kernel, kernel, in}), weights({out})}, a);
  }
  Graph done(int output) {
    graph.tensors[static_cast<size_t>(output)].name = String("y");
    graph.outputs.push_back({.tensor = output});
    expect_ok(check_graph(graph));
    expect_ok(infer_shapes(graph));
    return std::move(graph);
  }
};

// Two branches that are joined, then a matrix product and a softmax.
Graph sample_graph() {
  Builder b;
  const int x = b.conv(b.input({1, 8, 8, 3}), 3, 8, 3);
  Attributes channels;
  channels.axis = 3;
  const int joined = b.node(OpKind::concat, {b.conv(x, 8, 4, 1), b.conv(x, 8, 6, 3)}, channels);
  Attributes flat;
  flat.values = {0, -1};
  const int y = b.node(OpKind::fully_connected, {b.node(OpKind::reshape, {joined}, flat), b.weights({5, 640})});
  Attributes last;
  last.axis = 1;
  return b.done(b.node(OpKind::softmax, {y}, last));
}

Vector<Range> ranges_of(const Graph& graph, const Floats& x) {
  const Vector<int> tensors = tensors_to_observe(graph);
  Vector<Range> ranges(tensors.size());
  const std::vector<Output> values = run(observed(graph, tensors), x);
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i].add(values[i].floats.data(), values[i].floats.size());
  return ranges;
}

std::string kinds(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (!text.empty()) text += ' ';
    text += op_name(node.kind);
  }
  return text;
}

const Tensor& output_of(const Graph& graph, size_t node) {
  return graph.tensors[static_cast<size_t>(graph.nodes[node].outputs[0])];
}

TEST(Quantize, LayersComputeWithBytesAndTheRestWithFloats) {
  const Graph floats = sample_graph();
  const Floats x = random(192, 9);
  Graph graph = floats;
  expect_ok(quantize(graph, ranges_of(floats, x)));
  const Vector<QuantizedLayer> layers = quantized_layers(floats, graph);
  EXPECT_EQ(kinds(graph), "quantize conv2d conv2d conv2d concat reshape fully_connected dequantize softmax");
  // The parts of the concat have its scale, so that nothing is rounded twice.
  EXPECT_TRUE(output_of(graph, 2).quantization == output_of(graph, 4).quantization);
  ASSERT_EQ(layers.size(), 4u);
  for (const QuantizedLayer& layer : layers) {
    EXPECT_TRUE(layer.bytes) << layer.name.c_str();
    EXPECT_GT(layer.noise_db, 40) << layer.name.c_str();
  }
  EXPECT_EQ(layers[0].weights, 8u * 27);
  const Floats want = run(floats, x)[0].floats, got = run(graph, x)[0].floats;
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 0.05);
}

// Formats that leave these nodes f32.
Formats all_but(const Graph& graph, const Vector<size_t>& f32) {
  Formats formats = formats_for(graph);
  for (const size_t node : f32) formats[node].bits = f32_bits;
  return formats;
}

TEST(Quantize, NodesMayRemainF32) {
  const Graph floats = sample_graph();
  const Floats x = random(192, 9);
  const Floats want = run(floats, x)[0].floats;
  const Vector<size_t> nodes = quantizable_nodes(floats);
  EXPECT_EQ(nodes, (Vector<size_t>{0, 1, 2, 5}));  // concat and reshape follow, softmax has no int8 form
  const struct {
    Vector<size_t> f32;
    const char* kinds;
  } cases[] = {
      {{5}, "quantize conv2d conv2d dequantize conv2d dequantize concat reshape fully_connected softmax"},
      {{0, 1, 2}, "conv2d conv2d quantize conv2d quantize concat reshape fully_connected dequantize softmax"},
      {{1}, "quantize conv2d dequantize conv2d quantize conv2d concat reshape fully_connected dequantize softmax"},
  };
  for (const auto& c : cases) {
    Graph graph = floats;
    expect_ok(quantize(graph, ranges_of(floats, x), all_but(floats, c.f32)));
    EXPECT_EQ(kinds(graph), c.kinds);
    const Floats got = run(graph, x)[0].floats;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 0.05);
  }
  Graph graph = floats;
  EXPECT_EQ(quantize(graph, ranges_of(floats, x), all_but(floats, nodes)), QN_UNSUPPORTED);
}

TEST(Quantize, WeightsAloneMayBeQuantized) {
  const Graph floats = sample_graph();  // its fully-connected layer has 3,200 weights, the others fewer than 3,000
  const Floats x = random(192, 9), want = run(floats, x)[0].floats;
  double last = 0;
  for (const WeightFormat& format :
       {WeightFormat{4, 0}, WeightFormat{4, 32}, WeightFormat{8, 0}, WeightFormat{8, 32}}) {
    Graph graph = floats;
    expect_ok(quantize_weights(graph, formats_for(floats, format)));
    EXPECT_EQ(kinds(graph), "conv2d conv2d conv2d concat reshape fully_connected softmax");
    const Vector<QuantizedLayer> layers = quantized_layers(floats, graph);
    ASSERT_EQ(layers.size(), 4u);
    for (const QuantizedLayer& layer : layers) EXPECT_EQ(layer.weight_bits, layer.weights < 3000 ? 8 : format.bits);
    EXPECT_GT(layers[3].noise_db, last) << "finer than the one before";
    last = layers[3].noise_db;
    const Tensor& weights = tensor_of(graph, graph.nodes[5].inputs[1]);
    EXPECT_EQ(weights.quantization.scales.size(), format.block == 0 ? 5u : 5u * 20);
    const Floats got = run(graph, x)[0].floats;
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], format.bits == 8 ? 0.01 : 0.15);
  }
}

TEST(Quantize, ScalesOf4BitsHaveTheLeastError) {
  for (unsigned seed = 1; seed < 20; ++seed) {
    const Floats drawn = random(32, seed);
    const Vector<double> weights(drawn.begin(), drawn.end());
    const auto error = [&](double scale) {
      double sum = 0;
      for (const double w : weights) sum += std::pow(w - WeightFormat{4, 0}.nearest(w / scale) * scale, 2);
      return sum;
    };
    const double of_row = scale_of_weights(weights.data(), 32, {4, 0}, 0),
                 of_block = scale_of_weights(weights.data(), 32, {4, 32}, 0);
    EXPECT_GT(of_row, 0);
    const auto larger = [](double a, double b) { return std::abs(a) < std::abs(b); };
    EXPECT_EQ(of_block<0, *std::max_element(weights.begin(), weights.end(), larger)> 0) << "-8 has no positive twin";
    for (double scale = 0.05; scale < 0.2; scale += 0.001) {
      EXPECT_LT(error(of_row), 1.05 * error(scale));
      EXPECT_LT(error(of_block), 1.05 * error(of_block > 0 ? scale : -scale));
    }
    EXPECT_GE(scale_of_weights(weights.data(), 32, {4, 0}, 3), 3);
  }
}

// The list of tensors grows while the name of an input is read from it, whatever room the list has.
TEST(Quantize, NodesAreNamedAfterInputs) {
  for (size_t more = 0; more < 40; ++more) {
    Builder b;
    const int x = b.input({1, 4});
    for (size_t i = 0; i < more; ++i) b.weights({1});
    Graph graph = b.done(b.node(OpKind::fully_connected, {x, b.weights({2, 4})}));
    expect_ok(quantize(graph, ranges_of(graph, random(4, 9))));
    EXPECT_STREQ(graph.nodes[0].name.c_str(), "x/quantize") << more;
  }
}

TEST(Quantize, RangesHaveAnExactZero) {
  const Graph floats = sample_graph();
  Vector<Range> ranges(tensors_to_observe(floats).size());
  for (size_t i = 0; i < ranges.size(); ++i) ranges[i] = {i % 2 == 0 ? -1.0f : 0.0f, i == 0 ? 0.0f : 3.0f};
  ranges.back() = {};  // a tensor that is 0
  Graph graph = floats;
  expect_ok(quantize(graph, ranges));
  const Vector<QuantizedLayer> layers = quantized_layers(floats, graph);
  const Quantization& x = output_of(graph, 0).quantization;
  EXPECT_FLOAT_EQ(x.scales[0], 1.0f / 255);
  EXPECT_EQ(x.zero_points[0], 127);
  EXPECT_EQ(output_of(graph, 1).quantization.zero_points[0], -128);
  EXPECT_FLOAT_EQ(output_of(graph, 1).quantization.scales[0], 3.0f / 255);
  EXPECT_EQ(layers[3].output.scales[0], 1);
}

TEST(Quantize, ALayerWithHugeWeightsStaysFloat) {
  Graph graph = sample_graph();
  Node& conv = graph.nodes[0];
  Floats spoilt(8 * 27, 1);
  spoilt[5] = infinity;
  conv.inputs[1] = add_constant(graph, "", QN_F32, {8, 3, 3, 3}, spoilt.data());
  const Vector<Range> ranges(tensors_to_observe(graph).size());
  const Graph floats = graph;
  expect_ok(quantize(graph, ranges));
  const Vector<QuantizedLayer> layers = quantized_layers(floats, graph);
  EXPECT_EQ(kinds(graph), "conv2d quantize conv2d conv2d concat reshape fully_connected dequantize softmax");
  EXPECT_FALSE(layers[0].bytes);
}

TEST(Quantize, ABiasMuchLargerThanTheWeightsGetsLargerSteps) {
  Builder b;
  const Floats weights(12, 1e-9f), bias = {1000, -2000};
  const int w = add_constant(b.graph, "", QN_F32, {2, 6}, weights.data());
  const int c = add_constant(b.graph, "", QN_F32, {2}, bias.data());
  Graph graph = b.done(b.node(OpKind::fully_connected, {b.input({3, 6}), w, c}));
  const Floats x = random(18, 3);
  const Floats want = run(graph, x)[0].floats;
  expect_ok(quantize(graph, ranges_of(graph, x)));
  EXPECT_EQ(kinds(graph), "quantize fully_connected dequantize");
  const Floats got = run(graph, x)[0].floats;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 12);  // a step
}

TEST(Quantize, RefusesNumbersThatAreNotFinite) {
  for (const float spoilt : {infinity, -infinity, std::nanf("")}) {
    Graph graph = sample_graph();
    Vector<Range> ranges(tensors_to_observe(graph).size());
    ranges[1].add(&spoilt, 1);
    EXPECT_EQ(quantize(graph, ranges), QN_BAD_MODEL);
    EXPECT_NE(std::string(qn_last_message()).find("not finite"), std::string::npos) << qn_last_message();
  }
}

TEST(Quantize, RefusesAModelWithoutANodeForBytes) {
  Builder b;
  Attributes last;
  last.axis = 1;
  Graph graph = b.done(b.node(OpKind::softmax, {b.input({2, 3})}, last));
  EXPECT_EQ(quantize(graph, {}), QN_UNSUPPORTED);
  EXPECT_EQ(quantize_weights(graph, formats_for(graph)), QN_UNSUPPORTED);
}

TEST(Quantize, RefusesStates) {
  Builder b;
  Graph graph = b.done(b.input({2, 3}));
  graph.states = {{0, 0}};
  EXPECT_EQ(quantize(graph, {}), QN_UNSUPPORTED);
  EXPECT_NE(std::string(qn_last_message()).find("a model with states can be run, but"), std::string::npos)
      << qn_last_message();
}

}  // namespace quantize_test
}  // namespace quern

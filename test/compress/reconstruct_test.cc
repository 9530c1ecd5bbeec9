// Reconstruction of rounding: sums of layers come closer to those before, whatever their windows; what cannot be
// reconstructed stays.
#include "compress/reconstruct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "graph/pass/passes.h"
#include "run.h"

namespace quern {
namespace reconstruct_test {

using namespace compress_test;

struct Geometry {
  size_t height, width, in, out, groups;
  qn_hw kernel, stride, dilation;
  qn_padding padding;
};

int add_weights(Graph* graph, Vector<size_t> shape, unsigned seed) {
  size_t count = 1;
  for (const size_t d : shape) count *= d;
  return add_constant(*graph, "", QN_F32, std::move(shape), random(count, seed).data());
}

Graph finished(Graph graph, int output) {
  graph.tensors[at(output)].name = String("y");
  graph.outputs.push_back({.tensor = output});
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  return graph;
}

// A convolution, then another one of this geometry, which reads what the first one has lost.
Graph two_layers(const Geometry& g, bool bias) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {2, g.height, g.width, 3});
  graph.inputs.push_back({.tensor = x});
  Attributes first;
  first.min = 0;
  const int y = add_node(graph, OpKind::conv2d, "first",
                         {x, add_weights(&graph, {g.in, 1, 1, 3}, 1), add_weights(&graph, {g.in}, 2)}, first);
  Attributes a;
  a.groups = g.groups, a.stride = g.stride, a.dilation = g.dilation, a.padding = g.padding;
  Vector<int> inputs = {y, add_weights(&graph, {g.out, g.kernel.h, g.kernel.w, g.in / g.groups}, 3)};
  if (bias) inputs.push_back(add_weights(&graph, {g.out}, 4));
  const int z = add_node(graph, OpKind::conv2d, "second", std::move(inputs), a);
  return finished(std::move(graph), z);
}

// Quantizes the graph by what its tensors have for x, but the results of the first layer by only a part of that.
Graph quantized(const Graph& graph, const Floats& x, float part = 1) {
  Graph copy = graph;
  Vector<Range> ranges;
  for (const int tensor : tensors_to_observe(graph)) {
    Range& range = ranges.emplace_back();
    const Floats values = run(observed(graph, {tensor}), x)[0].floats;
    range.add(values.data(), values.size());
    if (tensor == graph.nodes[0].outputs[0]) range.low *= part, range.high *= part;
  }
  expect_ok(quantize(copy, ranges));
  return copy;
}

// What computes the first input of a node, as its only output.
Graph input_of(const Graph& graph, size_t node) {
  Graph part = graph;
  const int tensor = graph.nodes[node].inputs[0];
  part.nodes.resize(node);
  String& name = part.tensors[at(tensor)].name;  // outputs must have one
  if (name.empty()) name = ("input of " + std::to_string(node)).c_str();
  part.outputs.clear();
  part.outputs.push_back({.tensor = tensor, .type = tensor_of(graph, tensor).type});
  return part;
}

void reconstruct(const Graph& real, Graph* bytes, const Floats& x) {
  for (const LayerPair& layer : layer_pairs(real, *bytes)) {
    if (!can_reconstruct(real, layer)) continue;
    Reconstruction reconstruction(real, *bytes, layer, {}, 1);
    const Output before = run(input_of(real, layer.real), x)[0], after = run(input_of(*bytes, layer.bytes), x)[0];
    ASSERT_EQ(before.shape, after.shape);
    expect_ok(reconstruction.add(before.floats.data(), after.bytes.data(), after.shape));
    expect_ok(reconstruction.finish(*bytes));
  }
  expect_ok(check_graph(*bytes));
}

double squared_distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return sum;
}

const Geometry geometries[] = {
    {5, 4, 8, 5, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}}, {5, 4, 4, 6, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {5, 4, 4, 6, 1, {3, 2}, {2, 1}, {1, 2}, {2, 0, 0, 1}},  // a window that is no square, and padding on few sides
    {5, 4, 6, 6, 6, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}},  // depthwise
    {5, 4, 6, 4, 2, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}},  // groups
};

// Bytes cut off what the corner of an image has. Which windows read the corner, and with which weights, decides how much
// the sums lose in the mean, for which the bias makes up.
TEST(Reconstruct, TheMeanOfSumsStays) {
  for (const Geometry& g : geometries) {
    for (const bool bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << "geometry " << &g - geometries << " bias " << bias);
      const Graph real = two_layers(g, bias);
      Floats x = random(2 * g.height * g.width * 3, 5, -0.5f, 1);
      for (float& corner : {std::ref(x[0]), std::ref(x[1]), std::ref(x[2])}) corner = 6;
      const Floats want = run(real, x)[0].floats;
      Graph bytes = quantized(real, x, 0.4f);
      const double nearest = squared_distance(want, run(bytes, x)[0].floats);
      reconstruct(real, &bytes, x);
      const Floats got = run(bytes, x)[0].floats;
      EXPECT_LT(squared_distance(want, got), nearest);
      const float step = quantized_layers(real, bytes).back().output.scales[0];
      for (size_t o = 0; o < g.out; ++o) {
        double off = 0, pixels = 0;
        for (size_t i = o; i < want.size(); i += g.out, ++pixels) off += double{got[i]} - double{want[i]};
        EXPECT_LT(std::abs(off / pixels), 0.3 * double{step}) << "channel " << o;
      }
    }
  }
}

// Elements of a row that are nearly alike make up for what others round off.
TEST(Reconstruct, RoundingErrorsCancel) {
  constexpr size_t rows = 200, depth = 64, outputs = 8;
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {rows, depth});
  graph.inputs.push_back({.tensor = x});
  const int y = add_node(graph, OpKind::fully_connected, "layer", {x, add_weights(&graph, {outputs, depth}, 2)}, {});
  const Graph real = finished(std::move(graph), y);
  const Floats common = random(rows, 3);
  Floats values = random(rows * depth, 5, -0.1f, 0.1f);
  for (size_t i = 0; i < values.size(); ++i) values[i] += common[i / depth];
  const auto error_of = [&](const Graph& bytes) {
    const Node& layer = bytes.nodes[layer_pairs(real, bytes)[0].bytes];
    const Tensor& weights = tensor_of(bytes, layer.inputs[1]);
    const auto* const steps = static_cast<const int8_t*>(bytes.constants[at(weights.constant)].data);
    const float* const before = constant_floats(real, real.nodes[0].inputs[1]);
    double error = 0;
    for (size_t i = 0; i < rows * outputs; ++i) {
      const size_t row = i / outputs, o = i % outputs;
      double sum = 0;
      for (size_t k = 0; k < depth; ++k) {
        const double weight = steps[o * depth + k] * double{weights.quantization.scales[o]};
        sum += (weight - double{before[o * depth + k]}) * double{values[row * depth + k]};
      }
      error += sum * sum;
    }
    return error;
  };
  Graph bytes = quantized(real, values);
  const double nearest = error_of(bytes);
  reconstruct(real, &bytes, values);
  EXPECT_LT(error_of(bytes), 0.2 * nearest);
}

// Levels of weights, and how many bits these take by their frequencies.
struct Levels {
  std::vector<int8_t> all;
  double entropy() const {
    std::map<int8_t, double> counts;
    for (const int8_t level : all) ++counts[level];
    double bits = 0;
    for (const auto& [level, count] : counts) bits -= count * std::log2(count / static_cast<double>(all.size()));
    return bits;
  }
};

// The reconstruction of a layer that reads f32 in both graphs, which has seen x.
Reconstruction observed_layer(const Graph& real, const Graph& quantized, const LayerPair& layer, const Floats& x,
                              const WeightFormat& format) {
  Reconstruction reconstruction(real, quantized, layer, format, 1);
  const Output before = run(input_of(real, layer.real), x)[0], after = run(input_of(quantized, layer.bytes), x)[0];
  expect_ok(reconstruction.add(before.floats.data(), after.floats.data(), after.shape));
  return reconstruction;
}

// The dearer a bit, the fewer of them, and the larger the error, which stays below that of rounding to the nearest level
// of as many bits.
TEST(Reconstruct, FewerBitsCauseLargerErrors) {
  Geometry g = {9, 8, 32, 16, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  for (const size_t groups : {1, 2}) {
    g.groups = groups;
    const Graph real = two_layers(g, true);
    const Floats x = random(2 * g.height * g.width * 3, 5), want = run(real, x)[0].floats;
    double most_bits = 1e9, least_error = 0;
    for (const double of_weight : {6.0, 4.0, 1.5}) {
      SCOPED_TRACE(testing::Message() << of_weight << " bits for each weight, " << groups << " groups");
      Graph squeezed = real;
      expect_ok(quantize_weights(squeezed, formats_for(real)));
      const LayerPair layer = layer_pairs(real, squeezed)[1];
      Reconstruction reconstruction = observed_layer(real, squeezed, layer, x, {});
      const double expected = of_weight * static_cast<double>(g.out * 9 * g.in / groups);
      double bits;
      expect_ok(reconstruction.finish(squeezed, expected, &bits));
      expect_ok(check_graph(squeezed));
      const Tensor& weights = tensor_of(squeezed, squeezed.nodes[layer.bytes].inputs[1]);
      const Constant& constant = squeezed.constants[at(weights.constant)];
      const auto* const bytes = static_cast<const int8_t*>(constant.data);
      const Levels levels = {{bytes, bytes + constant.bytes}};
      EXPECT_NEAR(bits, levels.entropy(), 0.05 * bits + 200);
      EXPECT_NEAR(expected, bits, 0.15 * bits + 200);
      const float* const biases = constant_floats(squeezed, squeezed.nodes[layer.bytes].inputs[2]);
      constexpr uint32_t last_bits = 0xfff;
      for (size_t o = 0; o < g.out; ++o)
        EXPECT_EQ(std::bit_cast<uint32_t>(biases[o]) & last_bits, 0u) << "they take bits, too";
      const double error = squared_distance(want, run(squeezed, x)[0].floats);
      EXPECT_LT(bits, most_bits);
      EXPECT_GT(error, least_error);
      most_bits = bits, least_error = error;

      // Levels nearest to the weights, with a step for which they take as many bits.
      Graph nearest = squeezed;
      Levels simple;
      const float* const floats = constant_floats(real, real.nodes[layer.real].inputs[1]);
      float step = 0.001f;
      for (;; step *= 1.02f) {
        simple.all.clear();
        for (size_t i = 0; i < constant.bytes; ++i) {
          simple.all.push_back(static_cast<int8_t>(std::clamp(std::nearbyint(floats[i] / step), -127.0f, 127.0f)));
        }
        if (simple.entropy() <= levels.entropy()) break;
      }
      Node& node = nearest.nodes[layer.bytes];
      node.inputs[1] = add_constant(nearest, "", QN_S8, weights.shape, simple.all.data());
      nearest.tensors[at(node.inputs[1])].quantization = weights.quantization;
      for (float& scale : nearest.tensors[at(node.inputs[1])].quantization.scales) scale = step;
      node.inputs[2] =
          add_constant(nearest, "", QN_F32, {g.out}, constant_floats(real, real.nodes[layer.real].inputs[2]));
      EXPECT_LT(error, squared_distance(want, run(nearest, x)[0].floats));
    }
  }
}

// Whole blocks become 0, and what is left makes up for them: the same blocks taken from the weights alone cost more.
TEST(Reconstruct, WhatIsLeftMakesUpForZeros) {
  Geometry g = {9, 8, 32, 16, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  for (const size_t groups : {1, 2}) {
    g.groups = groups;
    const Graph real = two_layers(g, true);
    const Floats x = random(2 * g.height * g.width * 3, 5), want = run(real, x)[0].floats;
    Graph squeezed = real;
    expect_ok(quantize_weights(squeezed, formats_for(real)));
    const LayerPair layer = layer_pairs(real, squeezed)[1];
    Reconstruction reconstruction = observed_layer(real, squeezed, layer, x, {});
    reconstruction.prune(0.5, {4, 1});
    const size_t inputs = g.in / groups, depth = 9 * inputs;
    double bits;
    expect_ok(reconstruction.finish(squeezed, 4.0 * static_cast<double>(g.out * depth), &bits));
    const Constant& made = squeezed.constants[at(tensor_of(squeezed, squeezed.nodes[layer.bytes].inputs[1]).constant)];
    const auto* const levels = static_cast<const int8_t*>(made.data);
    const float* const floats = constant_floats(real, real.nodes[layer.real].inputs[1]);
    Floats masked(floats, floats + g.out * depth);
    size_t zeros = 0;
    for (size_t first = 0; first < g.out; first += 4) {
      for (size_t i = 0; i < depth; ++i) {
        bool all = true;
        for (size_t o = first; o < first + 4; ++o) all = all && levels[o * depth + i] == 0;
        zeros += all;
        for (size_t o = first; all && o < first + 4; ++o) masked[o * depth + i] = 0;
      }
    }
    EXPECT_GE(zeros * 4 * 2, g.out * depth);
    EXPECT_LT(zeros * 4 * 2, g.out * depth * 11 / 10) << "others become 0 by chance";
    Graph simple = real;
    Node& node = simple.nodes[layer.real];
    node.inputs[1] = add_constant(simple, "", QN_F32, tensor_of(real, node.inputs[1]).shape, masked.data());
    EXPECT_LT(2 * squared_distance(want, run(squeezed, x)[0].floats), squared_distance(want, run(simple, x)[0].floats));
  }
}

// Two convolutions, of 4,608 and 3,456 weights, whose activations remain f32.
TEST(Reconstruct, WeightsOf4Bits) {
  Geometry g = {9, 8, 32, 16, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}};
  for (const size_t groups : {1, 2}) {
    g.groups = groups;
    if (groups == 2) g.out = 24, g.in = 32;
    const Graph real = two_layers(g, groups == 1);
    const Floats x = random(2 * g.height * g.width * 3, 5), want = run(real, x)[0].floats;
    for (const WeightFormat& format : {WeightFormat{4, 0}, WeightFormat{4, 32}, WeightFormat{8, 32}}) {
      SCOPED_TRACE(testing::Message() << format.bits << " bits, blocks of " << format.block);
      Graph quantized = real;
      expect_ok(quantize_weights(quantized, formats_for(real, format)));
      const double nearest = squared_distance(want, run(quantized, x)[0].floats);
      for (const LayerPair& layer : layer_pairs(real, quantized)) {
        Reconstruction reconstruction =
            observed_layer(real, quantized, layer, x, formats_for(real, format)[layer.real]);
        expect_ok(reconstruction.finish(quantized));
      }
      expect_ok(check_graph(quantized));
      EXPECT_LT(squared_distance(want, run(quantized, x)[0].floats), 0.7 * nearest);
      const Vector<QuantizedLayer> layers = quantized_layers(real, quantized);
      EXPECT_EQ(layers[0].weight_bits, 8) << "a small layer";
      EXPECT_EQ(layers[1].weight_bits, format.bits);
      EXPECT_FALSE(layers[1].bytes);
      EXPECT_GT(layers[1].noise_db, format.bits == 4 ? 10 : 35);
    }
  }
}

// Nothing can be learnt of the weights, but the bias makes up for what bytes lose.
TEST(Reconstruct, AnInputThatNeverChanges) {
  const Graph real = two_layers(geometries[0], true);
  const Floats x(2 * 5 * 4 * 3, 0.37f), want = run(real, x)[0].floats;
  Graph bytes = quantized(real, x);
  reconstruct(real, &bytes, x);
  const Floats got = run(bytes, x)[0].floats;
  const Vector<QuantizedLayer> layers = quantized_layers(real, bytes);
  float most = 0;
  for (size_t i = 0; i < want.size(); ++i) most = std::max(most, std::abs(want[i] - got[i]));
  EXPECT_LT(most, 0.51f * layers.back().output.scales[0]);
}

TEST(Reconstruct, DepthIsLimited) {
  Geometry g = geometries[0];
  g.in = 4608;
  const Graph real = two_layers(g, true);
  const Floats x = random(2 * 5 * 4 * 3, 5);
  Graph bytes = quantized(real, x);
  const LayerPair layer = layer_pairs(real, bytes).back();
  EXPECT_TRUE(can_reconstruct(real, layer));
  g.in = 4609;
  const Graph deeper = two_layers(g, true);
  EXPECT_FALSE(can_reconstruct(deeper, layer_pairs(deeper, quantized(deeper, x)).back()));
}

// The bias takes all steps that there are.
TEST(Reconstruct, AHugeBiasFits) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {3, 6});
  graph.inputs.push_back({.tensor = x});
  const Floats weights(12, 1e-9f), bias = {1000, -2000};
  const int w = add_constant(graph, "", QN_F32, {2, 6}, weights.data());
  const int c = add_constant(graph, "", QN_F32, {2}, bias.data());
  const int y = add_node(graph, OpKind::fully_connected, "layer", {x, w, c}, {});
  const Graph real = finished(std::move(graph), y);
  const Floats values = random(18, 3), want = run(real, values)[0].floats;
  Graph bytes = quantized(real, values);
  reconstruct(real, &bytes, values);
  const Floats got = run(bytes, values)[0].floats;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(want[i], got[i], 12);  // a step
}

// Squares of the input overflow.
TEST(Reconstruct, HugeNumbersKeepTheirWeights) {
  Graph graph;
  const int x = add_tensor(graph, "x", QN_F32, {3, 6});
  graph.inputs.push_back({.tensor = x});
  const int y = add_node(graph, OpKind::fully_connected, "layer", {x, add_weights(&graph, {2, 6}, 1)}, {});
  const Graph real = finished(std::move(graph), y);
  Floats values = random(18, 3);
  for (float& value : values) value *= 1e30f;
  Graph bytes = quantized(real, values);
  const Floats nearest = run(bytes, values)[0].floats;
  reconstruct(real, &bytes, values);
  EXPECT_EQ(run(bytes, values)[0].floats, nearest);
}

TEST(Reconstruct, LayersOfFloatsHaveNoPair) {
  const Graph real = two_layers(geometries[1], true);
  EXPECT_TRUE(layer_pairs(real, real).empty());
}

}  // namespace reconstruct_test
}  // namespace quern

// Nodes between dequantize and quantize compute with bytes, and nodes that move elements move bytes: the kinds of nodes
// before and after, and equal results of plain evaluation and of sessions. All scales are powers of two, so that no
// computation with floats rounds where the plain one does not.
#include <cmath>
#include <memory>

#include "naive.h"
#include "small_graphs.h"

namespace quern::test {
namespace quantize_pass_test {

struct Release {
  void operator()(qn_model* model) const { qn_model_release(model); }
  void operator()(qn_session* session) const { qn_session_release(session); }
};

class Bytes : public GraphBuilder {
 public:
  using GraphBuilder::GraphBuilder;

  // x -> quantize -> dequantize
  int through(int x, float scale, int32_t zero) { return real(quantized(x, scale, zero)); }
  int real(int bytes) { return node(OpKind::dequantize, {bytes}); }

  // Weights whose scales differ for output channels.
  int weights(Shape shape) {
    const size_t channels = shape[0];
    const int tensor = whole<int8_t>(std::move(shape), 127, QN_S8);
    for (size_t o = 0; o < channels; ++o) scales(tensor).push_back(o % 2 == 0 ? 0.0078125f : 0.00390625f);
    return along_channels(tensor);
  }
  // A bias with the scales of the sums, where inputs have this scale.
  int bias(size_t channels, float scale) {
    const int tensor = whole<int32_t>({channels}, 3000, QN_S32);
    for (size_t o = 0; o < channels; ++o) scales(tensor).push_back(scale * (o % 2 == 0 ? 0.0078125f : 0.00390625f));
    return along_channels(tensor);
  }

 private:
  template <class T>
  int whole(Shape shape, int most, qn_type type) {
    size_t count = 1;
    for (const size_t d : shape) count *= d;
    std::vector<T> values(count);
    for (T& x : values) x = static_cast<T>(static_cast<int>(random_() % static_cast<unsigned>(2 * most + 1)) - most);
    return add_constant(graph, String(), type, std::move(shape), values.data());
  }
  Vector<float>& scales(int tensor) { return graph.tensors[static_cast<size_t>(tensor)].quantization.scales; }
  int along_channels(int tensor) {
    graph.tensors[static_cast<size_t>(tensor)].quantization.axis = 0;
    return tensor;
  }

  std::mt19937 random_{11};
};

std::string kinds(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) text += (text.empty() ? "" : " ") + std::string(op_name(node.kind));
  return text;
}

std::vector<std::vector<float>> run(const Graph& graph, const Values& inputs) {
  qn_model* made = nullptr;
  expect_ok(make_model(graph, nullptr, &made));
  const std::unique_ptr<qn_model, Release> model(made);
  qn_session* created = nullptr;
  expect_ok(qn_session_create(model.get(), nullptr, &created));
  const std::unique_ptr<qn_session, Release> session(created);
  std::vector<const void*> addresses;
  for (const Port& port : graph.inputs) addresses.push_back(inputs.at(port.tensor).data());
  expect_ok(qn_session_run(session.get(), addresses.data()));
  std::vector<std::vector<float>> outputs;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    qn_tensor tensor;
    const void* data = nullptr;
    expect_ok(qn_session_output_tensor(session.get(), i, &tensor));
    expect_ok(qn_session_output(session.get(), i, &data));
    const auto* floats = static_cast<const float*>(data);
    outputs.emplace_back(floats, floats + qn_tensor_bytes(&tensor) / sizeof(float));
  }
  return outputs;
}

// Optimizes a copy and checks that it consists of `after` and that sessions and the plain evaluation of both agree. The
// input "x" comes first, so that it has the same number in both.
void expect_optimized(const Graph& before, const std::string& after) {
  Graph graph = before;
  expect_ok(optimize(graph));
  EXPECT_EQ(kinds(graph), after) << "from " << kinds(before);
  Values values = random_inputs(before, 3), inputs;
  for (size_t i = 0; i < before.inputs.size(); ++i) {
    for (float& x : values.at(before.inputs[i].tensor)) x *= 4;
    inputs[graph.inputs[i].tensor] = values.at(before.inputs[i].tensor);
  }
  Values expected = values, again = inputs;
  evaluate_naively(before, expected);
  evaluate_naively(graph, again);
  const auto of_before = run(before, values), of_graph = run(graph, inputs);
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    const std::vector<float>& y = expected.at(before.outputs[i].tensor);
    EXPECT_EQ(again.at(graph.outputs[i].tensor), y);
    EXPECT_EQ(of_before[i], y);
    EXPECT_EQ(of_graph[i], y);
  }
}

TEST(QuantizePass, LayersAndWhatMovesTheirBytes) {
  Bytes b;
  const int x = b.through(b.input("x", {1, 6, 7, 3}), 0.03125f, -3);
  const int c = b.node(OpKind::conv2d, {x, b.weights({4, 3, 3, 3}), b.bias(4, 0.03125f)}, window(1, 2, 1));
  const int r = b.through(b.node(OpKind::clamp, {c}, range(0, 3)), 0.0625f, -128);
  const int turned = b.node(OpKind::transpose, {r}, values({0, 3, 1, 2}));
  const int flat = b.through(b.node(OpKind::reshape, {turned}, values({0, -1})), 0.0625f, -128);
  const int y = b.node(OpKind::fully_connected, {flat, b.weights({5, 48})});
  b.output(b.through(y, 0.125f, 7), "y");
  expect_optimized(b.done(), "quantize conv2d transpose reshape fully_connected dequantize");
}

// Averages of bytes round as the node says, once they are averages of bytes.
TEST(QuantizePass, AveragesKeepTheirRounding) {
  std::vector<std::vector<float>> results;
  for (const qn_pool_rounding rounding : {QN_POOL_ROUND_REAL, QN_POOL_ROUND_S8, QN_POOL_ROUND_U8}) {
    for (const OpKind kind : {OpKind::average_pool, OpKind::global_average_pool}) {
      Bytes b;
      const int x = b.through(b.input("x", {2, 2, 6, 20}), 0.03125f, -3);
      Attributes a = kind == OpKind::average_pool ? window(2, 2, 0) : Attributes();
      a.pool_rounding = rounding;
      b.output(b.through(b.node(kind, {x}, a), 0.03125f, -3), "y");
      Graph graph = b.done();
      expect_ok(optimize(graph));
      EXPECT_EQ(kinds(graph), std::string("quantize ") + op_name(kind) + " dequantize");
      Values values = random_inputs(graph, 3);
      for (float& number : values.at(graph.inputs[0].tensor)) number *= 4;
      Values expected = values;
      evaluate_naively(graph, expected);
      results.push_back(run(graph, values)[0]);
      EXPECT_EQ(results.back(), expected.at(graph.outputs[0].tensor));
    }
  }
  for (size_t i = 2; i < results.size(); ++i) EXPECT_NE(results[i], results[i % 2]) << "no half was rounded";
}

// The bytes of a pad count in such an average; the pooling's own padding does not.
TEST(QuantizePass, PadsStayBeforeRoundedAverages) {
  for (const qn_pool_rounding rounding : {QN_POOL_ROUND_REAL, QN_POOL_ROUND_U8}) {
    Bytes b;
    Attributes a = window(3, 1, 0);
    a.pool_rounding = rounding;
    const int padded = b.node(OpKind::pad, {b.input("x", {1, 6, 6, 2})}, values({0, 1, 1, 0, 0, 1, 1, 0}));
    b.output(b.node(OpKind::average_pool, {padded}, a), "y");
    Graph graph = b.done();
    expect_ok(optimize(graph));
    EXPECT_EQ(kinds(graph), rounding == QN_POOL_ROUND_REAL ? "average_pool" : "pad average_pool");
  }
}

TEST(QuantizePass, FloatsBecomeBytesBeforeTheyMove) {
  Bytes b;
  const int x = b.input("x", {1, 3, 6, 7});
  const int image = b.through(b.node(OpKind::transpose, {x}, values({0, 2, 3, 1})), 0.03125f, -3);
  const int c = b.node(OpKind::conv2d, {image, b.weights({4, 3, 3, 3}), b.bias(4, 0.03125f)}, window(1, 2, 1));
  const int turned = b.node(OpKind::transpose, {c}, values({0, 3, 1, 2}));
  b.output(b.through(b.node(OpKind::reshape, {turned}, values({0, -1})), 0.0625f, 5), "y");
  expect_optimized(b.done(), "quantize transpose conv2d transpose reshape dequantize");
}

TEST(QuantizePass, FloatsThatSomebodyReadsMoveThemselves) {
  Bytes b;
  const int x = b.input("x", {1, 3, 6, 7});
  const int image = b.node(OpKind::transpose, {x}, values({0, 2, 3, 1}));
  b.output(b.through(image, 0.03125f, -3), "y");
  b.output(image, "floats");
  expect_optimized(b.done(), "transpose quantize dequantize");
}

TEST(QuantizePass, PartsOfAConcatGetItsScale) {
  Bytes b;
  const int x = b.through(b.input("x", {1, 3, 4, 5}), 0.0625f, 5), z = b.through(b.input("z", {1, 3, 4, 2}), 0.125f, 0);
  const int joined = b.node(OpKind::concat, {x, z, x}, axis(3));
  b.output(b.through(joined, 0.125f, 0), "y");
  expect_optimized(b.done(), "quantize quantize requantize concat dequantize");
}

TEST(QuantizePass, OneScaleBecomesAnother) {
  Bytes b;
  const int x = b.through(b.input("x", {2, 9}), 0.0625f, 5);
  b.output(b.through(x, 0.125f, -7), "y");
  expect_optimized(b.done(), "quantize requantize dequantize");
}

TEST(QuantizePass, AConvolutionTakesThePaddingBefore) {
  Bytes b;
  const int x = b.through(b.input("x", {1, 5, 4, 3}), 0.03125f, -3);
  const int padded = b.node(OpKind::pad, {x}, values({0, 1, 0, 0, 0, 0, 2, 0}));
  const int c = b.node(OpKind::conv2d, {padded, b.weights({4, 3, 3, 3})});
  b.output(b.through(c, 0.0625f, 0), "y");
  expect_optimized(b.done(), "quantize conv2d dequantize");
}

TEST(QuantizePass, ABiasOfFloatsIsRoundedToStepsOfTheSums) {
  Bytes b;
  const int x = b.through(b.input("x", {3, 8}), 0.03125f, -3);
  const int bias = b.constant_of({4}, {0.5f, -0.25f, 0.125f, 1});  // whole numbers of steps
  const int y = b.node(OpKind::fully_connected, {x, b.weights({4, 8}), bias}, range(-2, 1.5f));
  b.output(b.through(y, 0.0625f, 0), "y");
  expect_optimized(b.done(), "quantize fully_connected dequantize");
}

TEST(QuantizePass, BytesAsWeightsOfFloats) {
  Bytes b;
  const int x = b.input("x", {1, 5, 5, 4});
  Attributes depthwise = window(1, 1, 1);
  depthwise.groups = 4;
  const int c = b.node(OpKind::conv2d, {x, b.weights({4, 3, 3, 1}), b.bias(4, 0.03125f)}, depthwise);
  b.output(b.node(OpKind::fully_connected, {c, b.weights({3, 4}), b.constant({3})}), "y");
  Graph graph = b.done();
  EXPECT_EQ(kinds(graph), "conv2d fully_connected");
  const Values inputs = random_inputs(graph, 3);
  Values expected = inputs;
  evaluate_naively(graph, expected);
  const auto expect_near = [&](const Graph& g) {
    EXPECT_LE(difference(expected.at(graph.outputs[0].tensor),
                         run(g, {{g.inputs[0].tensor, inputs.begin()->second}})[0].data()),
              4e-6f);
  };
  expect_near(graph);
  expect_ok(optimize(graph));
  expect_near(graph);
}

TEST(QuantizePass, LeavesFloatsWhereSomebodyNeedsThem) {
  Bytes b;
  const int x = b.through(b.input("x", {2, 8}), 0.03125f, -3);
  const int y = b.node(OpKind::fully_connected, {x, b.weights({4, 8}), b.bias(4, 0.03125f)});
  b.output(y, "floats");
  b.output(b.through(y, 0.0625f, 0), "bytes");
  expect_optimized(b.done(), "quantize dequantize fully_connected quantize dequantize");
}

TEST(QuantizePass, LeavesFloatsWithoutAKernelOfBytes) {
  Bytes b;
  const int x = b.through(b.input("x", {2, 8}), 0.03125f, -3);
  b.output(b.through(b.node(OpKind::div, {x, b.constant_of({1}, {2})}), 0.0625f, 0), "y");
  Graph graph = b.done();
  expect_ok(optimize(graph));
  EXPECT_EQ(kinds(graph), "quantize dequantize div quantize dequantize");
}

TEST(QuantizePass, WhatChoosesElementsMovesBytes) {
  Bytes b;
  const int x = b.through(b.input("x", {1, 6, 7, 3}), 0.03125f, -3);
  const int pooled = b.node(OpKind::max_pool, {x}, window(2, 2, 0));
  Attributes larger = values({6, 6});
  larger.mode = QN_RESIZE_NEAREST;
  const int large = b.node(OpKind::resize, {pooled}, larger);
  b.output(b.through(large, 0.03125f, -3), "y");
  expect_optimized(b.done(), "quantize max_pool resize dequantize");
}

TEST(QuantizePass, AMaximumGetsTheScaleOfItsResult) {
  Bytes b;
  const int x = b.through(b.input("x", {1, 6, 7, 3}), 0.03125f, -3);
  Attributes pool = window(2, 1, 0);
  pool.min = 0, pool.max = 1;
  b.output(b.through(b.node(OpKind::max_pool, {x}, pool), 0.125f, 9), "y");
  expect_optimized(b.done(), "quantize requantize max_pool dequantize");
}

TEST(QuantizePass, Arithmetic) {
  for (const OpKind kind : {OpKind::add, OpKind::sub, OpKind::mul}) {
    Bytes b;
    const int x = b.through(b.input("x", {1, 3, 4, 5}), 0.0625f, 5), z = b.through(b.input("z", {4, 5}), 0.125f, -9);
    const int y = b.node(kind, {x, z}, range(-1, 3));
    b.output(b.through(b.node(OpKind::clamp, {y}, range(0, 9)), 0.25f, 0), "y");
    expect_optimized(b.done(), std::string("quantize quantize ") + op_name(kind) + " dequantize");
  }
}

TEST(QuantizePass, Averages) {
  Bytes b;
  const int x = b.through(b.input("x", {1, 8, 4, 5}), 0.0625f, 5);
  const int pooled = b.through(b.node(OpKind::average_pool, {x}, window(2, 2, 0)), 0.03125f, 4);
  b.output(b.through(b.node(OpKind::global_average_pool, {pooled}), 0.015625f, 0), "y");
  expect_optimized(b.done(), "quantize average_pool global_average_pool dequantize");
}

TEST(QuantizePass, Functions) {
  Bytes b;
  const int x = b.through(b.input("x", {3, 70}), 0.0625f, 5);
  const int s = b.through(b.node(OpKind::power, {x}, power(1, 0.5f, 2)), 0.125f, -128);
  const int h = b.through(b.node(OpKind::hard_swish, {s}), 0.25f, -100);
  const int e = b.through(b.node(OpKind::sigmoid, {h}), 0.00390625f, -128);
  b.output(b.through(b.node(OpKind::clamp, {e}, range(0.25f, 0.75f)), 0.00390625f, 0), "y");
  expect_optimized(b.done(), "quantize power hard_swish sigmoid clamp dequantize");
}

TEST(QuantizePass, LeavesPowersThatTheCLibraryComputes) {
  Bytes b;
  const int x = b.through(b.input("x", {3, 7}), 0.0625f, 5);
  b.output(b.through(b.node(OpKind::power, {x}, power(1, 0.5f, 3)), 0.125f, -128), "y");
  Graph graph = b.done();
  expect_ok(optimize(graph));
  EXPECT_EQ(kinds(graph), "quantize dequantize power quantize dequantize");
}

// Whatever the bias's own scales say, the layer must compute its real numbers.
TEST(QuantizePass, LeavesALayerWhoseBiasHasOtherScales) {
  Bytes b;
  const int x = b.through(b.input("x", {2, 8}), 0.03125f, -3);
  const int y = b.node(OpKind::fully_connected, {x, b.weights({4, 8}), b.bias(4, 0.0625f)});
  b.output(b.through(y, 0.0625f, 0), "y");
  expect_optimized(b.done(), "quantize dequantize fully_connected quantize dequantize");
}

}  // namespace quantize_pass_test
}  // namespace quern::test

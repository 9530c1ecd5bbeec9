// Graphs that compute with bytes: convolutions and fully-connected layers between quantized ports, and what is wrong with
// their scales.
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "base/cpu.h"
#include "small_graphs.h"

namespace quern::test {
namespace quantized_test {

using Bytes = std::vector<int8_t>;

template <class T>
std::vector<T> drawn(size_t count, int low, int high, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& x : values) x = static_cast<T>(low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  return values;
}

Quantization one_scale(float scale, int32_t zero) {
  Quantization q;
  q.scales = {scale};
  q.zero_points = {zero};
  return q;
}

Quantization channel_scales(size_t channels) {
  Quantization q;
  for (size_t i = 0; i < channels; ++i) q.scales.push_back(0.01f + 0.001f * static_cast<float>(i));
  q.axis = 0;
  return q;
}

struct Size {
  size_t height = 6, width = 5, in = 3, between = 7, out = 4;
};

const Quantization of_x = one_scale(0.05f, -7), of_c = one_scale(0.2f, 3), of_y = one_scale(0.9f, -20);

int quantized(GraphBuilder& b, int tensor, const Quantization& q) {
  b.graph.tensors[static_cast<size_t>(tensor)].type = QN_S8;
  b.graph.tensors[static_cast<size_t>(tensor)].quantization = q;
  return tensor;
}

// x -> a convolution with 3x3 taps, clamped to [0, 6] -> reshape -> fully connected -> y. All is bytes.
Graph quantized_graph(const Size& s) {
  GraphBuilder b;
  const int x = quantized(b, b.input("x", {2, s.height, s.width, s.in}, QN_S8), of_x);
  const size_t taps = s.between * 9 * s.in, features = s.height * s.width * s.between;
  const Bytes w = drawn<int8_t>(taps, -128, 127, 1), matrix = drawn<int8_t>(s.out * features, -127, 127, 2);
  const std::vector<int32_t> bias = drawn<int32_t>(s.between, -5000, 5000, 3);
  const int weights = add_constant(b.graph, "", QN_S8, {s.between, 3, 3, s.in}, w.data());
  const int biases = add_constant(b.graph, "", QN_S32, {s.between}, bias.data());
  const int rows = add_constant(b.graph, "", QN_S8, {s.out, features}, matrix.data());
  b.graph.tensors[static_cast<size_t>(weights)].quantization = channel_scales(s.between);
  b.graph.tensors[static_cast<size_t>(rows)].quantization = one_scale(0.003f, 0);
  Attributes a = window(3, 1, 1);
  a.max = 6;
  a.min = 0;
  const int c = quantized(b, b.node(OpKind::conv2d, {x, weights, biases}, a), of_c);
  const int flat = quantized(b, b.node(OpKind::reshape, {c}, values({0, -1})), of_c);
  const int y = quantized(b, b.node(OpKind::fully_connected, {flat, rows}), of_y);
  b.output(y, "y", QN_S8);
  return b.done();
}

int8_t ended(int64_t sum, float scale, const Quantization& to, float min, float max) {
  const auto step = [&](float real) {
    return std::clamp<double>(std::nearbyint(double{real / to.scales[0]}) + to.zero_points[0], -128, 127);
  };
  const double steps = std::nearbyint(double{static_cast<float>(sum) * scale}) + to.zero_points[0];
  return static_cast<int8_t>(std::clamp(steps, step(min), step(max)));
}

Bytes expected_of(const Graph& graph, const Size& s, const Bytes& x) {
  const auto bytes = [&](size_t node) {
    const Tensor& t = graph.tensors[static_cast<size_t>(graph.nodes[node].inputs[1])];
    return static_cast<const int8_t*>(graph.constants[static_cast<size_t>(t.constant)].data);
  };
  const std::vector<int32_t> bias = drawn<int32_t>(s.between, -5000, 5000, 3);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const size_t features = s.height * s.width * s.between;
  Bytes y;
  for (size_t n = 0; n < 2; ++n) {
    Bytes between;
    for (size_t pixel = 0; pixel < s.height * s.width; ++pixel) {
      for (size_t o = 0; o < s.between; ++o) {
        int64_t sum = bias[o];
        for (size_t tap = 0; tap < 9; ++tap) {
          const size_t row = pixel / s.width + tap / 3 - 1, column = pixel % s.width + tap % 3 - 1;
          if (row >= s.height || column >= s.width) continue;
          for (size_t i = 0; i < s.in; ++i) {
            const int a = x[((n * s.height + row) * s.width + column) * s.in + i] - of_x.zero_points[0];
            sum += a * bytes(0)[(o * 9 + tap) * s.in + i];
          }
        }
        const float scale = of_x.scales[0] * channel_scales(s.between).scales[o] / of_c.scales[0];
        between.push_back(ended(sum, scale, of_c, 0, 6));
      }
    }
    for (size_t o = 0; o < s.out; ++o) {
      int64_t sum = 0;
      for (size_t i = 0; i < features; ++i) sum += (between[i] - of_c.zero_points[0]) * bytes(2)[o * features + i];
      y.push_back(ended(sum, of_c.scales[0] * 0.003f / of_y.scales[0], of_y, -infinity, infinity));
    }
  }
  return y;
}

// `steps` receives how many steps a run has; nodes that run in one step count once.
Bytes run(const Graph& graph, const Bytes& x, size_t threads, qn_algorithm algorithm = QN_ALGORITHM_AUTO,
          size_t* steps = nullptr) {
  qn_model* model = nullptr;
  expect_ok(make_model(graph, nullptr, &model));
  qn_session_options options;
  qn_session_options_init(&options);
  options.threads = threads;
  options.algorithm = algorithm;
  options.profile = 1;
  qn_session* session = nullptr;
  expect_ok(qn_session_create(model, &options, &session));
  const void* const inputs[] = {x.data()};
  expect_ok(qn_session_run(session, inputs));
  if (steps != nullptr) *steps = qn_session_profile_count(session);
  qn_tensor tensor;
  const void* data = nullptr;
  expect_ok(qn_session_output_tensor(session, 0, &tensor));
  EXPECT_EQ(tensor.type, QN_S8);
  EXPECT_EQ(tensor.quantization.scale, of_y.scales[0]);
  expect_ok(qn_session_output(session, 0, &data));
  const auto* bytes = static_cast<const int8_t*>(data);
  Bytes result(bytes, bytes + qn_tensor_bytes(&tensor));
  qn_session_release(session);
  qn_model_release(model);
  return result;
}

TEST(QuantizedGraph, ComputesExactlyWithAnyNumberOfThreads) {
  for (const Size& s : {Size(), Size{1, 1, 1, 1, 1}, Size{9, 11, 16, 33, 10}, Size{4, 4, 4, 8, 17}}) {
    const Graph graph = quantized_graph(s);
    const Bytes x = drawn<int8_t>(2 * s.height * s.width * s.in, -128, 127, 9);
    const Bytes expected = expected_of(graph, s, x);
    for (const size_t threads : {1, 2, 4}) EXPECT_EQ(run(graph, x, threads), expected);
  }
}

TEST(QuantizedGraph, AfterThePassesAndInAFile) {
  const Size s;
  Graph graph = quantized_graph(s);
  const Bytes x = drawn<int8_t>(2 * s.height * s.width * s.in, -128, 127, 9);
  const Bytes expected = expected_of(graph, s, x);
  expect_ok(optimize(graph));
  EXPECT_EQ(run(graph, x, 2), expected);
  Shared<Buffer> image;
  const Graph again = read_back(graph, &image);
  EXPECT_EQ(run(again, x, 1), expected);
}

// A layer of floats that quantizes its input, as it was made and from a file.
Graph dynamic_graph(bool quantize_input, qn_type weights_type = QN_S8) {
  GraphBuilder b;
  const int x = b.input("x", {3, 6});
  const Bytes matrix = drawn<int8_t>(4 * 6, -127, 127, 2);
  int weights = b.constant({4, 6});
  if (weights_type == QN_S8) {
    weights = add_constant(b.graph, "", QN_S8, {4, 6}, matrix.data());
    b.graph.tensors[static_cast<size_t>(weights)].quantization = channel_scales(4);
  }
  Attributes a;
  a.quantize_input = quantize_input;
  b.output(b.node(OpKind::fully_connected, {x, weights, b.constant({4})}, a), "y");
  return std::move(b.graph);
}

std::vector<float> run_floats(const Graph& graph, const std::vector<float>& x) {
  qn_model* model = nullptr;
  expect_ok(make_model(graph, nullptr, &model));
  qn_session* session = nullptr;
  expect_ok(qn_session_create(model, nullptr, &session));
  const void* const inputs[] = {x.data()};
  expect_ok(qn_session_run(session, inputs));
  const void* data = nullptr;
  expect_ok(qn_session_output(session, 0, &data));
  const auto* floats = static_cast<const float*>(data);
  std::vector<float> result(floats, floats + 12);
  qn_session_release(session);
  qn_model_release(model);
  return result;
}

TEST(QuantizedGraph, LayersThatQuantizeTheirInput) {
  Graph graph = dynamic_graph(true), plain = dynamic_graph(false);
  for (Graph* g : {&graph, &plain}) {
    expect_ok(check_graph(*g));
    expect_ok(infer_shapes(*g));
  }
  std::vector<float> x;
  for (int i = 0; i < 18; ++i) x.push_back(std::sin(static_cast<float>(i)));
  const std::vector<float> y = run_floats(graph, x), real = run_floats(plain, x);
  bool differs = false;
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], real[i], 0.05) << i;  // a step is 2 / 255, and weights are about 1
    differs = differs || y[i] != real[i];
  }
  EXPECT_TRUE(differs);
  Shared<Buffer> image;
  const Graph again = read_back(graph, &image);
  EXPECT_TRUE(again.nodes[0].attributes.quantize_input);
  EXPECT_EQ(run_floats(again, x), y);
  Graph refused = dynamic_graph(true, QN_F32);
  EXPECT_EQ(infer_shapes(refused), QN_BAD_MODEL);
  EXPECT_STREQ(qn_last_message(),
               "node 'fully_connected0' (fully_connected): quantize_input with an input of f32 and weights of f32, not "
               "f32 and s8");
}

// A layer whose weights have scales for blocks of 32 inputs, of which the last one is not full.
Graph graph_of_blocks() {
  GraphBuilder b;
  const int x = b.input("x", {3, 70});
  const Bytes matrix = drawn<int8_t>(4 * 70, -8, 7, 2);
  const int weights = add_constant(b.graph, "w", QN_S8, {4, 70}, matrix.data());
  Quantization& q = b.graph.tensors[static_cast<size_t>(weights)].quantization;
  for (size_t i = 0; i < 12; ++i) q.scales.push_back(0.01f * static_cast<float>(1 + i));
  q.axis = 0;
  q.block = 32;
  Attributes a;
  a.quantize_input = true;
  b.output(b.node(OpKind::fully_connected, {x, weights, b.constant({4})}, a), "y");
  return std::move(b.graph);
}

TEST(QuantizedGraph, ScalesForBlocksOfWeights) {
  Graph graph = graph_of_blocks();
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  const Tensor& weights = graph.tensors[1];
  const auto* bytes = static_cast<const int8_t*>(graph.constants[static_cast<size_t>(weights.constant)].data);
  const float* bias = constant_floats(graph, graph.nodes[0].inputs[2]);
  std::vector<float> x;
  for (int i = 0; i < 3 * 70; ++i) x.push_back(std::sin(static_cast<float>(i)));
  const std::vector<float> y = run_floats(graph, x);
  for (size_t i = 0; i < y.size(); ++i) {
    double sum = bias[i % 4];
    for (size_t k = 0; k < 70; ++k) {
      const double w = bytes[i % 4 * 70 + k] * double{weights.quantization.scales[i % 4 * 3 + k / 32]};
      sum += w * double{x[i / 4 * 70 + k]};
    }
    EXPECT_NEAR(y[i], sum, 0.05) << i;  // a step is 2 / 255, and weights are below 1
  }
  Shared<Buffer> image;
  const Graph again = read_back(graph, &image);
  EXPECT_EQ(again.tensors[static_cast<size_t>(again.nodes[0].inputs[1])].quantization, weights.quantization);
  EXPECT_EQ(run_floats(again, x), y);
}

// Convolutions compute with the real weights that blocks stand for.
TEST(QuantizedGraph, ConvolutionsTakeScalesForBlocks) {
  for (const size_t groups : {1, 2, 8}) {
    const size_t of_group = 8 / groups, depth = 9 * of_group, runs = (depth + 31) / 32;
    const Bytes steps = drawn<int8_t>(8 * depth, -8, 7, 2);
    std::vector<float> floats(steps.size());
    Quantization q;
    q.axis = 0, q.block = 32;
    for (size_t i = 0; i < 8 * runs; ++i)
      q.scales.push_back(i % 3 == 0 ? -0.02f : 0.01f * static_cast<float>(1 + i % 5));
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = steps[i] * q.scales[i / depth * runs + i % depth / 32];
    std::vector<float> results[2];
    for (const bool blocks : {false, true}) {
      GraphBuilder b;
      const int x = b.input("x", {2, 6, 5, 8});
      const int w = blocks ? add_constant(b.graph, "", QN_S8, {8, 3, 3, of_group}, steps.data())
                           : add_constant(b.graph, "", QN_F32, {8, 3, 3, of_group}, floats.data());
      if (blocks) b.graph.tensors[at(w)].quantization = q;
      Attributes a = window(3, 1, 1);
      a.groups = groups;
      b.output(b.node(OpKind::conv2d, {x, w, b.constant({8})}, a), "y");
      std::vector<float> input;
      for (int i = 0; i < 2 * 6 * 5 * 8; ++i) input.push_back(std::sin(static_cast<float>(i)));
      results[blocks] = run_floats(b.done(), input);
    }
    EXPECT_EQ(results[0], results[1]) << groups << " groups";
  }
}

TEST(QuantizedGraph, FaultsOfBlocksAreRefused) {
  const auto weights = [](Graph& g) -> Tensor& { return g.tensors[1]; };
  const std::vector<std::pair<const char*, std::function<void(Graph&)>>> faults = {
      {"it has 11 scales, which is not one for each block of 32",
       [&](Graph& g) { weights(g).quantization.scales.pop_back(); }},
      {"it has 12 scales, which is not one for each block of 64",
       [&](Graph& g) { weights(g).quantization.block = 64; }},
      {"expected finite scales, got -inf", [&](Graph& g) { weights(g).quantization.scales[5] = -INFINITY; }},
      {"expected finite scales, got nan", [&](Graph& g) { weights(g).quantization.scales[11] = std::nanf(""); }},
      {"expected scales for blocks of an s8 constant quantized along axis 0",
       [&](Graph& g) { weights(g).quantization.axis = 1; }},
      {"expected scales for blocks of an s8 constant quantized along axis 0",
       [&](Graph& g) { weights(g).quantization.zero_points.resize(12); }},
      {"expected scales for blocks of an s8 constant quantized along axis 0",
       [&](Graph& g) { weights(g).type = QN_U8; }},
      {"expected scales for blocks of an s8 constant quantized along axis 0",
       [&](Graph& g) { g.tensors[0].quantization = weights(g).quantization; }},
      {"blocks of 35, not of a multiple of 32",
       [&](Graph& g) { weights(g).quantization.block = 35, weights(g).quantization.scales.resize(8); }},
      {"weights with scales for blocks, but an input of s8",
       [&](Graph& g) {
         g.nodes[0].attributes.quantize_input = false;
         g.nodes[0].inputs.resize(2);
         for (const int t : {g.nodes[0].inputs[0], g.nodes[0].outputs[0]}) {
           g.tensors[at(t)].type = QN_S8;
           g.tensors[at(t)].quantization.scales = {1};
         }
         g.inputs[0].type = g.outputs[0].type = QN_S8;
       }},
      {"input 0 has scales for blocks, but only weights may have them",
       [&](Graph& g) {
         g.nodes[0].kind = OpKind::dequantize;
         g.nodes[0].inputs = {1};
       }},
      {"output 0 has scales for blocks", [&](Graph& g) { g.outputs[0] = {.tensor = 1, .type = QN_S8}; }},
      {"weights with scales for blocks are not all in -8 .. 7",
       [&](Graph& g) {
         const auto& c = g.constants[static_cast<size_t>(weights(g).constant)];
         static_cast<int8_t*>(const_cast<void*>(c.data))[7] = 8;
       }},
  };
  for (const auto& [message, spoil] : faults) {
    Graph graph = graph_of_blocks();
    spoil(graph);
    qn_model* model = nullptr;
    const bool refused =
        check_graph(graph) != QN_OK || infer_shapes(graph) != QN_OK || make_model(graph, nullptr, &model) != QN_OK;
    EXPECT_TRUE(refused) << message;
    EXPECT_NE(std::string(qn_last_message()).find(message), std::string::npos) << qn_last_message();
    qn_model_release(model);
  }
}

// A sum is computed with the convolution before it, unless an algorithm is forced, and has the same bits.
TEST(QuantizedGraph, ResidualsAreFused) {
  GraphBuilder b;
  const Shape shape = {2, 6, 5, 19};
  const int x = quantized(b, b.input("x", shape, QN_S8), of_x);
  const Bytes w = drawn<int8_t>(19 * 19, -128, 127, 1);
  const int weights = add_constant(b.graph, "", QN_S8, {19, 1, 1, 19}, w.data());
  b.graph.tensors[static_cast<size_t>(weights)].quantization = channel_scales(19);
  Attributes clamped = window(1, 1, 0);
  clamped.min = -3;
  const int c = quantized(b, b.node(OpKind::conv2d, {x, weights}, clamped), of_c);
  Attributes relu;
  relu.min = 0;
  b.output(quantized(b, b.node(OpKind::add, {x, c}, relu), of_y), "y", QN_S8);
  const Graph graph = b.done();
  const Bytes input = drawn<int8_t>(2 * 6 * 5 * 19, -128, 127, 9);
  size_t fused = 0, apart = 0;
  const Bytes expected = run(graph, input, 1, QN_ALGORITHM_GEMM, &apart);
  EXPECT_EQ(apart, 2u);
  for (const size_t threads : {1, 2, 4}) EXPECT_EQ(run(graph, input, threads, QN_ALGORITHM_AUTO, &fused), expected);
  EXPECT_EQ(fused, 1u);
}

// A depthwise convolution runs with the pointwise one behind it where the cache would not hold what lies between them.
TEST(QuantizedGraph, ChainsAreFused) {
  const size_t c = 64, width = 64, height = cpu().l2_bytes / 2 / (c * width) + 20, outputs = 10;
  GraphBuilder b;
  const int x = quantized(b, b.input("x", {1, height, width, c}, QN_S8), of_x);
  const Bytes taps = drawn<int8_t>(c * 9, -128, 127, 1), w = drawn<int8_t>(outputs * c, -128, 127, 2);
  const int depth = add_constant(b.graph, "", QN_S8, {c, 3, 3, 1}, taps.data());
  const int point = add_constant(b.graph, "", QN_S8, {outputs, 1, 1, c}, w.data());
  b.graph.tensors[static_cast<size_t>(depth)].quantization = channel_scales(c);
  b.graph.tensors[static_cast<size_t>(point)].quantization = channel_scales(outputs);
  Attributes a = window(3, 1, 1);
  a.groups = c;
  const int between = quantized(b, b.node(OpKind::conv2d, {x, depth}, a), of_c);
  b.output(quantized(b, b.node(OpKind::conv2d, {between, point}, window(1, 1, 0)), of_y), "y", QN_S8);
  const Graph graph = b.done();
  const Bytes input = drawn<int8_t>(height * width * c, -128, 127, 9);
  size_t fused = 0, apart = 0;
  const Bytes expected = run(graph, input, 1, QN_ALGORITHM_GEMM, &apart);
  EXPECT_EQ(apart, 2u);
  for (const size_t threads : {1, 2, 4}) EXPECT_EQ(run(graph, input, threads, QN_ALGORITHM_AUTO, &fused), expected);
  EXPECT_EQ(fused, 1u);
}

// A step of the input is beyond all steps of the output, as floats count: the layer between computes real numbers.
TEST(QuantizedGraph, ScalesTooFarApartAreNotFused) {
  GraphBuilder b;
  const int x = b.input("x", {1, 4, 4, 2});
  b.graph.tensors[static_cast<size_t>(x)].type = b.graph.inputs[0].type = QN_S8;
  b.graph.tensors[static_cast<size_t>(x)].quantization.scales = {1e30f};
  Attributes pool;
  pool.kernel = {2, 2};
  const int real = b.node(OpKind::dequantize, {x}), y = b.node(OpKind::average_pool, {real}, pool);
  const int bytes = b.node(OpKind::quantize, {y});
  b.graph.tensors[static_cast<size_t>(bytes)].type = QN_S8;
  b.graph.tensors[static_cast<size_t>(bytes)].quantization.scales = {1e-38f};
  b.output(bytes, "y", QN_S8);
  Graph graph = b.done();
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  qn_model* model = nullptr;
  expect_ok(make_model(graph, nullptr, &model));
  qn_session* session = nullptr;
  EXPECT_EQ(qn_session_create(model, nullptr, &session), QN_OK) << qn_last_message();
  qn_session_release(session);
  qn_model_release(model);
}

TEST(QuantizedGraph, FaultsHaveClearMessages) {
  const auto tensor = [](Graph& g, size_t node, size_t input) -> Tensor& {
    return g.tensors[static_cast<size_t>(g.nodes[node].inputs[input])];
  };
  const auto output = [](Graph& g, size_t node) -> Tensor& {
    return g.tensors[static_cast<size_t>(g.nodes[node].outputs[0])];
  };
  const std::pair<const char*, std::function<void(Graph&)>> faults[] = {
      {"node 'conv2d0' (conv2d): the input has no single scale", [&](Graph& g) { tensor(g, 0, 0).quantization = {}; }},
      {"the output has no single scale", [&](Graph& g) { output(g, 0).quantization = {}; }},
      {"the weights have no scale", [&](Graph& g) { tensor(g, 0, 1).quantization = {}; }},
      {"the weights are quantized along axis 3, not 0",
       [&](Graph& g) {
         tensor(g, 0, 1).quantization = channel_scales(3);
         tensor(g, 0, 1).quantization.axis = 3;
       }},
      {"zero point that is not 0", [&](Graph& g) { tensor(g, 2, 1).quantization.zero_points = {1}; }},
      {"scale", [&](Graph& g) { tensor(g, 0, 0).quantization.scales = {0}; }},
      {"scale", [&](Graph& g) { tensor(g, 0, 0).quantization.scales = {std::nanf("")}; }},
      {"scale", [&](Graph& g) { tensor(g, 0, 1).quantization.scales[2] = -1; }},
      {"zero point", [&](Graph& g) { tensor(g, 0, 0).quantization.zero_points = {128}; }},
      {"the bias has scale", [&](Graph& g) { tensor(g, 0, 2).quantization = one_scale(0.5f, 0); }},
      {"the bias has a zero point",
       [&](Graph& g) {
         tensor(g, 0, 2).quantization = one_scale(0.5f, 0);
         tensor(g, 0, 2).quantization.zero_points = {1};
       }},
      {"the bias has 9 scales, the weights 7",  // of which the first seven are right
       [&](Graph& g) {
         const int32_t zeros[9] = {};
         const int bias = add_constant(g, "", QN_S32, {9}, zeros);
         Quantization q = tensor(g, 0, 1).quantization;
         q.zero_points.clear();
         for (float& scale : q.scales) scale *= tensor(g, 0, 0).quantization.scales[0];
         q.scales.resize(9, q.scales[0]);
         g.tensors[static_cast<size_t>(bias)].quantization = q;
         g.nodes[0].inputs[2] = bias;
       }},
      {"the output is f32, not s8", [&](Graph& g) { output(g, 0).type = QN_F32, output(g, 0).quantization = {}; }},
  };
  for (const auto& [message, spoil] : faults) {
    Graph graph = quantized_graph({});
    spoil(graph);
    const bool refused = check_graph(graph) != QN_OK || infer_shapes(graph) != QN_OK;
    EXPECT_TRUE(refused) << message;
    EXPECT_NE(std::string(qn_last_message()).find(message), std::string::npos) << qn_last_message();
  }
}

TEST(QuantizedGraph, BytesNeedTheirOwnWeightsAndBias) {
  Graph graph = quantized_graph({});
  graph.nodes[0].inputs[2] = graph.nodes[0].inputs[1];
  EXPECT_EQ(check_graph(graph), QN_BAD_MODEL);
  EXPECT_NE(std::string(qn_last_message()).find("input 2 is s8, not s32"), std::string::npos) << qn_last_message();
}

}  // namespace quantized_test
}  // namespace quern::test

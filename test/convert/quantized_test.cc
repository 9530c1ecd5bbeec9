// Quantized ONNX models: each operator of bytes against a plain computation, in both signs; QDQ pairs; and what is
// refused. Scales are powers of two, so that plain computations with floats are exact.
#include <gtest/gtest.h>
#include <quern/extra.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "convert/convert.h"
#include "graph/pass/passes.h"
#include "onnx_model.h"

namespace quern {
namespace quantized_test {

using test::Array;
using test::Dims;
using test::OnnxModel;
using Proto = onnx::schema::TensorProto;

// How the bytes of a tensor stand for real numbers.
struct Steps {
  float scale;
  int zero;
};

class QuantizedOnnx : public testing::TestWithParam<bool> {  // are activations unsigned?
 protected:
  static void SetUpTestSuite() { ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message(); }
  Proto::DataType type() const { return GetParam() ? Proto::UINT8 : Proto::INT8; }
  int low() const { return GetParam() ? 0 : -128; }
  // Zero points are given for int8.
  int zero(const Steps& s) const { return s.zero + low() + 128; }

  float snapped(float x, const Steps& s) const {
    return (std::clamp(std::nearbyint(x / s.scale) + static_cast<float>(s.zero), -128.f, 127.f) -
            static_cast<float>(s.zero)) *
           s.scale;
  }
  Array snapped(const Array& x, const Steps& s) const {
    return test::map(x, [&](float v) { return snapped(v, s); });
  }

  // Adds the constants NAME/scale and NAME/zero.
  void add(OnnxModel& model, const std::string& name, const Steps& s) const {
    model.scalar(name + "/scale", s.scale).steps(name + "/zero", type(), {}, {zero(s)});
  }
  // Adds a quantized input, and returns the numbers that it is given.
  Array input(OnnxModel& model, const std::string& name, const Dims& dims, const Steps& s, uint32_t seed) const {
    add(model, name, s);
    model.input(name + "/real", dims).node("QuantizeLinear", {name + "/real", name + "/scale", name + "/zero"}, {name});
    return test::map(test::random(dims, seed), [](float x) { return x * 8; });
  }
  // Adds weights of int8 with a scale for each index of a dimension, and returns what they stand for.
  Array weights(OnnxModel& model, const Dims& dims, size_t axis, bool per_channel) const {
    std::vector<int32_t> values(test::count(dims));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 37 % 255) - 127;
    const size_t channels = per_channel ? dims[axis] : 1;
    std::vector<float> scales;
    for (size_t i = 0; i < channels; ++i) scales.push_back(std::ldexp(1.f, -6 - static_cast<int>(i % 2)));
    model.steps("w", Proto::INT8, dims, values).floats("w/scale", {per_channel ? Dims{channels} : Dims{}, scales});
    model.steps("w/zero", Proto::INT8, per_channel ? Dims{channels} : Dims{}, std::vector<int32_t>(channels, 0));
    size_t at = 0;
    return test::generate(dims, [&](const Dims& index) {
      return static_cast<float>(values[at++]) * scales[per_channel ? index[axis] : 0];
    });
  }
  // Adds weights of uint8 with a zero point, and returns what they stand for.
  Array unsigned_weights(OnnxModel& model, const Dims& dims, int zero) const {
    std::vector<int32_t> values(test::count(dims));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 37 % 256);
    model.steps("w", Proto::UINT8, dims, values).scalar("w/scale", 0x1p-6f).steps("w/zero", Proto::UINT8, {}, {zero});
    size_t at = 0;
    return test::generate(dims, [&](const Dims&) { return static_cast<float>(values[at++] - zero) * 0x1p-6f; });
  }
  // Adds a bias whose scales are those of the sums, and returns what it stands for.
  std::vector<float> bias(OnnxModel& model, size_t channels, float x_scale, const std::vector<float>& w_scales) const {
    std::vector<int32_t> steps(channels);
    std::vector<float> real(channels);
    for (size_t c = 0; c < channels; ++c) {
      steps[c] = static_cast<int32_t>(c * 31 % 200) - 100;
      real[c] = static_cast<float>(steps[c]) * x_scale * w_scales[w_scales.size() == 1 ? 0 : c];
    }
    model.steps("bias", Proto::INT32, {channels}, steps);
    return real;
  }

  // Adds the conversion of "y" to floats, imports, and compares: as imported, and after the passes, which must leave
  // `kinds` of nodes.
  void expect(OnnxModel& model, const std::vector<Array>& inputs, const Array& want, const std::string& kinds) {
    model.node("DequantizeLinear", {"y", "y/scale", "y/zero"}, {"out"}).output("out");
    Graph graph = import_onnx(folder_.write("net.onnx", model.bytes()), {{}});
    test::expect_near(test::run(graph, inputs).at(0), want, 0);
    ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
    std::string left;
    for (const Node& node : graph.nodes) left.append(left.empty() ? "" : " ").append(op_name(node.kind));
    EXPECT_EQ(left, kinds);
    test::expect_near(test::run(graph, inputs).at(0), want, 0);
  }
  std::string refusal(const OnnxModel& model) {
    return test::error_of([&] { import_onnx(folder_.write("net.onnx", model.bytes()), {{}}); });
  }

  test::Folder folder_;
  const Steps x_ = {0.0625f, 3}, z_ = {0.125f, -20}, y_ = {0.25f, 7};
  const std::vector<std::string> x_inputs_ = {"x", "x/scale", "x/zero"}, w_inputs_ = {"w", "w/scale", "w/zero"};
};

std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Signs, QuantizedOnnx, testing::Bool(),
                         [](const auto& test) { return test.param ? "uint8" : "int8"; });

TEST_P(QuantizedOnnx, QLinearConv) {
  for (const bool per_channel : {false, true}) {
    OnnxModel model(13);
    const Array x = input(model, "x", {1, 3, 7, 6}, x_, 1), w = weights(model, {4, 3, 3, 3}, 0, per_channel);
    const std::vector<float> b =
        bias(model, 4, x_.scale,
             per_channel ? std::vector<float>{0x1p-6f, 0x1p-7f, 0x1p-6f, 0x1p-7f} : std::vector<float>{0x1p-6f});
    add(model, "y", y_);
    model.node("QLinearConv", joined({x_inputs_, w_inputs_, {"y/scale", "y/zero", "bias"}}), {"y"},
               "pads=[1,1,1,1] strides=[2,2]");
    test::Window window;
    window.begin[0] = window.begin[1] = window.end[0] = window.end[1] = 1;
    window.stride[0] = window.stride[1] = 2;
    expect(model, {x}, snapped(test::conv(snapped(x, x_), w, b, window, 1), y_),
           "quantize transpose conv2d transpose dequantize");
  }
}

TEST_P(QuantizedOnnx, QLinearMatMul) {
  OnnxModel model(13);
  const Array x = input(model, "x", {5, 9}, x_, 1), w = weights(model, {9, 4}, 1, true);
  add(model, "y", y_);
  model.node("QLinearMatMul", joined({x_inputs_, w_inputs_, {"y/scale", "y/zero"}}), {"y"});
  expect(model, {x}, snapped(test::matmul(snapped(x, x_), w), y_), "quantize fully_connected dequantize");
}

TEST_P(QuantizedOnnx, QGemm) {
  OnnxModel model(13);
  const Array x = input(model, "x", {5, 9}, x_, 1), w = weights(model, {4, 9}, 0, false);
  const std::vector<float> b = bias(model, 4, x_.scale, {0x1p-6f});
  add(model, "y", y_);
  model.node("QGemm", joined({x_inputs_, w_inputs_, {"bias", "y/scale", "y/zero"}}), {"y"}, "transB=1");
  const Array sums = test::matmul(snapped(x, x_), test::transpose(w, {1, 0}));
  expect(model, {x}, snapped(test::combine(sums, {{4}, b}, std::plus<float>()), y_),
         "quantize fully_connected dequantize");
}

// The same for channels that are convolved alone: rows are repeated, and it stays a convolution of single channels.
TEST_P(QuantizedOnnx, UnsignedWeightsOfSingleChannels) {
  for (const int zero : {100, 0}) {
    SCOPED_TRACE(zero);
    OnnxModel model(13);
    const Array x = input(model, "x", {1, 6, 7, 6}, x_, 1), w = unsigned_weights(model, {6, 1, 3, 3}, zero);
    const std::vector<float> b = bias(model, 6, x_.scale, {0x1p-6f});
    add(model, "y", {2, 7});
    model.node("QLinearConv", joined({x_inputs_, w_inputs_, {"y/scale", "y/zero", "bias"}}), {"y"},
               "pads=[1,0,0,1] strides=[2,1] group=6");
    test::Window window;
    window.stride[0] = 2;
    window.begin[0] = window.end[1] = 1;
    expect(model, {x}, snapped(test::conv(snapped(x, x_), w, b, window, 6), {2, 7}),
           "quantize reshape concat reshape transpose conv2d transpose dequantize");
    const Graph graph = import_onnx(folder_.path("net.onnx"), {{}});
    for (const Node& node : graph.nodes) {
      EXPECT_EQ(node.attributes.groups, node.kind == OpKind::conv2d ? 6u : 1u);
    }
  }
}

// Without their zero point, weights are as large as 155 or 255: the sum of two or three bytes.
TEST_P(QuantizedOnnx, UnsignedWeights) {
  for (const int zero : {100, 0}) {
    SCOPED_TRACE(zero);
    for (const size_t groups : {1, 3}) {
      OnnxModel model(13);
      const Array x = input(model, "x", {1, 6, 7, 6}, x_, 1);
      const Array w = unsigned_weights(model, {9, 6 / groups, 3, 3}, zero);
      const std::vector<float> b = bias(model, 9, x_.scale, {0x1p-6f});
      add(model, "y", {2, 7});
      model.node("QLinearConv", joined({x_inputs_, w_inputs_, {"y/scale", "y/zero", "bias"}}), {"y"},
                 "pads=[1,1,1,1] group=" + std::to_string(groups));
      test::Window window;
      window.begin[0] = window.begin[1] = window.end[0] = window.end[1] = 1;
      expect(model, {x}, snapped(test::conv(snapped(x, x_), w, b, window, groups), {2, 7}),
             groups == 1 ? "quantize concat transpose conv2d transpose dequantize"
                         : "quantize reshape concat reshape transpose conv2d transpose dequantize");
    }
    OnnxModel product(13), gemm(13);
    const Array x = input(product, "x", {5, 9}, x_, 1), w = unsigned_weights(product, {9, 4}, zero);
    add(product, "y", y_);
    product.node("QLinearMatMul", joined({x_inputs_, w_inputs_, {"y/scale", "y/zero"}}), {"y"});
    expect(product, {x}, snapped(test::matmul(snapped(x, x_), w), y_), "quantize concat fully_connected dequantize");
    input(gemm, "x", {5, 9}, x_, 1);
    const Array transposed = unsigned_weights(gemm, {4, 9}, zero);
    add(gemm, "y", y_);
    gemm.node("QGemm", joined({x_inputs_, w_inputs_, {"", "y/scale", "y/zero"}}), {"y"}, "transB=1");
    expect(gemm, {x}, snapped(test::matmul(snapped(x, x_), test::transpose(transposed, {1, 0})), y_),
           "quantize concat fully_connected dequantize");
  }
}

TEST_P(QuantizedOnnx, QLinearAddAndMul) {
  for (const bool product : {false, true}) {
    OnnxModel model(13);
    const Array x = input(model, "x", {2, 3, 5}, x_, 1), z = input(model, "z", {3, 1}, z_, 2);
    add(model, "y", y_);
    model.node(product ? "QLinearMul" : "QLinearAdd",
               joined({x_inputs_, {"z", "z/scale", "z/zero", "y/scale", "y/zero"}}), {"y"});
    const auto f = product ? std::function<float(float, float)>(std::multiplies<float>()) : std::plus<float>();
    expect(model, {x, z}, snapped(test::combine(snapped(x, x_), snapped(z, z_), f), y_),
           std::string("quantize quantize reshape ") + (product ? "mul" : "add") + " dequantize");
  }
}

TEST_P(QuantizedOnnx, QLinearConcat) {
  OnnxModel model(13);
  const Array x = input(model, "x", {2, 3, 5}, x_, 1), z = input(model, "z", {2, 4, 5}, z_, 2);
  add(model, "y", z_);
  model.node("QLinearConcat", joined({{"y/scale", "y/zero"}, x_inputs_, {"z", "z/scale", "z/zero"}}), {"y"}, "axis=1");
  expect(model, {x, z}, test::concat({snapped(snapped(x, x_), z_), snapped(z, z_)}, 1),
         "quantize quantize requantize concat dequantize");
}

TEST_P(QuantizedOnnx, QLinearPools) {
  OnnxModel model(13);
  const Array x = input(model, "x", {1, 3, 8, 4}, x_, 1);
  add(model, "y", y_);
  model.node("QLinearGlobalAveragePool", joined({x_inputs_, {"y/scale", "y/zero"}}), {"y"});
  test::Window window;
  window.kernel[0] = 8, window.kernel[1] = 4;
  expect(model, {x}, snapped(test::average_pool(snapped(x, x_), window, false), y_),
         "quantize transpose global_average_pool transpose dequantize");
}

TEST_P(QuantizedOnnx, QLinearFunctions) {
  const auto leaky = [](float v) { return v < 0 ? v * 0.5f : v; };
  OnnxModel model(13);
  const Array x = input(model, "x", {2, 30}, x_, 1);
  add(model, "y", y_);
  model.node("QLinearLeakyRelu", joined({x_inputs_, {"y/scale", "y/zero"}}), {"y"}, "alpha=0.5f");
  model.node("DequantizeLinear", {"y", "y/scale", "y/zero"}, {"out"}).output("out");
  test::expect_near(test::run(import_onnx(folder_.write("net.onnx", model.bytes()), {{}}), {x}).at(0),
                    snapped(test::map(snapped(x, x_), leaky), y_), 0);
}

// The result is the exact one, rounded to steps of 1 / 256.
TEST_P(QuantizedOnnx, QLinearSoftmax) {
  const Steps y = {0x1p-8f, -128};
  OnnxModel model(13);
  const Array x = input(model, "x", {4, 10}, x_, 1);
  add(model, "y", y);
  model.node("QLinearSoftmax", joined({x_inputs_, {"y/scale", "y/zero"}}), {"y"}, "axis=1 opset=13");
  model.node("DequantizeLinear", {"y", "y/scale", "y/zero"}, {"out"}).output("out");
  Graph graph = import_onnx(folder_.write("net.onnx", model.bytes()), {{}});
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.nodes[1].inputs[0])].type, QN_S8);
  EXPECT_EQ(graph.nodes[1].kind, OpKind::softmax);
  const Array in = snapped(x, x_), out = test::run(graph, {x}).at(0);
  for (size_t row = 0; row < 4; ++row) {
    double sum = 0;
    for (size_t i = 0; i < 10; ++i) sum += std::exp(double{in.data[row * 10 + i]});
    for (size_t i = row * 10; i < row * 10 + 10; ++i) {
      EXPECT_NEAR(out.data[i], std::min(std::exp(double{in.data[i]}) / sum, 255.0 / 256), 0x1p-9 + 1e-6) << i;
    }
  }
}

// As an LSTM whose weights are the transposed real numbers.
TEST_P(QuantizedOnnx, DynamicQuantizeLstm) {
  const Array x = test::random({4, 2, 3}, 1);
  for (const bool per_channel : {false, true}) {
    OnnxModel model(13), plain(13);
    struct Weights {
      std::string name;
      size_t from;
      int seed;
    };
    for (const Weights& weights : {Weights{"w", 3, 7}, Weights{"r", 2, 11}}) {
      const std::string& name = weights.name;
      const size_t from = weights.from;
      std::vector<int32_t> steps(2 * from * 8);
      for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<int>(i) * weights.seed % 200 + low();
      const Dims channels = per_channel ? Dims{2, 8} : Dims{2};
      std::vector<float> scales;
      std::vector<int32_t> zeros;
      for (size_t i = 0; i < test::count(channels); ++i) {
        scales.push_back(0x1p-7f * static_cast<float>(i + 1) / 8);
        zeros.push_back(low() + 90 + static_cast<int>(i));
      }
      model.steps(name, type(), {2, from, 8}, steps).floats(name + "/scale", {channels, scales});
      model.steps(name + "/zero", type(), channels, zeros);
      const Array real = test::generate({2, 8, from}, [&](const Dims& i) {
        const size_t channel = per_channel ? i[0] * 8 + i[1] : i[0];
        return static_cast<float>(steps[(i[0] * from + i[2]) * 8 + i[1]] - zeros[channel]) * scales[channel];
      });
      plain.floats(name, real);
    }
    for (OnnxModel* of : {&model, &plain}) {
      of->input("x", x.dims).output("y").floats("b", test::random({2, 16}, 3));
      std::vector<std::string> inputs = {"x", "w", "r", "b"};
      if (of == &model) inputs.insert(inputs.end(), {"", "", "", "", "w/scale", "w/zero", "r/scale", "r/zero"});
      of->node(of == &model ? "DynamicQuantizeLSTM" : "LSTM", inputs, {"y"}, "hidden_size=2 direction='bidirectional'");
    }
    const Array want = test::run(import_onnx(folder_.write("plain.onnx", plain.bytes()), {{}}), {x}).at(0);
    test::expect_near(test::run(import_onnx(folder_.write("net.onnx", model.bytes()), {{}}), {x}).at(0), want);
  }
}

// Rows that are found by computed numbers are bytes that only nodes of libquern-extra make.
TEST_P(QuantizedOnnx, SumOfEmbeddings) {
  OnnxModel model(13);
  const Array table = weights(model, {6, 5}, 0, false), x = input(model, "x", {3, 5}, x_, 1);
  model.input("places", {3}, Proto::INT64).node("Gather", {"w", "places"}, {"rows"});
  add(model, "y", y_);
  model.node("QLinearAdd", joined({{"rows", "w/scale", "w/zero"}, x_inputs_, {"y/scale", "y/zero"}}), {"y"});
  model.node("DequantizeLinear", {"y", "y/scale", "y/zero"}, {"out"}).output("out");
  const Array rows = test::generate({3, 5}, [&](const Dims& i) { return table.data[(2 * i[0] + 1) * 5 + i[1]]; });
  test::expect_near(test::run(import_onnx(folder_.write("net.onnx", model.bytes()), {{}}), {x, {{3}, {1, 3, 5}}}).at(0),
                    snapped(test::combine(rows, snapped(x, x_), std::plus<float>()), y_), 0);
}

TEST_P(QuantizedOnnx, QLinearWhere) {
  OnnxModel model(13);
  const Array x = input(model, "x", {2, 3, 5}, x_, 1), z = input(model, "z", {3, 1}, z_, 2);
  model.input("chosen", {5}).node("Cast", {"chosen"}, {"condition"}, "to=9");
  add(model, "y", y_);
  model.node("QLinearWhere", joined({{"condition"}, x_inputs_, {"z", "z/scale", "z/zero", "y/scale", "y/zero"}}),
             {"y"});
  model.node("DequantizeLinear", {"y", "y/scale", "y/zero"}, {"out"}).output("out");
  const Array yes = snapped(snapped(x, x_), y_), no = snapped(snapped(z, z_), y_);
  const Array want = test::generate(
      {2, 3, 5}, [&](const Dims& i) { return i[2] % 2 == 0 ? yes.data[(i[0] * 3 + i[1]) * 5 + i[2]] : no.data[i[1]]; });
  const Graph graph = import_onnx(folder_.write("net.onnx", model.bytes()), {{}});
  test::expect_near(test::run(graph, {x, z, {{5}, {1, 0, 1, 0, 1}}}).at(0), want, 0);
}

TEST_P(QuantizedOnnx, PairsAroundAnOperator) {
  OnnxModel model(13);
  const Array x = input(model, "x", {1, 3, 7, 6}, x_, 1), w = weights(model, {4, 3, 3, 3}, 0, true);
  add(model, "y", y_);
  model.node("DequantizeLinear", x_inputs_, {"x/back"}).node("DequantizeLinear", w_inputs_, {"w/back"}, "axis=0");
  model.node("Conv", {"x/back", "w/back"}, {"conv"}).node("Relu", {"conv"}, {"relu"});
  model.node("QuantizeLinear", {"relu", "y/scale", "y/zero"}, {"y"});
  const Array sums = test::conv(snapped(x, x_), w, {}, {}, 1);
  expect(model, {x}, snapped(test::map(sums, [](float v) { return std::max(v, 0.f); }), y_),
         "quantize transpose conv2d transpose dequantize");
}

// Operators that know nothing of scales see the bytes that the source has.
TEST_P(QuantizedOnnx, BytesAsNumbers) {
  OnnxModel model(13);
  const Array x = input(model, "x", {1, 3, 7, 6}, x_, 1);
  model.node("Cast", {"x"}, {"out"}, "to=1").output("out");
  const Array want = test::map(
      snapped(x, x_), [&](float v) { return v / x_.scale + static_cast<float>(x_.zero + (GetParam() ? 128 : 0)); });
  test::expect_near(test::run(import_onnx(folder_.write("net.onnx", model.bytes()), {{}}), {x}).at(0), want, 0);
}

TEST_P(QuantizedOnnx, BytesOfSeveralScalesAreJoinedAsNumbers) {
  OnnxModel model(13);
  const Array x = input(model, "x", {2, 3}, x_, 1), z = input(model, "z", {2, 3}, z_, 2);
  model.node("Concat", {"x", "z"}, {"y"}, "axis=0").node("Cast", {"y"}, {"out"}, "to=1").output("out");
  const auto number = [&](const Array& of, const Steps& s) {
    return test::map(snapped(of, s),
                     [&](float v) { return v / s.scale + static_cast<float>(s.zero + (GetParam() ? 128 : 0)); });
  };
  Array want = number(x, x_);
  const Array rest = number(z, z_);
  want.dims[0] = 4;
  want.data.insert(want.data.end(), rest.data.begin(), rest.data.end());
  test::expect_near(test::run(import_onnx(folder_.write("net.onnx", model.bytes()), {{}}), {x, z}).at(0), want, 0);
}

// Rows whose elements are bytes of the row's own, as a layer quantizes them.
Array quantized_rows(Array x) {
  const size_t k = x.dims.back();
  for (size_t row = 0; row < x.data.size(); row += k) {
    float* const v = &x.data[row];
    const float least = std::min(0.f, *std::min_element(v, v + k)), most = std::max(0.f, *std::max_element(v, v + k));
    const float scale = (most - least) / 255, zero = std::nearbyint(-least / scale) - 128;
    for (size_t i = 0; i < k; ++i)
      v[i] = (std::clamp(std::nearbyint(v[i] / scale) + zero, -128.f, 127.f) - zero) * scale;
  }
  return x;
}

// Activations of convolutions stay real numbers, so the results are those without their rounding. Matrix products round
// the activations of each row, and have the model's scales when the graph is optimized.
TEST_P(QuantizedOnnx, DynamicallyQuantizedActivations) {
  for (const bool is_conv : {false, true}) {
    OnnxModel model(13);
    const Dims dims = is_conv ? Dims{1, 3, 7, 6} : Dims{5, 9};
    const Array w = weights(model, is_conv ? Dims{4, 3, 3, 3} : Dims{9, 4}, 0, false), x = test::random(dims, 1);
    model.input("x", dims).node("DynamicQuantizeLinear", {"x"}, {"q", "q/scale", "q/zero"});
    model.node("Mul", {"q/scale", "w/scale"}, {"scales"});
    model.node(is_conv ? "ConvInteger" : "MatMulInteger", {"q", "w", "q/zero", "w/zero"}, {"sums"});
    model.node("Cast", {"sums"}, {"real"}, "to=1").node("Mul", {"real", "scales"}, {"out"}).output("out");
    Graph graph = import_onnx(folder_.write("net.onnx", model.bytes()), {{}});
    const Array want = is_conv ? test::conv(x, w, {}, {}, 1) : test::matmul(quantized_rows(x), w);
    test::expect_near(test::run(graph, {x}).at(0), want);
    ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
    test::expect_near(test::run(graph, {x}).at(0), want);
    if (is_conv) continue;
    ASSERT_EQ(graph.nodes.size(), 1u);
    EXPECT_TRUE(graph.nodes[0].attributes.quantize_input);
  }
}

// Where both factors are activations, or where the bytes are an output, they are rounded as ONNX says.
TEST_P(QuantizedOnnx, ActivationsThatMustBeBytes) {
  const Array x{{1, 2}, {-100.0f / 64, 155.0f / 64}}, y{{2, 1}, {255.0f / 64, 0.3f}};
  OnnxModel model(13);
  for (const char* name : {"x", "y"}) {
    const std::string of = name;
    model.input(of, of == "x" ? x.dims : y.dims).node("DynamicQuantizeLinear", {of}, {of + "q", of + "s", of + "z"});
  }
  model.node("MatMulInteger", {"xq", "yq", "xz", "yz"}, {"sums"}).node("Cast", {"sums"}, {"out"}, "to=1").output("out");
  Graph graph = import_onnx(folder_.write("net.onnx", model.bytes()), {{}});
  test::expect_near(test::run(graph, {x, y}).at(0), Array{{1, 1}, {-100 * 255 + 155 * 19}});
  OnnxModel shown(13);
  shown.input("x", x.dims).node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
  shown.node("Cast", {"q"}, {"out"}, "to=1").output("out");
  graph = import_onnx(folder_.write("net.onnx", shown.bytes()), {{}});
  test::expect_near(test::run(graph, {x}).at(0), Array{{1, 2}, {0, 255}});
}

// Weights of 4 bits in blocks of a row, with zero points and without; the last block is not full. Blocks of 16 become f32.
TEST(QuantizedOnnxBits, MatMulNBits) {
  const test::Folder folder;
  const size_t k = 40, n = 6;
  std::mt19937 random(1);
  for (const size_t block : {16, 32, 64}) {
    for (const bool has_zeros : {false, true}) {
      for (const int accuracy : {0, 1, 2, 3, 4}) {
        const size_t blocks = (k + block - 1) / block, zero_bytes = (blocks + 1) / 2;
        std::vector<int32_t> bytes(n * blocks * block / 2), zeros(n * zero_bytes);
        for (auto* list : {&bytes, &zeros}) {
          for (int32_t& b : *list) b = static_cast<int32_t>(random() % 256);
        }
        Array scales = test::random({n * blocks}, 2), x = test::random({5, k}, 3), w{{k, n}, {}}, of_zeros{{k, n}, {}};
        for (float& s : scales.data) s += s < 0 ? -0.01f : 0.01f;  // those of blocks may be negative
        const bool of_rows = block == 64 && accuracy == 4;         // then zero points are taken off
        if (of_rows) scales = test::map(scales, [](float s) { return std::abs(s); });
        for (size_t i = 0; i < k; ++i) {
          for (size_t o = 0; o < n; ++o) {
            const size_t b = i / block;
            const int32_t element = bytes[(o * blocks * block + i) / 2] >> i % 2 * 4 & 15;
            const int32_t zero = has_zeros ? zeros[o * zero_bytes + b / 2] >> b % 2 * 4 & 15 : 8;
            const float real = static_cast<float>(zero) + (has_zeros && block == 32 ? 0.25f : 0);
            // Without the zero points, which then remain, weights in blocks fit 4 bits.
            const float remains = block >= 32 && !of_rows ? 8 - real : 0;
            w.data.push_back((static_cast<float>(element) - real - remains) * scales.data[o * blocks + b]);
            of_zeros.data.push_back(remains * scales.data[o * blocks + b]);
          }
        }
        OnnxModel model(13);
        model.input("x", {5, k}).steps("w", Proto::UINT8, {n, blocks, block / 2}, bytes).floats("scales", scales);
        std::vector<std::string> inputs = {"x", "w", "scales"};
        if (has_zeros) {
          if (block == 32) {  // of floats
            std::vector<float> real;
            for (size_t i = 0; i < n * blocks; ++i) {
              real.push_back(0.25f + static_cast<float>(
                                         zeros[i / blocks * zero_bytes + i % blocks / 2] >> i % blocks % 2 * 4 & 15));
            }
            model.floats("zeros", {{n * blocks}, real});
          } else {
            model.steps("zeros", Proto::UINT8, {n * zero_bytes}, zeros);
          }
          inputs.push_back("zeros");
        }
        model.node(
            "MatMulNBits", inputs, {"out"},
            "K=40 N=6 bits=4 block_size=" + std::to_string(block) + " accuracy_level=" + std::to_string(accuracy));
        model.output("out");
        Graph graph = import_onnx(folder.write("net.onnx", model.bytes()), {{}});
        const bool of_bytes = accuracy == 4 && block >= 32;
        EXPECT_EQ(graph.nodes[0].attributes.quantize_input, of_bytes);
        EXPECT_EQ(graph.nodes.size() > 1, has_zeros && block >= 32 && !of_rows);
        const Tensor& weights = tensor_of(graph, graph.nodes[0].inputs[1]);
        EXPECT_EQ(weights.type, block >= 32 ? QN_S8 : QN_F32);
        EXPECT_EQ(weights.quantization.block, block == 16 || of_rows ? 0 : block);
        const Array product = test::matmul(of_bytes ? quantized_rows(x) : x, w);
        const Array want = test::combine(product, test::matmul(x, of_zeros), test::plus);
        test::expect_near(test::run(graph, {x}).at(0), want);
      }
    }
  }
}

// Rows that only a run chooses, before a product with weights of 4 bits, and before one that quantizes them.
TEST(QuantizedOnnxBits, ShapesThatOnlyARunKnows) {
  ASSERT_EQ(qn_extra_register(), QN_OK) << qn_last_message();
  const test::Folder folder;
  const Array x = {{3, 2}, {-1, 2, 5, 6, 1, -1}}, chosen = {{3}, {1, 0, 1}};
  const auto run = [&](OnnxModel& model) {
    model.input("x", x.dims).input("c", chosen.dims, Proto::BOOL).output("y");
    model.node("Compress", {"x", "c"}, {"k"}, "axis=0");
    return test::run(import_onnx(folder.write("net.onnx", model.bytes()), {{}}), {x, chosen}).at(0);
  };
  const Array w = {{2, 2}, {1, 3, -2, 4}}, scales = {{2}, {0.5f, -1}}, bias = {{2}, {10, 20}};  // w is K x N
  for (const int accuracy : {0, 1, 2, 3, 4}) {
    for (const float zero : {8.0f, 7.5f}) {
      OnnxModel bits(13);
      bits.steps("w", Proto::UINT8, {2, 1, 1}, {0x69, 0xcb}).floats("s", scales).floats("b", bias);
      bits.floats("z", {{2}, {zero, zero}});
      bits.node("MatMulNBits", {"k", "w", "s", "z", "", "b"}, {"y"},
                "K=2 N=2 bits=4 block_size=2 accuracy_level=" + std::to_string(accuracy));
      const Array kept = {{2, 2}, {-1, 2, 1, -1}}, rounded = accuracy == 4 ? quantized_rows(kept) : kept;
      Array want = test::matmul(rounded, w);
      for (size_t i = 0; i < 4; ++i) {
        const float sum = kept.data[i / 2 * 2] + kept.data[i / 2 * 2 + 1];
        want.data[i] = (want.data[i] + (8 - zero) * sum) * scales.data[i % 2] + bias.data[i % 2];
      }
      test::expect_near(run(bits), want);
    }
  }
  OnnxModel quantized(13);  // its range, from -1 to 2, has 255 steps
  quantized.steps("w", Proto::INT8, {2, 1}, {1, 3}).scalar("s", 0.5f);
  quantized.node("DynamicQuantizeLinear", {"k"}, {"q", "qs", "qz"}).node("MatMulInteger", {"q", "w", "qz"}, {"m"});
  quantized.node("Cast", {"m"}, {"f"}, "to=1").node("Mul", {"qs", "s"}, {"t"}).node("Mul", {"f", "t"}, {"y"});
  test::expect_near(run(quantized), {{2, 1}, {2.5f, -1}});
}

// Sums of products that the model gives, or adds integers to, are the exact integers. x has the range -1 .. 254: its steps
// are 1, and its zero point is 1.
TEST(QuantizedOnnxBits, ProductsWhoseIntegersAreRead) {
  const test::Folder folder;
  const Array x = {{2, 2}, {-1, 2, 254, 0}};
  for (const bool adds : {false, true}) {
    OnnxModel model(13);
    model.input("x", x.dims).steps("w", Proto::INT8, {2, 1}, {1, 3}).steps("b", Proto::INT32, {1}, {10}).output("y");
    model.node("DynamicQuantizeLinear", {"x"}, {"q", "s", "z"});
    model.node("MatMulInteger", {"q", "w", "z"}, {adds ? "m" : "y"});
    if (adds) model.node("Add", {"m", "b"}, {"y"});
    const Array want = {{2, 1}, {adds ? 15.f : 5.f, adds ? 264.f : 254.f}};
    test::expect_near(test::run(import_onnx(folder.write("net.onnx", model.bytes()), {{}}), {x}).at(0), want);
  }
}

// Shapes and numbers that do not fit the operators on bytes of activations in floats.
TEST(QuantizedOnnxBits, FaultsAreNamed) {
  const test::Folder folder;
  const auto refused = [&](const std::string& words, const std::string& op, const std::vector<std::string>& inputs) {
    OnnxModel model(13);
    model.input("x", {5, 2}).steps("none", Proto::INT8, {0, 2}, {}).steps("w", Proto::INT8, {2, 2}, {1, 2, 3, 4});
    model.steps("x/zero", Proto::UINT8, {}, {0}).steps("far", Proto::INT32, {}, {INT32_MAX}).scalar("number", 1);
    model.steps("bits", Proto::UINT8, {2, 1, 1}, {1, 2}).floats("scales", {{2}, {1, 1}});
    model.node(op, inputs, {"y"}, op == "MatMulNBits" ? "K=2 N=2 bits=4 block_size=2" : "").output("y");
    test::expect_in(test::error_of([&] { import_onnx(folder.write("net.onnx", model.bytes()), {{}}); }), words);
  };
  refused("MatMulInteger: ", "MatMulInteger", {"x", "none", "x/zero"});
  refused("weights and zero point differ in type", "MatMulInteger", {"x", "w", "x/zero", "far"});
  refused("the bias has not N elements", "MatMulNBits", {"x", "bits", "scales", "", "", "number"});
}

TEST_P(QuantizedOnnx, FaultsAreNamed) {
  const auto refused = [&](const std::string& words, const std::function<void(OnnxModel&)>& change) {
    OnnxModel model(13);
    input(model, "x", {5, 9}, x_, 1);
    weights(model, {9, 4}, 1, true);
    add(model, "y", y_);
    std::vector<std::string> bad = joined({x_inputs_, w_inputs_, {"y/scale", "y/zero"}});
    model.steps("many/zero", type(), {2}, {0, 0}).steps("sum/zero", Proto::INT32, {}, {0});
    model.scalar("bad/scale", 0).scalar("nan/scale", std::nanf("")).floats("some/scale", {{3}, {1, 1, 1}});
    model.steps("some/zero", Proto::INT8, {3}, {0, 0, 0});
    model.node("QLinearMatMul", bad, {"y"}).output("y");
    change(model);
    EXPECT_NE(refusal(model).find(words), std::string::npos) << refusal(model);
  };
  const auto set = [](size_t index, const char* name) {
    return [=](OnnxModel& model) {
      auto* graph = model.model.mutable_graph();
      graph->mutable_node(graph->node_size() - 1)->set_input(static_cast<int>(index), name);
    };
  };
  refused("'y' (QLinearMatMul): a scale is not a positive number", set(1, "bad/scale"));
  refused("'y' (QLinearMatMul): a scale is not a positive number", set(6, "nan/scale"));
  refused("not as many zero points as scales", set(2, "many/zero"));
  refused("the zero point has another type", set(2, "sum/zero"));
  refused("scales do not fit the tensor",
          [&](OnnxModel& model) { set(4, "some/scale")(model), set(5, "some/zero")(model); });
  refused("'y'", set(1, "nowhere"));
}

}  // namespace quantized_test
}  // namespace quern

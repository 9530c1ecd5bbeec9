// Models of TensorFlow Lite with weights or activations of fewer bits. Scales of quantized models are powers of two, so
// that plain computations with floats are exact.
#include <algorithm>
#include <cmath>

#include "graph/pass/passes.h"
#include "tflite_fixture.h"

namespace quern::test {
namespace tflite_quantized_test {

namespace schema = tflite::schema;
using schema::Activation;
using schema::Padding;
using Builder = TfliteModel::Builder;
using Options = TfliteModel::Options;
using Type = TfliteModel::Type;

// ---- numbers of fewer bits --------------------------------------------------------------------

TEST_F(Tflite, WeightsOfHalfPrecision) {
  TfliteModel model;
  const Array x = random({3, 8}, 1), w = map(random({5, 8}, 2), [](float v) { return std::round(v * 64) / 64; });
  const int in = model.input(x.dims), half = model.halves(w), real = model.computed(w.dims), y = model.computed({3, 5});
  model.node(6, {half}, {real});
  model.output(model.node(9, {in, real}, {y}, [](Builder& b) { return schema::CreateFullyConnectedOptions(b); }));
  expect(model, {x}, {test::matmul(x, test::transpose(w, {1, 0}))});
}

// Weights of bytes beside activations of floats, with one scale or one for each output.
TEST_F(Tflite, WeightsOfBytesBesideFloats) {
  for (const bool per_channel : {false, true}) {
    std::vector<int32_t> steps;
    for (int i = 0; i < 40; ++i) steps.push_back(i * 37 % 255 - 127);
    std::vector<float> scales(per_channel ? 5 : 1);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
    size_t at = 0;
    const Array w = test::generate(
        {5, 8}, [&](const Dims& i) { return static_cast<float>(steps[at++]) * scales[per_channel ? i[0] : 0]; });
    TfliteModel model;
    const Array x = random({3, 8}, 1), bias = random({5}, 2);
    const int in = model.input(x.dims), y = model.computed({3, 5});
    const int weights =
        model.scaled(model.steps(Type::int8, {5, 8}, steps), scales, std::vector<int64_t>(scales.size(), 0), 0);
    model.output(model.node(9, {in, weights, model.floats(bias)}, {y},
                            [](Builder& b) { return schema::CreateFullyConnectedOptions(b, Activation::relu); }));
    const Array sums = combine(test::matmul(x, test::transpose(w, {1, 0})), bias, plus);
    expect(model, {x}, {map(sums, [](float v) { return std::max(v, 0.f); })});
  }
}

// How bytes stand for real numbers.
struct Steps {
  float scale;
  int zero;
};

class QuantizedTflite : public Tflite, public testing::WithParamInterface<bool> {  // are the bytes unsigned?
 protected:
  Type type() const { return GetParam() ? Type::uint8 : Type::int8; }
  int low() const { return GetParam() ? 0 : -128; }
  int zero(const Steps& s) const { return s.zero + low() + 128; }

  int scaled(TfliteModel& model, int tensor, const Steps& s) const {
    return model.scaled(tensor, {s.scale}, {zero(s)});
  }
  int input(TfliteModel& model, const Dims& dims, const Steps& s) const {
    return scaled(model, model.input(dims, type()), s);
  }
  int computed(TfliteModel& model, const Dims& dims, const Steps& s) const {
    return scaled(model, model.computed(dims, type()), s);
  }
  // Bytes as the model is given them, and as numbers.
  Array bytes(const Dims& dims, uint32_t seed) const {
    return map(random(dims, seed), [&](float v) { return std::floor((v + 1) * 128) + static_cast<float>(low()); });
  }
  Array real(const Array& bytes, const Steps& s) const {
    return map(bytes, [&](float v) { return (v - static_cast<float>(zero(s))) * s.scale; });
  }
  Array quantized(const Array& x, const Steps& s) const {
    return map(x, [&](float v) {
      const float step = std::nearbyint(v / s.scale) + static_cast<float>(zero(s));
      return std::clamp(step, static_cast<float>(low()), static_cast<float>(low() + 255));
    });
  }
  // Weights: of uint8 with a zero point, or of int8 with a scale for each index of an axis. `values` receives what they
  // stand for, `scales` their scales.
  int weights(TfliteModel& model, const Dims& dims, size_t axis, Array* values, std::vector<float>* scales) const {
    const size_t channels = GetParam() ? 1 : dims[axis];
    const int offset = GetParam() ? 120 : 0;
    std::vector<int32_t> steps(test::count(dims));
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<int32_t>(i * 37 % 240) - (GetParam() ? 0 : 120);
    scales->clear();
    for (size_t i = 0; i < channels; ++i) scales->push_back(std::ldexp(1.f, -6 - static_cast<int>(i % 2)));
    size_t at = 0;
    *values = test::generate(dims, [&](const Dims& i) {
      return static_cast<float>(steps[at++] - offset) * (*scales)[channels == 1 ? 0 : i[axis]];
    });
    return model.scaled(model.steps(type(), dims, steps), *scales, std::vector<int64_t>(channels, offset),
                        static_cast<int>(axis));
  }
  // A bias, whose scales are those of the sums.
  int bias(TfliteModel& model, size_t channels, float x_scale, const std::vector<float>& scales,
           std::vector<float>* values) const {
    std::vector<int32_t> steps;
    std::vector<float> products;
    values->clear();
    for (size_t c = 0; c < channels; ++c) {
      steps.push_back(static_cast<int32_t>(c * 31 % 200) - 100);
      products.push_back(x_scale * scales[scales.size() == 1 ? 0 : c]);
      values->push_back(static_cast<float>(steps[c]) * products[c]);
    }
    products.resize(scales.size());
    const size_t count = products.size();
    return model.scaled(model.steps(Type::int32, {channels}, steps), products, std::vector<int64_t>(count, 0), 0);
  }
  // Checks results and that the layers between bytes compute with bytes: without quantize and dequantize.
  void expect_bytes(const TfliteModel& model, const std::vector<Array>& inputs, const Array& want) {
    expect(model, inputs, {want}, 0);
    Graph graph = import(model);
    ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
    for (const Node& node : graph.nodes) {
      EXPECT_NE(node.kind, OpKind::quantize);
      EXPECT_NE(node.kind, OpKind::dequantize);
    }
  }

  const Steps x_ = {0.0625f, 3}, y_ = {0.25f, 7};
};

INSTANTIATE_TEST_SUITE_P(Signs, QuantizedTflite, testing::Bool(),
                         [](const auto& test) { return test.param ? "uint8" : "int8"; });

TEST_P(QuantizedTflite, Convolution) {
  for (const bool depthwise : {false, true}) {
    SCOPED_TRACE(depthwise);
    TfliteModel model;
    const Array x = bytes({1, 7, 6, 3}, 1);
    const int in = input(model, x.dims, x_);
    Array w;
    std::vector<float> scales, b;
    const int weights_ =
        depthwise ? weights(model, {1, 3, 3, 6}, 3, &w, &scales) : weights(model, {6, 3, 3, 3}, 0, &w, &scales);
    const int bias_ = bias(model, 6, x_.scale, scales, &b);
    test::Window window;
    window.stride[0] = window.stride[1] = 2, window.kernel[0] = window.kernel[1] = 3;
    pad_same(window, 0, 7), pad_same(window, 1, 6);
    const Array filter =
        test::transpose(w, depthwise ? std::vector<size_t>{3, 0, 1, 2} : std::vector<size_t>{0, 3, 1, 2});
    const Array sums = nhwc(test::conv(nchw(real(x, x_)), filter, b, window, depthwise ? 3 : 1));
    const int y = computed(model, sums.dims, y_);
    if (depthwise) {
      model.node(4, {in, weights_, bias_}, {y}, [](Builder& fb) {
        return schema::CreateDepthwiseConv2DOptions(fb, Padding::same, 2, 2, 2, Activation::relu6);
      });
    } else {
      model.node(3, {in, weights_, bias_}, {y},
                 [](Builder& fb) { return schema::CreateConv2DOptions(fb, Padding::same, 2, 2, Activation::relu6); });
    }
    model.output(y);
    expect_bytes(model, {x}, quantized(relu6(sums), y_));
  }
}

TEST_P(QuantizedTflite, FullyConnected) {
  TfliteModel model;
  const Array x = bytes({5, 9}, 1);
  const int in = input(model, x.dims, x_);
  Array w;
  std::vector<float> scales, b;
  const int weights_ = weights(model, {4, 9}, 0, &w, &scales), bias_ = bias(model, 4, x_.scale, scales, &b);
  const Array sums = combine(test::matmul(real(x, x_), test::transpose(w, {1, 0})), {{4}, b}, plus);
  const int y = computed(model, sums.dims, y_);
  model.output(
      model.node(9, {in, weights_, bias_}, {y}, [](Builder& fb) { return schema::CreateFullyConnectedOptions(fb); }));
  expect_bytes(model, {x}, quantized(sums, y_));
}

TEST_P(QuantizedTflite, ArithmeticAndConcatenation) {
  const Steps z_ = {0.125f, -20};
  const Array x = bytes({2, 3, 5}, 1), z = bytes({2, 3, 5}, 2), a = real(x, x_), b = real(z, z_);
  for (const int32_t code : {0, 18, 2}) {
    SCOPED_TRACE(code);
    TfliteModel model;
    const int in = input(model, x.dims, x_), second = input(model, z.dims, z_);
    const Array want = code == 0 ? combine(a, b, plus) : code == 18 ? combine(a, b, times) : test::concat({a, b}, 2);
    Options options = [](Builder& fb) { return schema::CreateAddOptions(fb); };
    if (code == 18) options = [](Builder& fb) { return schema::CreateMulOptions(fb); };
    if (code == 2) options = [](Builder& fb) { return schema::CreateConcatenationOptions(fb, 2); };
    model.output(model.node(code, {in, second}, {computed(model, want.dims, y_)}, options));
    expect_bytes(model, {x, z}, quantized(want, y_));
  }
}

// The bytes themselves are averaged, halves away from 0.
TEST_P(QuantizedTflite, AveragePool) {
  TfliteModel model;
  const Array x = bytes({1, 6, 8, 5}, 1);
  const int in = input(model, x.dims, x_);
  test::Window window;
  for (const size_t d : {0, 1}) window.kernel[d] = window.stride[d] = 2;
  const Array averages = nhwc(test::average_pool(nchw(x), window, false));
  model.output(model.node(1, {in}, {computed(model, averages.dims, x_)},
                          [](Builder& fb) { return schema::CreatePool2DOptions(fb, Padding::valid, 2, 2, 2, 2); }));
  Graph graph = import(model);
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  expect_near(test::run(graph, {x}).at(0), map(averages, [](float v) { return std::round(v); }), 0);
}

// ONNX has no such rounding: there, halves are rounded to even.
TEST_P(QuantizedTflite, AveragePoolAsOnnx) {
  TfliteModel model;
  const Array x = bytes({1, 2, 64, 5}, 1), real_x = real(x, x_);
  const int in = model.node(114, {model.input(x.dims)}, {computed(model, x.dims, x_)});
  test::Window window;
  for (const size_t d : {0, 1}) window.kernel[d] = window.stride[d] = 2;
  const Array averages = nhwc(test::average_pool(nchw(real_x), window, false));
  const int mean = model.node(1, {in}, {computed(model, averages.dims, x_)},
                              [](Builder& fb) { return schema::CreatePool2DOptions(fb, Padding::valid, 2, 2, 2, 2); });
  model.output(model.node(6, {mean}, {model.computed(averages.dims)}));
  Graph graph = import(model);
  ASSERT_EQ(optimize(graph), QN_OK) << qn_last_message();
  const std::string path = folder_.path("net.onnx");
  export_onnx(graph, path);
  Graph again = import_onnx(path);
  ASSERT_EQ(optimize(again), QN_OK) << qn_last_message();
  const Array to_even = real(quantized(averages, x_), x_), ours = test::run(graph, {real_x}).at(0);
  expect_near(test::run(again, {real_x}).at(0), ours, 0);
  EXPECT_NE(ours.data, to_even.data);  // as an average of ONNX would round
}

TEST_P(QuantizedTflite, MaxPoolPadAndReshape) {
  TfliteModel model;
  const Array x = bytes({1, 5, 7, 3}, 1);
  const int in = input(model, x.dims, x_);
  test::Window window;
  for (const size_t d : {0, 1}) window.kernel[d] = window.stride[d] = 2;
  const Array padded = test::pad(x, {0, 1, 0, 0}, {0, 0, 1, 0}, static_cast<float>(zero(x_)));
  const Array largest = nhwc(test::max_pool(nchw(padded), window));
  const int pad = model.node(34, {in, model.integers({0, 0, 1, 0, 0, 1, 0, 0})}, {computed(model, padded.dims, x_)});
  const int pool = model.node(17, {pad}, {computed(model, largest.dims, x_)},
                              [](Builder& fb) { return schema::CreatePool2DOptions(fb, Padding::valid, 2, 2, 2, 2); });
  model.output(model.node(22, {pool, model.integers({1, -1})}, {computed(model, {1, 36}, x_)}));
  expect(model, {x}, {test::reshape(largest, {1, 36})}, 0);
}

TEST_P(QuantizedTflite, QuantizeAndDequantize) {
  TfliteModel model;
  const Array x = map(random({2, 9}, 1), [](float v) { return 8 * v; });
  const int bytes_ = model.node(114, {model.input(x.dims)}, {computed(model, x.dims, x_)});
  const int other = model.node(114, {bytes_}, {computed(model, x.dims, y_)});
  model.output(other);
  model.output(model.node(6, {bytes_}, {model.computed(x.dims)}));
  const Array first = quantized(x, x_);
  expect(model, {x}, {quantized(real(first, x_), y_), real(first, x_)}, 0);
}

}  // namespace tflite_quantized_test
}  // namespace quern::test

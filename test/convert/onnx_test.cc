// Every operator that the ONNX importer knows, against plain computations, and what it refuses.
#include <fp16.h>
#include <gtest/gtest.h>
#include <quern/extra.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "convert/convert.h"
#include "graph/file/format.h"
#include "graph/pass/passes.h"
#include "onnx_model.h"

namespace quern {
namespace {

using test::Array;
using test::Dims;
using test::error_of;
using test::expect_near;
using test::OnnxModel;
using test::random;

const auto plus = std::plus<float>();
const auto minus = std::minus<float>();
const auto times = std::multiplies<float>();
const auto over = std::divides<float>();

class Onnx : public testing::Test {
 protected:
  static void SetUpTestSuite() { expect_ok(qn_extra_register()); }
  Graph import(const OnnxModel& model, const std::vector<std::string>& outputs = {}) {
    return import_onnx(folder_.write("net.onnx", model.bytes()), {outputs});
  }
  std::string refusal(const OnnxModel& model) {
    return error_of([&] { import(model); });
  }
  std::vector<Array> run(const OnnxModel& model, const std::vector<Array>& inputs) {
    return test::run(import(model), inputs);
  }
  // A node reads the input "x" of the dimensions of `x` and constants c0, c1, ...; it writes "y".
  OnnxModel one_node(int64_t opset, const std::string& type, const std::string& attributes, const Dims& x,
                     const std::vector<Array>& constants = {}) {
    OnnxModel model(opset);
    model.input("x", x).output("y");
    std::vector<std::string> inputs = {"x"};
    for (const Array& constant : constants) {
      inputs.push_back(std::string("c").append(std::to_string(inputs.size() - 1)));
      model.floats(inputs.back(), constant);
    }
    return model.node(type, inputs, {"y"}, attributes);
  }
  void expect_node(int64_t opset, const std::string& type, const std::string& attributes, const Array& x,
                   const std::vector<Array>& constants, const Array& want) {
    SCOPED_TRACE(type + "-" + std::to_string(opset) + " " + attributes);
    expect_near(run(one_node(opset, type, attributes, x.dims, constants), {x}).at(0), want);
  }
  // The same with constants of integers.
  void expect_shaping(int64_t opset, const std::string& type, const std::string& attributes, const Array& x,
                      const std::vector<std::vector<int64_t>>& constants, const Array& want) {
    SCOPED_TRACE(type + "-" + std::to_string(opset) + " " + attributes);
    OnnxModel model(opset);
    model.input("x", x.dims).output("y");
    std::vector<std::string> inputs = {"x"};
    for (const auto& constant : constants) {
      inputs.push_back(std::string("c").append(std::to_string(inputs.size() - 1)));
      model.integers(inputs.back(), constant);
    }
    expect_near(run(model.node(type, inputs, {"y"}, attributes), {x}).at(0), want);
  }

  test::Folder folder_;
};

// ---- windows ----------------------------------------------------------------------------------

TEST_F(Onnx, Conv) {
  const Array x = random({2, 4, 9, 8}, 1), w = random({6, 4, 3, 3}, 2), b = random({6}, 3);
  expect_node(11, "Conv", "", x, {w, b}, test::conv(x, w, b.data, {}, 1));
  test::Window window;
  window.stride[0] = 2;
  window.dilation[1] = 2;
  window.begin[0] = 1;
  window.end[1] = 2;
  expect_node(7, "Conv", "kernel_shape=[3,3] strides=[2,1] dilations=[1,2] pads=[1,0,0,2] group=1", x, {w},
              test::conv(x, w, {}, window, 1));
  const Array depthwise = random({4, 1, 3, 3}, 4);
  expect_node(13, "Conv", "group=4 auto_pad='VALID'", x, {depthwise}, test::conv(x, depthwise, {}, {}, 4));
}

TEST_F(Onnx, AutomaticPadding) {
  const Array x = random({1, 2, 7, 8}, 1), w = random({3, 2, 4, 3}, 2);
  test::Window window;  // 7 by 2 with kernel 4: 3 pixels; 8 by 3 with kernel 3: 1 pixel
  window.stride[0] = 2;
  window.stride[1] = 3;
  window.begin[0] = 1;
  window.end[0] = 2;
  window.end[1] = 1;
  expect_node(11, "Conv", "strides=[2,3] auto_pad='SAME_UPPER'", x, {w}, test::conv(x, w, {}, window, 1));
  std::swap(window.begin[0], window.end[0]);
  std::swap(window.begin[1], window.end[1]);
  expect_node(11, "Conv", "strides=[2,3] auto_pad='SAME_LOWER'", x, {w}, test::conv(x, w, {}, window, 1));
}

TEST_F(Onnx, Pooling) {
  const Array x = random({2, 3, 8, 9}, 1);
  test::Window window;
  window.kernel[0] = 3;
  window.kernel[1] = 2;
  window.stride[0] = window.stride[1] = 2;
  window.begin[0] = 1;
  expect_node(8, "MaxPool", "kernel_shape=[3,2] strides=[2,2] pads=[1,0,0,0]", x, {}, test::max_pool(x, window));
  expect_node(7, "AveragePool", "kernel_shape=[3,2] strides=[2,2] pads=[1,0,0,0]", x, {},
              test::average_pool(x, window, false));
  expect_node(7, "AveragePool", "kernel_shape=[3,2] strides=[2,2] pads=[1,0,0,0] count_include_pad=1", x, {},
              test::average_pool(x, window, true));
  window.ceil = true;
  expect_node(12, "MaxPool", "kernel_shape=[3,2] strides=[2,2] pads=[1,0,0,0] ceil_mode=1 storage_order=0", x, {},
              test::max_pool(x, window));
  window.ceil = false;
  window.dilation[0] = 2;
  expect_node(12, "MaxPool", "kernel_shape=[3,2] strides=[2,2] pads=[1,0,0,0] dilations=[2,1]", x, {},
              test::max_pool(x, window));
  // A window larger than the image.
  test::Window large;
  large.kernel[0] = 11, large.kernel[1] = 12;
  large.stride[0] = 4, large.stride[1] = 3;
  large.begin[1] = 1;
  large.ceil = true;
  const std::string larger = "kernel_shape=[11,12] strides=[4,3] pads=[0,1,0,0] ceil_mode=1";
  expect_node(12, "MaxPool", larger, x, {}, test::max_pool(x, large));
  expect_node(19, "AveragePool", larger, x, {}, test::average_pool(x, large, false));
  expect_node(19, "AveragePool", larger + " count_include_pad=1", x, {}, test::average_pool(x, large, true));
  // Windows that see the padding on both sides of the image, and none of it.
  test::Window astride;
  astride.kernel[0] = astride.kernel[1] = 2;
  astride.dilation[0] = 9, astride.dilation[1] = 10;
  for (size_t d = 0; d < 2; ++d) astride.begin[d] = astride.end[d] = 1;
  const std::string around = "kernel_shape=[2,2] dilations=[9,10] pads=[1,1,1,1]";
  expect_node(12, "MaxPool", around, x, {}, test::max_pool(x, astride));
  expect_node(19, "AveragePool", around, x, {}, test::average_pool(x, astride, false));
  expect_node(19, "AveragePool", around + " count_include_pad=1", x, {}, test::average_pool(x, astride, true));
  test::Window whole;
  whole.kernel[0] = 8;
  whole.kernel[1] = 9;
  const Array average = test::average_pool(x, whole, false);
  expect_node(7, "GlobalAveragePool", "", x, {}, average);
  expect_node(7, "GlobalMaxPool", "", x, {}, test::max_pool(x, whole));
  expect_node(11, "ReduceMean", "axes=[2,3]", x, {}, average);
  expect_node(13, "ReduceMean", "axes=[-1,-2] keepdims=0", x, {}, test::reshape(average, {2, 3}));
  expect_shaping(18, "ReduceMean", "keepdims=1", x, {{2, 3}}, average);
  test::Window row;
  row.kernel[1] = 9;
  expect_node(7, "ReduceMean", "axes=[-1] keepdims=1", x, {}, test::average_pool(x, row, false));
  const Array last = test::transpose(x, {0, 2, 3, 1});
  expect_node(13, "ReduceMean", "axes=[1,2] keepdims=0", last, {}, test::reshape(average, {2, 3}));
  expect_node(13, "ReduceMax", "axes=[1,2]", last, {}, test::reshape(test::max_pool(x, whole), {2, 1, 1, 3}));
}

// ---- elementwise ------------------------------------------------------------------------------

TEST_F(Onnx, Activations) {
  const Array x = test::map(random({2, 3, 4, 5}, 1), [](float v) { return 8 * v; });
  const auto expect_function = [&](int64_t opset, const std::string& type, const std::string& attributes,
                                   float (*f)(float)) { expect_node(opset, type, attributes, x, {}, test::map(x, f)); };
  expect_function(7, "Relu", "", [](float v) { return std::max(v, 0.0f); });
  expect_function(7, "LeakyRelu", "", [](float v) { return v < 0 ? 0.01f * v : v; });
  expect_function(7, "LeakyRelu", "alpha=0.5f", [](float v) { return v < 0 ? v / 2 : v; });
  expect_function(7, "Sigmoid", "", [](float v) { return 1 / (1 + std::exp(-v)); });
  expect_function(7, "Tanh", "", [](float v) { return std::tanh(v); });
  expect_function(14, "HardSwish", "", [](float v) { return v * std::min(std::max(v + 3, 0.0f), 6.0f) / 6; });
  expect_function(7, "HardSigmoid", "", [](float v) { return std::min(std::max(0.2f * v + 0.5f, 0.0f), 1.0f); });
  expect_function(7, "HardSigmoid", "alpha=0.25f beta=0.75f",
                  [](float v) { return std::min(std::max(v / 4 + 0.75f, 0.0f), 1.0f); });
  expect_function(7, "Exp", "", [](float v) { return std::exp(v); });
  expect_function(7, "Neg", "", [](float v) { return -v; });
  expect_function(7, "Abs", "", [](float v) { return std::fabs(v); });
  expect_function(7, "Clip", "min=-2.0f max=3.0f", [](float v) { return std::min(std::max(v, -2.0f), 3.0f); });
  expect_function(7, "Clip", "max=3.0f", [](float v) { return std::min(v, 3.0f); });
  expect_function(9, "Clip", "min=0f max=inff", [](float v) { return std::max(v, 0.0f); });
  expect_function(9, "Clip", "min=-inff max=1f", [](float v) { return std::min(v, 1.0f); });
  expect_function(7, "Identity", "", [](float v) { return v; });
  expect_function(7, "Dropout", "ratio=0.3f", [](float v) { return v; });
  const Array positive = test::map(x, [](float v) { return std::fabs(v) + 0.5f; });
  expect_node(7, "Sqrt", "", positive, {}, test::map(positive, [](float v) { return std::sqrt(v); }));
  expect_node(7, "Reciprocal", "", positive, {}, test::map(positive, [](float v) { return 1 / v; }));
  expect_node(7, "Pow", "", positive, {{{}, {1.5f}}}, test::map(positive, [](float v) { return std::pow(v, 1.5f); }));
  expect_node(7, "Pow", "", x, {{{1}, {2}}}, test::map(x, [](float v) { return v * v; }));
  expect_node(11, "Clip", "", x, {{{}, {-2}}, {{}, {3}}},
              test::map(x, [](float v) { return std::min(std::max(v, -2.0f), 3.0f); }));
  expect_node(8, "Max", "", x, {{{}, {1}}}, test::map(x, [](float v) { return std::max(v, 1.0f); }));
  expect_node(8, "Min", "", x, {{{1}, {1}}}, test::map(x, [](float v) { return std::min(v, 1.0f); }));
  OnnxModel unbounded(13);
  unbounded.input("x", x.dims).output("y").scalar("low", 1).node("Constant", {}, {"high"}, "value_float=inff");
  expect_near(run(unbounded.node("Clip", {"x", "low", "high"}, {"y"}), {x}).at(0),
              test::map(x, [](float v) { return std::max(v, 1.0f); }));
  OnnxModel upper_only(13);
  upper_only.input("x", x.dims).output("y").scalar("high", 3).node("Clip", {"x", "", "high"}, {"y"});
  expect_near(run(upper_only, {x}).at(0), test::map(x, [](float v) { return std::min(v, 3.0f); }));
}

TEST_F(Onnx, JoinedDimensionsOfZero) {
  for (const Dims& dims : std::vector<Dims>{{2, 0, 4, 3}, {2, 4, 0, 3}}) {
    const Array x = random(dims, 1);
    expect_node(13, "Flatten", "axis=2", x, {}, random({dims[0] * dims[1], dims[2] * dims[3]}, 1));
    expect_node(13, "DepthToSpace", "blocksize=2", x, {}, random({dims[0], dims[1] / 4, 2 * dims[2], 2 * dims[3]}, 1));
  }
}

TEST_F(Onnx, PRelu) {
  const Array x = random({2, 3, 4, 5}, 1), slope = random({3, 1, 1}, 2);
  const Array want = test::combine(x, slope, [](float v, float s) { return v < 0 ? v * s : v; });
  expect_node(9, "PRelu", "", x, {slope}, want);
  expect_node(9, "PRelu", "", x, {test::reshape(slope, {1, 3, 1, 1})}, want);
  expect_node(9, "PRelu", "", x, {{{1}, {0.5f}}}, test::map(x, [](float v) { return v < 0 ? v / 2 : v; }));
  const Array along_width = random({5}, 3);
  expect_node(9, "PRelu", "", x, {along_width},
              test::combine(x, along_width, [](float v, float s) { return v < 0 ? v * s : v; }));
  const Array of_pixels = random({4, 5}, 2);
  expect_node(9, "PRelu", "", x, {of_pixels},
              test::combine(x, of_pixels, [](float v, float s) { return v < 0 ? v * s : v; }));
}

TEST_F(Onnx, ArithmeticBroadcasts) {
  const Array x = random({2, 3, 4, 5}, 1);
  const Array near_two = test::map(random({3, 1, 1}, 2), [](float v) { return v + 2; });
  const std::vector<Array> others = {near_two, {{}, {2}}, {{1, 1}, {3}}, random({4, 5}, 3), random({2, 1, 4, 1}, 4)};
  for (const Array& other : others) {
    SCOPED_TRACE(testing::PrintToString(other.dims));
    expect_node(7, "Add", "", x, {other}, test::combine(x, other, plus));
    expect_node(7, "Sub", "", x, {other}, test::combine(x, other, minus));
    expect_node(7, "Mul", "", x, {other}, test::combine(x, other, times));
    OnnxModel reversed(13);
    reversed.input("x", x.dims).output("y").floats("c", other).node("Sub", {"c", "x"}, {"y"});
    expect_near(run(reversed, {x}).at(0), test::combine(other, x, minus));
  }
  expect_node(7, "Div", "", x, {near_two}, test::combine(x, near_two, over));
  expect_node(7, "Div", "", x, {{{}, {3}}}, test::map(x, [](float v) { return v / 3; }));
}

// Exactly as IEEE 754 has it, optimised or not: infinity times zero is NaN, and so is infinity less infinity.
TEST_F(Onnx, ArithmeticWithInfinity) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = test::make({1, 2, 2, 4}, {0, -0.0f, 1, -2, infinity, -infinity, nan, 3e38f,  //
                                            4, -5, 6e-38f, 0, -infinity, 7, -8, 9});
  const auto expect_exact = [&](const OnnxModel& model, const Array& want) {
    Graph optimised = import(model);
    ASSERT_EQ(optimize(optimised), QN_OK) << qn_last_message();
    for (const Array& got : {run(model, {x}).at(0), test::run(std::move(optimised), {x}).at(0)}) {
      ASSERT_EQ(got.dims, want.dims);
      for (size_t i = 0; i < want.data.size(); ++i) {
        ASSERT_EQ(std::isnan(got.data[i]), std::isnan(want.data[i])) << "element " << i << ": " << got.data[i];
        ASSERT_TRUE(std::isnan(want.data[i]) || got.data[i] == want.data[i]) << "element " << i << ": " << got.data[i];
      }
    }
  };
  const std::vector<std::pair<std::string, std::function<float(float, float)>>> kinds = {
      {"Add", plus}, {"Sub", minus}, {"Mul", times}, {"Div", over}};
  for (const float value : {infinity, -infinity, nan, 0.0f}) {
    for (const Dims& dims : {Dims{}, Dims{1}, Dims{2, 1, 1}, Dims{1, 2, 1, 1}}) {
      Array c = test::make(dims, std::vector<float>(test::count(dims), value));
      if (c.data.size() > 1) c.data[1] = 2;
      for (const auto& [type, f] : kinds) {
        SCOPED_TRACE(type + " " + std::to_string(value) + " " + testing::PrintToString(dims));
        OnnxModel model(13), reversed(13);
        model.input("x", x.dims).output("y").floats("c", c).node(type, {"x", "c"}, {"y"});
        expect_exact(model, test::combine(x, c, f));
        reversed.input("x", x.dims).output("y").floats("c", c).node(type, {"c", "x"}, {"y"});
        expect_exact(reversed, test::combine(c, x, f));
      }
    }
  }
  // Chains of which optimising makes one node where it can.
  const std::vector<std::vector<std::pair<size_t, float>>> chains = {
      {{2, infinity}, {0, -infinity}},         {{2, infinity}, {2, 0}},
      {{0, infinity}, {1, infinity}},          {{3, infinity}, {2, infinity}},
      {{2, 2}, {0, infinity}, {2, 0.5f}},      {{2, 0}, {3, 0}},
      {{2, 3}, {3, infinity}, {0, 1}, {2, 2}}, {{1, 2}, {2, nan}},
      {{2, -1}, {2, infinity}, {0, 3}},
  };
  for (size_t n = 0; n < chains.size(); ++n) {
    SCOPED_TRACE("chain " + std::to_string(n));
    OnnxModel model(13);
    model.input("x", x.dims).node("Identity", {"x"}, {"v0"});
    Array want = x;
    for (size_t i = 0; i < chains[n].size(); ++i) {
      const auto& [kind, value] = chains[n][i];
      const std::string step = std::to_string(i), next = std::to_string(i + 1);
      model.scalar("c" + step, value).node(kinds[kind].first, {"v" + step, "c" + step}, {"v" + next});
      want = test::combine(want, {{}, {value}}, kinds[kind].second);
    }
    expect_exact(model.output("v" + std::to_string(chains[n].size())), want);
  }
}

TEST_F(Onnx, ArithmeticOfComputedTensors) {
  const Array x = random({2, 3, 4, 5}, 1), z = random({4, 1}, 2), w = random({3, 3, 1, 1}, 3);
  const Array c = test::conv(x, w, {}, {}, 1);
  for (const auto& [type, f] : std::vector<std::pair<std::string, std::function<float(float, float)>>>{
           {"Add", plus}, {"Sub", minus}, {"Mul", times}}) {
    OnnxModel model(13);
    model.input("x", x.dims).input("z", z.dims).output("y").output("t").floats("w", w);
    model.node("Conv", {"x", "w"}, {"c"}).node(type, {"c", "z"}, {"y"}).node(type, {"x", "c"}, {"t"});
    const std::vector<Array> got = run(model, {x, z});
    expect_near(got.at(0), test::combine(c, z, f));
    expect_near(got.at(1), test::combine(x, c, f));
  }
  OnnxModel sum(13);
  sum.input("x", x.dims).input("z", z.dims).output("y").node("Sum", {"x", "z", "x"}, {"y"});
  expect_near(run(sum, {x, z}).at(0), test::combine(test::combine(x, z, plus), x, plus));
}

// ---- per channel ------------------------------------------------------------------------------

TEST_F(Onnx, BatchNormalization) {
  const Array x = random({2, 3, 4, 5}, 1), gamma = random({3}, 2), beta = random({3}, 3), mean = random({3}, 4);
  const Array variance = test::map(random({3}, 5), [](float v) { return v + 1.5f; });
  const auto want = [&](const Array& of, float epsilon) {
    return test::generate(of.dims, [&](const Dims& i) {
      const size_t c = i[1];
      return gamma.data[c] * (of.at(i) - mean.data[c]) / std::sqrt(variance.data[c] + epsilon) + beta.data[c];
    });
  };
  expect_node(9, "BatchNormalization", "", x, {gamma, beta, mean, variance}, want(x, 1e-5f));
  expect_node(7, "BatchNormalization", "epsilon=0.5f momentum=0.9f spatial=1", x, {gamma, beta, mean, variance},
              want(x, 0.5f));
  const Array rows = random({4, 3}, 6);
  expect_node(15, "BatchNormalization", "training_mode=0", rows, {gamma, beta, mean, variance}, want(rows, 1e-5f));
  EXPECT_NE(refusal(one_node(8, "BatchNormalization", "spatial=0", x.dims, {gamma, beta, mean, variance}))
                .find("y (BatchNormalization: spatial: 0)"),
            std::string::npos);
  // In training, a normalization of what is normalized already changes nothing but by gamma and beta.
  const Array even = test::make({4, 1}, {-1, 1, -1, 1}), two = test::make({1}, {2}), three = test::make({1}, {3});
  expect_node(14, "BatchNormalization", "training_mode=1 epsilon=0.0f", even, {two, three, three, three},
              test::map(even, [](float v) { return 2 * v + 3; }));
}

TEST_F(Onnx, Lrn) {
  const Array x = random({2, 7, 3, 4}, 1);
  expect_node(13, "LRN", "size=5 alpha=0.5f beta=0.5f bias=2.0f", x, {}, test::lrn(x, 5, 0.5f, 0.5f, 2));
  expect_node(13, "LRN", "size=4", x, {}, test::lrn(x, 4, 1e-4f, 0.75f, 1));
}

// ---- products ---------------------------------------------------------------------------------

TEST_F(Onnx, MatMulAndGemm) {
  const Array x = random({3, 4}, 1), w = random({4, 5}, 2), b = random({5}, 3), full = random({3, 5}, 4);
  const Array product = test::matmul(x, w);
  expect_node(13, "MatMul", "", x, {w}, product);
  const Array deep = random({2, 3, 4}, 5);
  expect_node(13, "MatMul", "", deep, {w}, test::matmul(deep, w));
  expect_node(13, "Gemm", "", x, {w}, product);
  expect_node(13, "Gemm", "", x, {w, b}, test::combine(product, b, plus));
  expect_node(13, "Gemm", "", x, {w, {{}, {2}}}, test::map(product, [](float v) { return v + 2; }));
  expect_node(7, "Gemm", "transB=1 alpha=0.5f beta=2.0f", x, {test::transpose(w, {1, 0}), b},
              test::combine(product, b, [](float p, float c) { return p / 2 + 2 * c; }));
  expect_node(13, "Gemm", "beta=2.0f", x, {w, full},
              test::combine(product, full, [](float p, float c) { return p + 2 * c; }));
  const Array column = test::transpose(x, {1, 0});
  expect_node(13, "Gemm", "transA=1", column, {w, b}, test::combine(product, b, plus));
}

TEST_F(Onnx, SoftmaxOfBothKinds) {
  const Array x = random({2, 3, 4, 5}, 1);
  expect_node(13, "Softmax", "axis=1", x, {}, test::softmax(x, 1));
  expect_node(13, "Softmax", "", x, {}, test::softmax(x, 3));
  expect_node(7, "Softmax", "", x, {}, test::reshape(test::softmax(test::reshape(x, {2, 60}), 1), x.dims));
  expect_node(11, "Softmax", "axis=2", x, {}, test::reshape(test::softmax(test::reshape(x, {6, 20}), 1), x.dims));
  expect_node(11, "Softmax", "axis=-1", x, {}, test::softmax(x, 3));
  const Array classes = random({2, 9, 1, 1}, 2);
  expect_node(7, "Softmax", "", classes, {}, test::softmax(classes, 1));
}

// ---- shapes -----------------------------------------------------------------------------------

TEST_F(Onnx, ShapesOfTensors) {
  const Array x = random({2, 3, 4, 5}, 1), thin = random({2, 1, 4, 1}, 2);
  expect_node(7, "Flatten", "", x, {}, test::reshape(x, {2, 60}));
  expect_node(7, "Flatten", "axis=0", x, {}, test::reshape(x, {1, 120}));
  expect_node(11, "Flatten", "axis=-1", x, {}, test::reshape(x, {24, 5}));
  expect_shaping(7, "Reshape", "", x, {{0, -1, 10}}, test::reshape(x, {2, 6, 10}));
  expect_node(7, "Squeeze", "", thin, {}, test::reshape(thin, {2, 4}));
  expect_node(11, "Squeeze", "axes=[-1]", thin, {}, test::reshape(thin, {2, 1, 4}));
  expect_shaping(13, "Squeeze", "", thin, {{1}}, test::reshape(thin, {2, 4, 1}));
  expect_node(7, "Unsqueeze", "axes=[0,3]", thin, {}, test::reshape(thin, {1, 2, 1, 1, 4, 1}));
  expect_shaping(13, "Unsqueeze", "", x, {{-1}}, test::reshape(x, {2, 3, 4, 5, 1}));
  expect_node(7, "Transpose", "", x, {}, test::transpose(x, {3, 2, 1, 0}));
  expect_node(7, "Transpose", "perm=[0,2,3,1]", x, {}, test::transpose(x, {0, 2, 3, 1}));
  expect_shaping(8, "Expand", "", x, {{1, 1, 5}}, x);
}

TEST_F(Onnx, Parts) {
  const Array x = random({2, 6, 4, 5}, 1);
  expect_node(7, "Slice", "starts=[1,-3] ends=[9,-1] axes=[1,3]", x, {}, test::slice(x, {0, 1, 0, 2}, {2, 6, 4, 4}));
  expect_node(9, "Slice", "starts=[0,2] ends=[1,5]", x, {}, test::slice(x, {0, 2, 0, 0}, {1, 5, 4, 5}));
  expect_shaping(10, "Slice", "", x, {{2}, {INT64_MAX}, {2}, {1}}, test::slice(x, {0, 0, 2, 0}, {2, 6, 4, 5}));
  OnnxModel split(13);
  split.input("x", x.dims).output("p").output("q").integers("sizes", {2, 4});
  split.node("Split", {"x", "sizes"}, {"p", "q"}, "axis=1");
  expect_near(run(split, {x}).at(1), test::slice(x, {0, 2, 0, 0}, {2, 6, 4, 5}));
  OnnxModel uneven(18);
  uneven.input("x", x.dims).output("p").output("q").node("Split", {"x"}, {"p", "q"}, "axis=-1 num_outputs=2");
  expect_near(run(uneven, {x}).at(0), test::slice(x, {0, 0, 0, 0}, {2, 6, 4, 3}));
  expect_shaping(
      13, "Gather", "axis=1", x, {{2, 3, 0}},
      test::concat({test::slice(x, {0, 2, 0, 0}, {2, 4, 4, 5}), test::slice(x, {0, 0, 0, 0}, {2, 1, 4, 5})}, 1));
  OnnxModel scalar(13);
  scalar.input("x", x.dims).output("y").integers("at", {-1}).integers("none", {});
  scalar.node("Reshape", {"at", "none"}, {"last"}).node("Gather", {"x", "last"}, {"y"}, "axis=2");
  expect_near(run(scalar, {x}).at(0), test::reshape(test::slice(x, {0, 0, 3, 0}, {2, 6, 4, 5}), {2, 6, 5}));
  OnnxModel joined(13);
  joined.input("x", x.dims).output("y").floats("c", random({2, 2, 4, 5}, 2));
  joined.node("Concat", {"x", "c", "x"}, {"y"}, "axis=-3");
  expect_near(run(joined, {x}).at(0), test::concat({x, random({2, 2, 4, 5}, 2), x}, 1));
}

TEST_F(Onnx, Pad) {
  const Array x = random({2, 3, 4, 5}, 1);
  expect_node(7, "Pad", "pads=[0,0,1,2,0,0,3,0] value=0.5f", x, {}, test::pad(x, {0, 0, 1, 2}, {0, 0, 3, 0}, 0.5f));
  expect_shaping(13, "Pad", "mode='constant'", x, {{0, 1, 0, 0, 0, 0, 0, 1}},
                 test::pad(x, {0, 1, 0, 0}, {0, 0, 0, 1}, 0));
  OnnxModel model(18);
  model.input("x", x.dims).output("y").integers("pads", {1, 2}).scalar("v", 7).integers("axes", {-1});
  model.node("Pad", {"x", "pads", "v", "axes"}, {"y"});
  expect_near(run(model, {x}).at(0), test::pad(x, {0, 0, 0, 1}, {0, 0, 0, 2}, 7));
  EXPECT_NE(refusal(one_node(7, "Pad", "pads=[0,0,1,1,0,0,1,1] mode='mirror'", x.dims)).find("y (Pad: mode mirror)"),
            std::string::npos);
}

TEST_F(Onnx, DepthToSpace) {
  const Array x = random({2, 12, 3, 4}, 1);
  const Array dcr = test::transpose(test::reshape(x, {2, 2, 2, 3, 3, 4}), {0, 3, 4, 1, 5, 2});
  expect_node(11, "DepthToSpace", "blocksize=2", x, {}, test::reshape(dcr, {2, 3, 6, 8}));
  const Array crd = test::transpose(test::reshape(x, {2, 3, 2, 2, 3, 4}), {0, 1, 4, 2, 5, 3});
  expect_node(11, "DepthToSpace", "blocksize=2 mode='CRD'", x, {}, test::reshape(crd, {2, 3, 6, 8}));
}

// ---- resize -----------------------------------------------------------------------------------

// Output pixel (i, j) of nearest and bilinear with the position given by `where(index, in, out)`.
Array nearest(const Array& x, size_t h, size_t w, const std::function<double(double, double, double)>& where,
              double (*choose)(double)) {
  const auto pick = [&](size_t at, size_t in, size_t out) {
    const double p = choose(where(static_cast<double>(at), static_cast<double>(in), static_cast<double>(out)));
    return static_cast<size_t>(std::clamp(p, 0.0, static_cast<double>(in - 1)));
  };
  return test::generate({x.dims[0], x.dims[1], h, w}, [&](const Dims& i) {
    return x.at({i[0], i[1], pick(i[2], x.dims[2], h), pick(i[3], x.dims[3], w)});
  });
}

Array bilinear(const Array& x, size_t h, size_t w, const std::function<double(double, double, double)>& where) {
  return test::generate({x.dims[0], x.dims[1], h, w}, [&](const Dims& i) {
    double sum = 0;
    const auto place = [&](size_t at, size_t in, size_t out) {
      const double p = where(static_cast<double>(at), static_cast<double>(in), static_cast<double>(out));
      return std::clamp(p, 0.0, static_cast<double>(in - 1));
    };
    const double y = place(i[2], x.dims[2], h), z = place(i[3], x.dims[3], w);
    for (size_t r = 0; r < x.dims[2]; ++r) {
      for (size_t s = 0; s < x.dims[3]; ++s) {
        const double weight = std::max(0.0, 1 - std::fabs(y - static_cast<double>(r))) *
                              std::max(0.0, 1 - std::fabs(z - static_cast<double>(s)));
        sum += weight * x.at({i[0], i[1], r, s});
      }
    }
    return static_cast<float>(sum);
  });
}

double half_pixel(double i, double in, double out) { return (i + 0.5) * in / out - 0.5; }
double asymmetric(double i, double in, double out) { return i * in / out; }
double align_corners(double i, double in, double out) { return i * (in - 1) / (out - 1); }

TEST_F(Onnx, Upsample) {
  const Array x = random({2, 3, 4, 5}, 1);
  const auto floor = static_cast<double (*)(double)>(std::floor);
  expect_node(7, "Upsample", "mode='nearest' scales=[1f,1f,2f,3f]", x, {}, nearest(x, 8, 15, asymmetric, floor));
  expect_node(9, "Upsample", "mode='linear'", x, {{{4}, {1, 1, 2, 2}}}, bilinear(x, 8, 10, asymmetric));
  expect_node(10, "Resize", "mode='nearest'", x, {{{4}, {1, 1, 0.5f, 2}}}, nearest(x, 2, 10, asymmetric, floor));
}

TEST_F(Onnx, Resize) {
  const Array x = random({2, 3, 4, 5}, 1);
  const auto expect_sizes = [&](const std::string& attributes, const Array& want) {
    SCOPED_TRACE(attributes);
    OnnxModel model(13);
    model.input("x", x.dims).output("y").integers("sizes", {2, 3, 7, 9});
    expect_near(run(model.node("Resize", {"x", "", "", "sizes"}, {"y"}, attributes), {x}).at(0), want);
  };
  const auto floor = static_cast<double (*)(double)>(std::floor);
  const auto ceil = static_cast<double (*)(double)>(std::ceil);
  expect_sizes("", nearest(x, 7, 9, half_pixel, [](double p) { return std::ceil(p - 0.5); }));
  expect_sizes("nearest_mode='round_prefer_ceil'",
               nearest(x, 7, 9, half_pixel, [](double p) { return std::floor(p + 0.5); }));
  expect_sizes("nearest_mode='floor' coordinate_transformation_mode='asymmetric'", nearest(x, 7, 9, asymmetric, floor));
  expect_sizes("nearest_mode='ceil' coordinate_transformation_mode='asymmetric'", nearest(x, 7, 9, asymmetric, ceil));
  expect_sizes("mode='linear'", bilinear(x, 7, 9, half_pixel));
  expect_sizes("mode='linear' coordinate_transformation_mode='pytorch_half_pixel'", bilinear(x, 7, 9, half_pixel));
  expect_sizes("mode='linear' coordinate_transformation_mode='align_corners'", bilinear(x, 7, 9, align_corners));
  OnnxModel scaled(11);
  scaled.input("x", x.dims).output("y").floats("roi", {{0}, {}}).floats("scales", {{4}, {1, 1, 2, 2}});
  scaled.node("Resize", {"x", "roi", "scales"}, {"y"}, "mode='linear'");
  expect_near(run(scaled, {x}).at(0), bilinear(x, 8, 10, half_pixel));
  OnnxModel axes(18);
  axes.input("x", x.dims).output("y").integers("sizes", {8, 10});
  axes.node("Resize", {"x", "", "", "sizes"}, {"y"}, "mode='linear' axes=[2,3]");
  expect_near(run(axes, {x}).at(0), bilinear(x, 8, 10, half_pixel));
  OnnxModel unknown(13);
  unknown.input("x", x.dims).output("y").integers("sizes", {2, 3, 8, 10});
  unknown.node("Resize", {"x", "", "", "sizes"}, {"y"}, "mode='quintic'");
  EXPECT_NE(refusal(unknown).find("(Resize): mode is 'quintic'"), std::string::npos);
}

// ---- shape arithmetic -------------------------------------------------------------------------

TEST_F(Onnx, ViewByComputedShapeFollowsTheBatch) {
  OnnxModel model(11);
  model.input("x", {2, 3, 4, 5}).output("y").integers("zero", {0}).integers("rest", {-1}).integers("none", {});
  model.node("Shape", {"x"}, {"shape"}).node("Reshape", {"zero", "none"}, {"first"});
  model.node("Gather", {"shape", "first"}, {"batch"}).node("Unsqueeze", {"batch"}, {"batch1"}, "axes=[0]");
  model.node("Concat", {"batch1", "rest"}, {"to"}, "axis=0").node("Reshape", {"x", "to"}, {"y"});
  for (const size_t batch : {2, 5}) {
    const Array x = random({batch, 3, 4, 5}, 1);
    expect_near(run(model, {x}).at(0), test::reshape(x, {batch, 60}));
  }
}

TEST_F(Onnx, TellsWhichDimensionIsOpen) {
  OnnxModel model(11);
  model.input("x", {2, 3, 4, 5}).input("y", {2, 3, 4, 5}).output("z").node("Add", {"x", "y"}, {"z"});
  const auto first_of = [&](int input) {
    auto* type = model.model.mutable_graph()->mutable_input(input)->mutable_type()->mutable_tensor_type();
    return type->mutable_shape()->mutable_dim(0);
  };
  first_of(0)->clear_dim_value();
  first_of(0)->set_dim_param("batch");
  first_of(1)->set_dim_value(1);
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[0].open, 1);
  ASSERT_EQ(graph.inputs[0].dimensions.size(), 1u);
  EXPECT_EQ(graph.inputs[0].dimensions[0], "batch");
  EXPECT_EQ(graph.inputs[1].open, 0);
  EXPECT_TRUE(graph.inputs[1].dimensions.empty());
}

TEST_F(Onnx, SizesWorkedOutAtImport) {
  // resize(x, (shape(x)[2:] as floats * 2) as integers)
  OnnxModel model(13);
  model.input("x", {1, 2, 3, 4}).output("y").integers("two", {2}).integers("four", {4}).integers("zero", {0});
  model.scalar("factor", 2.2f);
  model.node("Shape", {"x"}, {"shape"}).node("Slice", {"shape", "two", "four", "zero"}, {"hw"});
  model.node("Slice", {"shape", "zero", "two"}, {"nc"}).node("Cast", {"hw"}, {"hw_f"}, "to=1");
  model.node("Mul", {"hw_f", "factor"}, {"twice_f"}).node("Floor", {"twice_f"}, {"floor"});
  model.node("Cast", {"floor"}, {"twice"}, "to=7").node("Concat", {"nc", "twice"}, {"sizes"}, "axis=0");
  model.node("Resize", {"x", "", "", "sizes"}, {"y"}, "mode='linear'");
  const Array x = random({1, 2, 3, 4}, 1);
  expect_near(run(model, {x}).at(0), bilinear(x, 6, 8, half_pixel));
}

TEST_F(Onnx, IntegerOperators) {
  // y = reshape(x, where(range(0, 4, 1) / 2 == [0, 0, 9, 9], [4, 6] ++ ..., constant_of_shape([4]) ...))
  OnnxModel model(13);
  model.input("x", {2, 3, 4})
      .output("y")
      .integers("none", {})
      .integers("c0", {0})
      .integers("c4", {4})
      .integers("c1", {1});
  for (const char* name : {"c0", "c4", "c1"}) model.node("Reshape", {name, "none"}, {std::string(name) + "s"});
  model.node("Range", {"c0s", "c4s", "c1s"}, {"range"}).integers("two", {2}).node("Div", {"range", "two"}, {"half"});
  model.integers("pattern", {0, 0, 9, 1}).node("Equal", {"half", "pattern"}, {"same"});
  model.node("ConstantOfShape", {"c4"}, {"zeros"});
  model.node("Cast", {"zeros"}, {"zeros_i"}, "to=7").node("Sub", {"zeros_i", "c1"}, {"minus"});
  model.node("Shape", {"x"}, {"shape"}).node("ReduceProd", {"shape"}, {"all"}, "keepdims=1");
  model.integers("sizes", {4, 3, 5, 2}).node("Where", {"same", "sizes", "minus"}, {"to"});
  model.node("Add", {"all", "c0"}, {"unused"}).node("Size", {"x"}, {"size"}).node("Mul", {"size", "c1"}, {"unused2"});
  model.node("Reshape", {"x", "to"}, {"y"});
  const Array x = random({2, 3, 4}, 1);
  expect_near(run(model, {x}).at(0), test::reshape(x, {4, 3, 1, 2}));
}

TEST_F(Onnx, ConstantsOfAllForms) {
  const Array x = random({2, 3}, 1);
  OnnxModel model(13);
  model.input("x", x.dims).output("y");
  onnx::schema::GraphProto* graph = model.model.mutable_graph();
  const auto add = [&](const char* name, onnx::schema::TensorProto::DataType type) {
    onnx::schema::TensorProto* tensor = graph->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    tensor->add_dims(3);
    return tensor;
  };
  onnx::schema::TensorProto* typed = add("float_data", onnx::schema::TensorProto::FLOAT);
  onnx::schema::TensorProto* doubles = add("double_data", onnx::schema::TensorProto::DOUBLE);
  onnx::schema::TensorProto* halves = add("half_data", onnx::schema::TensorProto::FLOAT16);
  onnx::schema::TensorProto* raw_halves = add("raw_half", onnx::schema::TensorProto::FLOAT16);
  std::vector<uint16_t> bits;
  for (int i = 0; i < 3; ++i) {
    typed->add_float_data(static_cast<float>(i));
    doubles->add_double_data(0.5 * i);
    halves->add_int32_data(fp16_ieee_from_fp32_value(0.25f * static_cast<float>(i)));
    bits.push_back(fp16_ieee_from_fp32_value(1.0f + static_cast<float>(i)));
  }
  raw_halves->set_raw_data(bits.data(), 6);
  model.node("Add", {"x", "float_data"}, {"a"}).node("Add", {"a", "double_data"}, {"b"});
  model.node("Add", {"b", "half_data"}, {"c"}).node("Add", {"c", "raw_half"}, {"d"});
  model.node("Constant", {}, {"k"}, "value_floats=[1f,2f,3f]").node("Mul", {"d", "k"}, {"e"});
  model.node("Constant", {}, {"i"}, "value_ints=[3,2]").node("Reshape", {"e", "i"}, {"y"});
  const Array want = test::generate({2, 3}, [&](const Dims& i) {
    const float n = static_cast<float>(i[1]);
    return (x.at(i) + n + 0.5f * n + 0.25f * n + 1 + n) * (1 + n);
  });
  expect_near(run(model, {x}).at(0), test::reshape(want, {3, 2}));
}

TEST_F(Onnx, NumbersBelowOneAreTrue) {
  OnnxModel model(13);
  model.input("x", {4}).output("y").floats("c", {{4}, {0.25f, 0, -0.5f, 2}});
  model.node("Cast", {"c"}, {"b"}, "to=9").node("Cast", {"b"}, {"f"}, "to=1").node("Mul", {"x", "f"}, {"y"});
  EXPECT_EQ(run(model, {test::make({4}, {1, 2, 3, 4})}).at(0).data, (std::vector<float>{1, 0, 3, 4}));
}

// ---- border -----------------------------------------------------------------------------------

TEST_F(Onnx, HalfPrecisionStaysAtTheBorder) {
  OnnxModel model(13);
  model.input("x", {1, 4}, onnx::schema::TensorProto::FLOAT16).output("y").output("z").node("Relu", {"x"}, {"y"});
  model.node("Cast", {"y"}, {"z"}, "to=1");
  const Graph graph = import(model);
  EXPECT_EQ(graph.inputs[0].type, QN_F16);
  EXPECT_EQ(graph.outputs[0].type, QN_F16);
  EXPECT_EQ(graph.outputs[1].type, QN_F32);
  const std::vector<Array> got = run(model, {test::make({1, 4}, {-1, 0.5f, 2, -3})});
  EXPECT_EQ(got.at(0).data, (std::vector<float>{0, 0.5f, 2, 0}));
}

TEST_F(Onnx, AnyTensorCanBeAnOutput) {
  OnnxModel model(13);
  model.input("x", {1, 2, 4, 4}).output("y").floats("w", random({2, 2, 1, 1}, 2));
  model.node("Conv", {"x", "w"}, {"c"}).node("Relu", {"c"}, {"r"}).node("Optional", {"r"}, {"y"});
  const Array x = random({1, 2, 4, 4}, 1);
  const std::vector<Array> got = test::run(import(model, {"r", "c"}), {x});
  const Array c = test::conv(x, random({2, 2, 1, 1}, 2), {}, {}, 1);
  expect_near(got.at(1), c);
  expect_near(got.at(0), test::map(c, [](float v) { return std::max(v, 0.0f); }));
  EXPECT_NE(refusal(model).find("1 layer is not supported: y (Optional)"), std::string::npos);
  EXPECT_NE(error_of([&] { import(model, {"nothing"}); }).find("no tensor 'nothing'"), std::string::npos);
  expect_near(test::run(import(model, {"x"}), {x}).at(0), x);
}

TEST_F(Onnx, SizesMayBeOpen) {
  OnnxModel model(13);
  model.input("x", {0, 3}).output("y").node("Relu", {"x"}, {"y"});
  EXPECT_EQ(run(model, {random({5, 3}, 1)}).at(0).dims, (Dims{5, 3}));
  const auto open = [](OnnxModel& of, int d) {
    auto* shape = of.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(d)->clear_dim_value();
  };
  OnnxModel wide(13);
  wide.input("x", {1, 0}).output("y").node("Relu", {"x"}, {"y"});
  open(wide, 1);
  EXPECT_EQ(run(wide, {random({1, 5}, 1)}).at(0).dims, (Dims{1, 5}));
  // The first of some example sizes that suits the model, which a session then changes.
  OnnxModel image(13);
  image.input("x", {1, 2, 0, 0}).output("y").floats("w", random({3, 2, 5, 5}, 2)).node("Conv", {"x", "w"}, {"y"});
  open(image, 2);
  open(image, 3);
  EXPECT_EQ(import(image).tensors[0].shape, (Vector<size_t>{1, 2, 8, 8}));
  const Array x = random({1, 2, 6, 9}, 1);
  expect_near(run(image, {x}).at(0), test::conv(x, random({3, 2, 5, 5}, 2), {}, {}, 1));
  // With the first sizes, three rows would be all rows, and the size could not change.
  OnnxModel rows(13);
  rows.input("x", {1, 0, 2}).output("y").integers("0", {0}).integers("3", {3}).integers("1", {1});
  rows.node("Slice", {"x", "0", "3", "1"}, {"y"});
  open(rows, 1);
  EXPECT_EQ(run(rows, {random({1, 5, 2}, 1)}).at(0).dims, (Dims{1, 3, 2}));
  // One slope for all elements does not depend on their number.
  OnnxModel signal(13);
  signal.input("x", {0, 0}).output("y").node("Abs", {"x"}, {"y"});
  open(signal, 1);
  EXPECT_EQ(run(signal, {test::make({2, 3}, {-1, 2, -3, 4, -5, 6})}).at(0).data,
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

// ---- refusals ---------------------------------------------------------------------------------

// Before opset 7, the second input is moved to an axis by attributes, and shapes and types are attributes.
TEST_F(Onnx, OldOpsets) {
  const Array x = random({2, 3, 4, 5}, 1), c = random({3}, 2), row = random({5}, 3), inner = random({3, 4}, 4);
  expect_node(6, "Add", "broadcast=1 axis=1", x, {c}, test::combine(x, test::reshape(c, {3, 1, 1}), plus));
  expect_node(1, "Add", "broadcast=1 axis=1", x, {inner}, test::combine(x, test::reshape(inner, {3, 4, 1}), plus));
  expect_node(6, "Mul", "broadcast=1", x, {row}, test::combine(x, row, std::multiplies<float>()));
  expect_node(1, "Add", "consumed_inputs=[0,1]", x, {x}, test::map(x, [](float v) { return 2 * v; }));
  expect_node(6, "PRelu", "", x, {c},
              test::combine(x, test::reshape(c, {3, 1, 1}), [](float a, float b) { return a < 0 ? a * b : a; }));
  expect_node(1, "Reshape", "shape=[6,-1]", x, {}, test::reshape(x, {6, 20}));
  expect_node(1, "Pad", "paddings=[0,0,1,0,0,0,0,2]", x, {}, test::pad(x, {0, 0, 1, 0}, {0, 0, 0, 2}, 0));
  expect_node(1, "Cast", "to='FLOAT'", x, {}, x);
  expect_node(1, "Dropout", "is_test=1 ratio=0.5f", x, {}, x);
  EXPECT_NE(refusal(one_node(6, "Add", "", x.dims, {c})).find("the inputs differ in shape"), std::string::npos);
  EXPECT_NE(refusal(one_node(6, "Add", "broadcast=1 axis=3", x.dims, {inner})).find("axis 3 does not fit"),
            std::string::npos);
  EXPECT_NE(refusal(one_node(6, "BatchNormalization", "", x.dims, {c, c, c, c})).find("is_test is 0"),
            std::string::npos);
}

TEST_F(Onnx, UnsupportedNodesAreListedTogether) {
  OnnxModel model(13);
  model.input("x", {1, 2, 4, 4}).output("y").node("Optional", {"x"}, {"a"}).node("Relu", {"a"}, {"b"});
  model.node("StringSplit", {"b"}, {"c"}).node("BatchNormalization", {"x", "x", "x", "x", "x"}, {"d"}, "spatial=0");
  model.node("Sum", {"c", "d"}, {"y"});
  const std::string message = refusal(model);
  EXPECT_NE(message.find("3 layers are not supported: a (Optional), c (StringSplit), d (BatchNormalization: "),
            std::string::npos)
      << message;
  OnnxModel foreign(13);
  foreign.input("x", {1, 2}).output("y").node("Relu", {"x"}, {"y"});
  foreign.model.mutable_graph()->mutable_node(0)->set_domain("com.example");
  EXPECT_NE(refusal(foreign).find("y (Relu: of domain com.example)"), std::string::npos);
  EXPECT_NE(refusal(one_node(13, "Relu", "spin=1", {1, 2})).find("y (Relu: attribute spin)"), std::string::npos);
  OnnxModel outputs(13);
  outputs.input("x", {1, 2, 4, 4}).output("y").output("i").node("Relu", {"x"}, {"y", "i"});
  EXPECT_NE(refusal(outputs).find("y (Relu: output 1)"), std::string::npos);
}

TEST_F(Onnx, ErrorsNameTheNode) {
  struct Case {
    const char *type, *attributes;
    std::vector<Array> constants;
    const char* message;
  };
  const Array w = random({4, 3, 3, 3}, 1);
  const Case cases[] = {
      {"Conv", "", {random({4, 2, 3, 3}, 1)}, "3 channels, weights for 2"},
      {"Conv", "group=0", {w}, "group 0"},
      {"Conv", "strides=[0,1]", {w}, "strides is out of range"},
      {"Conv", "pads=[-1,0,0,0]", {w}, "pads are out of range"},
      {"Conv", "kernel_shape=[2,2]", {w}, "kernel_shape differs"},
      {"Conv", "auto_pad='SOME'", {w}, "auto_pad is 'SOME'"},
      {"Conv", "", {w, random({5}, 1)}, "bias does not fit"},
      {"Conv", "", {random({4, 3, 9, 9}, 1)}, "y"},
      {"MaxPool", "", {}, "kernel_shape is missing"},
      {"MaxPool", "kernel_shape=[2,2] pads=[2,2,2,2]", {}, "y"},
      {"LeakyRelu", "alpha=nanf", {}, "alpha is not a finite number"},
      {"LRN", "", {}, "size is missing"},
      {"Clip", "max=nanf", {}, "a bound is not a number"},
      {"Transpose", "perm=[0,0,1,2]", {}, "perm is no permutation"},
      {"Transpose", "perm=[0,1]", {}, "perm does not fit"},
      {"Flatten", "axis=9", {}, "axis 9 is out of range"},
      {"Softmax", "axis=-7", {}, "axis -7 of a tensor of rank 4"},
      {"Slice", "starts=[1] ends=[1,2]", {}, "differ in length"},
      {"Squeeze", "axes=[1]", {}, "dimension 1 is not 1"},
      {"Unsqueeze", "axes=[0,0]", {}, "an axis is given twice"},
      {"Unsqueeze", "axes=[0,1,2,3,4]", {}, "y"},
      {"Pad", "pads=[1]", {}, "pads do not fit"},
      {"BatchNormalization", "", {w, w, w, w}, "do not fit the 3 channels"},
      {"DepthToSpace", "blocksize=2", {}, "blocksize does not fit"},
      {"Relu", "", {w}, "has 2 inputs"},
  };
  for (const Case& c : cases) {
    const std::string message = refusal(one_node(8, c.type, c.attributes, {1, 3, 6, 6}, c.constants));
    EXPECT_NE(message.find(c.message), std::string::npos) << c.type << " " << c.attributes << " -> " << message;
    EXPECT_NE(message.find("net.onnx"), std::string::npos) << message;
  }
}

TEST_F(Onnx, NamesBecomePlainText) {
  const std::string long_name(1023, 'n'), latin = "caf\xe9";
  OnnxModel model(13);
  model.input(latin, {1}).input("caf?", {1}).input("caf\xe8", {1}).output(long_name + "\xc3\xa9");
  model.node("Sum", {latin, "caf?", "caf\xe8"}, {"a\nb"}).node("Neg", {"a\nb"}, {long_name + "\xc3\xa9"});
  model.model.mutable_graph()->set_name("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xc2\x9b \xe2\x82\xac \xe2\x82");
  const Graph graph = import(model);
  const auto name = [&](const Port& port) { return graph.tensors[static_cast<size_t>(port.tensor)].name; };
  EXPECT_STREQ(graph.name.c_str(), "?? ??? ???? ?? \xe2\x82\xac ??");
  EXPECT_STREQ(name(graph.inputs[0]).c_str(), "caf?");
  EXPECT_STREQ(name(graph.inputs[1]).c_str(), "caf?_1");
  EXPECT_STREQ(name(graph.inputs[2]).c_str(), "caf?_2");
  EXPECT_STREQ(name(graph.outputs[0]).c_str(), long_name.c_str());
  EXPECT_STREQ(graph.nodes[1].name.c_str(), "a?b");
  EXPECT_NO_THROW(import(model, {"a\nb"}));
  const std::vector<Array> got = test::run(graph, {{{1}, {1}}, {{1}, {2}}, {{1}, {4}}});
  EXPECT_EQ(got.at(0).data, std::vector<float>{-7});
}

TEST_F(Onnx, DamagedModels) {
  const auto with = [&](const std::function<void(OnnxModel&)>& change) {
    OnnxModel model = one_node(13, "Add", "", {1, 2}, {random({2}, 1)});
    change(model);
    return refusal(model);
  };
  const auto tensor = [](OnnxModel& m) { return m.model.mutable_graph()->mutable_initializer(0); };
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_dims(0, -2); }).find("negative dimension"), std::string::npos);
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_dims(0, 3); }).find("8 bytes instead of 12"), std::string::npos);
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_dims(0, INT64_MAX); }).find("too large"), std::string::npos);
  EXPECT_NE(with([&](OnnxModel& m) { tensor(m)->set_data_type(8); }).find("of type 8"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.model.mutable_opset_import(0)->set_version(0); }).find("operator set 0"),
            std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.model.mutable_opset_import(0)->set_version(99); }).find("operator set 99"),
            std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.model.mutable_graph()->clear_output(); }).find("no outputs"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.node("Relu", {"x"}, {"y"}); }).find("'y' is written twice"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.node("Relu", {"w"}, {"v"}).output("v"); }).find("reads 'w'"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.node("Relu", {"v"}, {"v"}).output("v"); }).find("reads 'v'"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) { m.input("x", {1, 2}); }).find("'x' is named twice"), std::string::npos);
  EXPECT_NE(with([](OnnxModel& m) {
              m.model.mutable_graph()
                  ->mutable_input(0)
                  ->mutable_type()
                  ->mutable_tensor_type()
                  ->mutable_shape()
                  ->mutable_dim(1)
                  ->set_dim_value(INT64_MAX);
            }).find("net.onnx"),
            std::string::npos);
  EXPECT_NE(error_of([&] { import_onnx(folder_.write("n.onnx", "\x08")); }).find("not an ONNX model"),
            std::string::npos);
  EXPECT_NE(error_of([&] { import_onnx(folder_.path("absent.onnx")); }).find("cannot open"), std::string::npos);
}

// Integers that are known at import are outputs, too. They follow the sizes of inputs, also products, sums and
// quotients.
TEST_F(Onnx, IntegersMayBeOutputs) {
  OnnxModel model(13), sum(13);
  model.input("x", {2, 3}).output("shape").output("times").output("four").integers("four", {4});
  model.node("Shape", {"x"}, {"shape"}).node("Size", {"x"}, {"size"}).node("Mul", {"size", "four"}, {"times"});
  for (const Dims& dims : {Dims{2, 3}, Dims{5, 7}}) {
    const std::vector<Array> outputs = run(model, {random(dims, 1)});
    const auto a = static_cast<float>(dims[0]), b = static_cast<float>(dims[1]);
    expect_near(outputs.at(0), {{2}, {a, b}});
    expect_near(outputs.at(1), {{1}, {4 * a * b}});
    expect_near(outputs.at(2), {{1}, {4}});
  }
  sum.input("x", {2}).output("y").node("Shape", {"x"}, {"s"}).integers("7", {7}).integers("2", {2});
  sum.node("Sub", {"s", "7"}, {"less"}).node("Div", {"s", "2"}, {"half"}).node("Sub", {"less", "half"}, {"y"});
  expect_near(run(sum, {random({2}, 1)}).at(0), {{1}, {-6}});
  expect_near(run(sum, {random({5}, 1)}).at(0), {{1}, {-4}});
}

TEST_F(Onnx, WorkAtImportIsBounded) {
  OnnxModel zeros(13);
  zeros.input("x", {1}).output("y").integers("n", {1 << 20, 1 << 20}).node("ConstantOfShape", {"n"}, {"c"});
  zeros.node("Add", {"x", "c"}, {"y"});
  EXPECT_LT(import(zeros).constants.size(), 3u);  // left for the session
  OnnxModel range(13);
  range.input("x", {1})
      .output("y")
      .integers("none", {})
      .integers("a", {0})
      .integers("b", {INT64_MAX})
      .integers("c", {1});
  for (const char* name : {"a", "b", "c"}) range.node("Reshape", {name, "none"}, {std::string(name) + "s"});
  range.node("Range", {"as", "bs", "cs"}, {"r"}).node("Reshape", {"x", "r"}, {"y"});
  EXPECT_NE(refusal(range).find("node 'r' (range): the size of output 0 overflows"), std::string::npos);
  OnnxModel outer(13);
  outer.input("x", {1}).output("y").floats("a", random({4000, 1}, 1)).floats("b", random({1, 4000}, 1));
  outer.node("Mul", {"a", "b"}, {"m"}).node("Add", {"m", "x"}, {"y"});
  const Graph graph = import(outer);
  EXPECT_LT(graph.constants.size(), 4u);
  OnnxModel copies(13);
  copies.input("x", {1, 1}).floats("w", random({1, 4000}, 1)).node("Identity", {"x"}, {"y"}).output("y");
  for (int i = 0; i < 10000; ++i) {
    const std::string name = std::string("g").append(std::to_string(i));
    copies.node("Gemm", {"x", "w"}, {name}, "alpha=2.0f").output(name);
  }
  EXPECT_NE(refusal(copies).find("constants grow far beyond the size of the file"), std::string::npos);
  OnnxModel doubled(13);
  doubled.input("x", {1}).output("y").integers("d0", {1, 1, 1, 1});
  for (int i = 0; i < 40; ++i) {
    const std::string from = std::string("d").append(std::to_string(i)),
                      to = std::string("d").append(std::to_string(i + 1));
    doubled.node("Concat", {from, from}, {to}, "axis=0");
  }
  doubled.node("Reshape", {"x", "d40"}, {"y"});
  EXPECT_NE(refusal(doubled).find("constants grow far beyond the size of the file"), std::string::npos);
  OnnxModel division(13);
  division.input("x", {4}).output("y").integers("a", {INT64_MIN}).integers("b", {-1}).node("Div", {"a", "b"}, {"d"});
  division.node("Reshape", {"x", "d"}, {"y"});
  EXPECT_NE(refusal(division).find("node 'y' (Reshape): a negative dimension"), std::string::npos);
}

// ---- ports that share a tensor ----------------------------------------------------------------

// An input that is an output, by its own name and by others, in both types, and an output that is named twice.
TEST_F(Onnx, InputsMayBeOutputs) {
  const Array x = random({2, 3, 4, 5}, 1), more = random({4, 3, 2, 5}, 2);
  const auto names = [](const Graph& graph) {
    std::vector<std::string> list;
    for (const Port& port : graph.outputs) {
      list.push_back(graph.tensors[static_cast<size_t>(port.tensor)].name.c_str());
    }
    return list;
  };
  for (const auto type : {onnx::schema::TensorProto::FLOAT, onnx::schema::TensorProto::FLOAT16}) {
    OnnxModel only(13), all(13);
    only.input("x", x.dims, type).output("x");
    all.input("x", x.dims, type).node("Relu", {"x"}, {"y"}).node("Identity", {"x"}, {"i"});
    all.node("Identity", {"y"}, {"j"}).node("MaxPool", {"x"}, {"m"}, "kernel_shape=[1,1]");
    for (const char* name : {"y", "x", "i", "y", "m", "x", "j", "i"}) all.output(name);
    for (const OnnxModel& model : {only, all}) {
      const Graph graph = import(model);
      const size_t count = graph.outputs.size();
      Graph optimised = graph, again;
      ASSERT_EQ(optimize(optimised), QN_OK) << qn_last_message();
      const std::string file = folder_.path("ports.qn");
      ASSERT_EQ(write_model_file(optimised, file.c_str()), QN_OK) << qn_last_message();
      ASSERT_EQ(read_model_file(file.c_str(), &again), QN_OK) << qn_last_message();
      export_onnx(optimised, folder_.path("ports.onnx"));
      const Graph back = import_onnx(folder_.path("ports.onnx"));
      for (const Graph& way : {graph, optimised, again, back}) {
        EXPECT_EQ(names(way), count == 1 ? std::vector<std::string>{"x"}
                                         : (std::vector<std::string>{"y", "x", "i", "y", "m", "x", "j", "i"}));
        for (const Array& input : {x, more}) {
          const std::vector<Array> got = test::run(way, {input});
          const Array relu = test::map(input, [](float v) { return std::max(v, 0.0f); });
          ASSERT_EQ(got.size(), count);
          for (size_t i = 0; i < count; ++i) {
            const std::string name = names(way)[i];
            expect_near(got[i], name == "y" || name == "j" ? relu : input, 1e-3f);
          }
        }
      }
    }
  }
}

// Names alone do not make ports the same.
TEST_F(Onnx, PortsOfOneNameAreOneTensor) {
  Graph graph = import(OnnxModel(13).input("x", {2}).output("x"));
  graph.outputs[0].type = QN_F16;
  EXPECT_NE(error_of([&] { export_onnx(graph, folder_.path("x.onnx")); }).find("in two types"), std::string::npos);
}

// ---- external data ----------------------------------------------------------------------------

void make_external(onnx::schema::TensorProto* tensor, const std::string& location, const std::string& offset,
                   const std::string& length) {
  tensor->clear_raw_data();
  tensor->set_data_location(onnx::schema::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair{"location", location}, std::pair{"offset", offset}, std::pair{"length", length}}) {
    onnx::schema::StringStringEntryProto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

TEST_F(Onnx, ExternalDataStaysInTheFolder) {
  const Array x = random({1, 2}, 1), c = random({2}, 2);
  const std::string bytes(reinterpret_cast<const char*>(c.data.data()), 8);
  const auto model = [&](const std::string& location, const std::string& offset, const std::string& length) {
    OnnxModel m = one_node(13, "Add", "", {1, 2}, {c});
    make_external(m.model.mutable_graph()->mutable_initializer(0), location, offset, length);
    return m;
  };
  folder_.write("data.bin", "....." + bytes);
  expect_near(run(model("data.bin", "5", "8"), {x}).at(0), test::combine(x, c, plus));
  const std::string outside = test::Folder().path("");
  const test::Folder other;
  other.write("secret.bin", "....." + bytes);
  std::filesystem::create_symlink(other.path("secret.bin"), folder_.path("link.bin"));
  std::filesystem::create_directory_symlink(other.path(""), folder_.path("dir"));
  const std::string up =
      "../" + std::filesystem::path(other.path("")).parent_path().filename().string() + "/secret.bin";
  for (const std::string& location :
       {up, other.path("secret.bin"), std::string("link.bin"), std::string("dir/secret.bin")}) {
    EXPECT_NE(refusal(model(location, "5", "8")).find("outside the model's folder"), std::string::npos) << location;
  }
  EXPECT_NE(refusal(model("data.bin", "6", "8")).find("does not hold 8 bytes"), std::string::npos);
  EXPECT_NE(refusal(model("data.bin", "18446744073709551615", "8")).find("does not hold"), std::string::npos);
  EXPECT_NE(refusal(model("data.bin", "5", "9")).find("does not hold"), std::string::npos);
  EXPECT_NE(refusal(model("data.bin", "-5", "8")).find("bad offset"), std::string::npos);
  EXPECT_NE(refusal(model("absent.bin", "5", "8")).find("cannot be read"), std::string::npos);
  EXPECT_NE(refusal(model("", "5", "8")).find("outside"), std::string::npos);
  EXPECT_NE(refusal(model(".", "5", "8")).find("is not a file"), std::string::npos);
}

// Whatever a model is read from, and that nothing needs, too.
TEST_F(Onnx, SourcesAreNotToBeReplaced) {
  OnnxModel model = one_node(13, "Add", "", {1, 2}, {random({2}, 1)});
  model.floats("unused", random({2}, 2)).node("Constant", {}, {"neither"});
  onnx::schema::GraphProto* graph = model.model.mutable_graph();
  make_external(graph->mutable_initializer(0), "first.bin", "0", "8");
  make_external(graph->mutable_initializer(1), "second.bin", "0", "8");
  onnx::schema::AttributeProto* value = graph->mutable_node(graph->node_size() - 1)->add_attribute();
  value->set_name("value");
  make_external(value->mutable_t(), "third.bin", "0", "8");
  for (const char* name : {"first.bin", "second.bin", "third.bin", "unrelated.bin"}) {
    folder_.write(name, std::string(8, '\0'));
  }
  const std::string path = folder_.write("model.onnx", model.bytes());
  std::filesystem::create_symlink("third.bin", folder_.path("link.qn"));
  for (const char* name : {"model.onnx", "first.bin", "second.bin", "third.bin", "link.qn"}) {
    const std::string message = error_of([&] { import_model({path}, {.outputs = {}, .target = folder_.path(name)}); });
    EXPECT_NE(message.find(std::string(name) + ": the model is read from this file"), std::string::npos) << message;
  }
  for (const char* name : {"new.qn", "unrelated.bin"}) {
    import_model({path}, {.outputs = {}, .target = folder_.path(name)});
  }
}

}  // namespace
}  // namespace quern

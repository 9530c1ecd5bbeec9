// Operators of ONNX that compute, against plain computations.
#include <cmath>
#include <limits>

#include "graph/pass/passes.h"
#include "onnx_fixture.h"

namespace quern::test {
namespace onnx_layers_test {

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

// Only a run knows the shape of what is pooled, even how many dimensions it has.
TEST_F(Onnx, GlobalPoolsOfATensorThatARunSizes) {
  const Array x = random({2, 3, 8, 9}, 1);
  test::Window whole;
  whole.kernel[0] = 8;
  whole.kernel[1] = 9;
  for (const bool largest : {false, true}) {
    OnnxModel model(13);
    model.input("x", x.dims).input("shape", {4}, onnx::schema::TensorProto::INT64).output("y");
    model.node("Reshape", {"x", "shape"}, {"image"});
    model.node(largest ? "GlobalMaxPool" : "GlobalAveragePool", {"image"}, {"y"});
    const Array want = largest ? test::max_pool(x, whole) : test::average_pool(x, whole, false);
    expect_near(run(model, {x, {{4}, {2, 3, 8, 9}}}).at(0), want);
  }
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
  // The largest number keeps infinity away.
  constexpr float largest = std::numeric_limits<float>::max(), infinite = std::numeric_limits<float>::infinity();
  const Array ends = test::make({3}, {-infinite, 1, infinite});
  EXPECT_EQ(run(one_node(13, "Max", "", {3}, {{{}, {-largest}}}), {ends}).at(0).data,
            (std::vector<float>{-largest, 1, infinite}));
  EXPECT_EQ(run(one_node(6, "Clip", "", {3}), {ends}).at(0).data, (std::vector<float>{-largest, 1, largest}));
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
                .find("BatchNormalization: spatial: 0 (1 node: y)"),
            std::string::npos);
  OnnxModel trained(9);  // it gives the statistics of its input, and computes with them
  trained.input("x", x.dims).output("y").floats("gamma", gamma).floats("beta", beta).floats("mean", mean);
  trained.floats("variance", variance);
  trained.node("BatchNormalization", {"x", "gamma", "beta", "mean", "variance"}, {"y", "m", "v", "s", "t"});
  EXPECT_NE(refusal(trained).find("BatchNormalization: in training (1 node: y)"), std::string::npos)
      << refusal(trained);
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

}  // namespace onnx_layers_test
}  // namespace quern::test

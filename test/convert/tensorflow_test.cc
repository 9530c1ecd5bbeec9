// Operators that the TensorFlow importer knows, against plain computations. tensorflow_general_test.cc has more.
#include <algorithm>
#include <cmath>

#include "tensorflow_fixture.h"

namespace quern {
namespace tensorflow_test {

using test::Array;
using test::choice;
using test::Dims;
using test::expect_near;
using test::Ints;
using test::nchw;
using test::nhwc;
using test::random;
using test::TensorFlow;
using test::TfAttributes;
using test::TfGraph;
namespace schema = tensorflow::schema;

Array oihw(const Array& w) { return test::transpose(w, {3, 2, 0, 1}); }

// ---- windows ----------------------------------------------------------------------------------

TEST_F(TensorFlow, Conv2D) {
  const Array x = random({2, 9, 8, 4}, 1), w = random({3, 3, 4, 6}, 2);
  expect_node("Conv2D", {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}, {"T", schema::DT_FLOAT}}, x, {w},
              nhwc(test::conv(nchw(x), oihw(w), {}, {}, 1)));
  test::Window same;  // 9 by 2 with kernel 3: 2 pixels; 8 by 3 with kernel 3: 1 pixel, behind
  same.stride[0] = 2, same.stride[1] = 3;
  same.begin[0] = same.end[0] = same.end[1] = 1;
  const Array strided = test::conv(nchw(x), oihw(w), {}, same, 1);
  expect_node("Conv2D", {{"strides", Ints{1, 2, 3, 1}}, {"padding", "SAME"}}, x, {w}, nhwc(strided));
  expect_node("Conv2D", {{"strides", Ints{1, 1, 2, 3}}, {"padding", "SAME"}, {"data_format", "NCHW"}}, nchw(x), {w},
              strided);
  test::Window window;
  window.dilation[0] = 2, window.dilation[1] = 3;
  window.begin[0] = 1, window.end[0] = 2, window.begin[1] = 3;
  const Array dilated = test::conv(nchw(x), oihw(w), {}, window, 1);
  expect_node("Conv2D",
              {{"strides", Ints{1, 1, 1, 1}},
               {"dilations", Ints{1, 2, 3, 1}},
               {"padding", "EXPLICIT"},
               {"explicit_paddings", Ints{0, 0, 1, 2, 3, 0, 0, 0}}},
              x, {w}, nhwc(dilated));
  expect_node("Conv2D",
              {{"strides", Ints{1, 1, 1, 1}},
               {"dilations", Ints{1, 1, 2, 3}},
               {"padding", "EXPLICIT"},
               {"explicit_paddings", Ints{0, 0, 0, 0, 1, 2, 3, 0}},
               {"data_format", "NCHW"}},
              nchw(x), {w}, dilated);
  const Array groups = random({3, 3, 2, 6}, 3);
  expect_node("Conv2D", {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}}, x, {groups},
              nhwc(test::conv(nchw(x), oihw(groups), {}, {}, 2)));
}

// Weights kh, kw, C, M.
Array depthwise_oihw(const Array& w) {
  return test::reshape(test::transpose(w, {2, 3, 0, 1}), {w.dims[2] * w.dims[3], 1, w.dims[0], w.dims[1]});
}

TEST_F(TensorFlow, DepthwiseConv2dNative) {
  const Array x = random({2, 9, 8, 4}, 1), w = random({3, 2, 4, 2}, 2);
  const Array want = test::conv(nchw(x), depthwise_oihw(w), {}, {}, 4);
  expect_node("DepthwiseConv2dNative", {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}}, x, {w}, nhwc(want));
  expect_node("DepthwiseConv2dNative", {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}, {"data_format", "NCHW"}},
              nchw(x), {w}, want);
}

TfGraph in_blocks(const std::string& op, const Array& x, const Array& w, const Ints& pads, const Ints& crops,
                  const Ints& block_after = {2, 2}) {
  TfGraph graph;
  graph.placeholder("x", Ints(x.dims.begin(), x.dims.end())).floats("w", w);
  graph.integers("block", {2, 2}).integers("block_after", block_after);
  graph.integers("pads", {2, 2}, pads).integers("crops", {2, 2}, crops);
  graph.node("SpaceToBatchND", "blocks", {"x", "block", "pads"});
  graph.node(op, "conv", {"blocks", "w"}, {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}});
  return graph.node("BatchToSpaceND", "y", {"conv", "block_after", "crops"});
}

TEST_F(TensorFlow, DilatedConvolutionInBlocks) {
  const Array x = random({2, 7, 9, 4}, 1), w = random({3, 3, 4, 5}, 2), d = random({3, 3, 4, 2}, 3);
  test::Window window;
  window.dilation[0] = window.dilation[1] = 2;
  for (size_t i = 0; i < 2; ++i) window.begin[i] = window.end[i] = 2;
  expect_graph(in_blocks("Conv2D", x, w, {2, 3, 2, 3}, {0, 1, 0, 1}), {x},
               nhwc(test::conv(nchw(x), oihw(w), {}, window, 1)));
  expect_graph(in_blocks("DepthwiseConv2dNative", x, d, {2, 3, 2, 3}, {0, 1, 0, 1}), {x},
               nhwc(test::conv(nchw(x), depthwise_oihw(d), {}, window, 4)));
  window.begin[0] = 1, window.end[0] = 2, window.begin[1] = 0, window.end[1] = 3;
  expect_graph(in_blocks("Conv2D", x, w, {2, 3, 0, 3}, {1, 1, 0, 0}), {x},
               nhwc(test::conv(nchw(x), oihw(w), {}, window, 1)));
  expect_refusal(in_blocks("Conv2D", x, w, {0, 1, 2, 3}, {0, 2, 0, 1}), "dilated Conv2D: crops that are larger");
  expect_refusal(in_blocks("Conv2D", x, w, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 1}), "of different blocks");
  expect_refusal(in_blocks("Conv2D", x, w, {2, 2, 2, 3}, {0, 1, 0, 1}), "does not divide into blocks");
}

TEST_F(TensorFlow, Pooling) {
  const Array x = random({2, 8, 9, 3}, 1);
  test::Window window;
  window.kernel[0] = 3, window.kernel[1] = 2;
  window.stride[0] = 2, window.stride[1] = 1;
  const TfAttributes valid = {{"ksize", Ints{1, 3, 2, 1}}, {"strides", Ints{1, 2, 1, 1}}, {"padding", "VALID"}};
  expect_node("MaxPool", valid, x, {}, nhwc(test::max_pool(nchw(x), window)));
  expect_node("AvgPool", valid, x, {}, nhwc(test::average_pool(nchw(x), window, false)));
  window.end[0] = window.end[1] = 1;
  const TfAttributes same = {
      {"ksize", Ints{1, 1, 3, 2}}, {"strides", Ints{1, 1, 2, 1}}, {"padding", "SAME"}, {"data_format", "NCHW"}};
  expect_node("MaxPool", same, nchw(x), {}, test::max_pool(nchw(x), window));
  expect_node("AvgPool", same, nchw(x), {}, test::average_pool(nchw(x), window, false));
  window.begin[0] = 1, window.end[0] = 0, window.begin[1] = 0, window.end[1] = 1;
  TfAttributes padded = {{"ksize", Ints{1, 3, 2, 1}}, {"strides", Ints{1, 2, 1, 1}}, {"padding", "EXPLICIT"}};
  padded.emplace_back("explicit_paddings", Ints{0, 0, 1, 0, 0, 1, 0, 0});
  expect_node("MaxPool", padded, x, {}, nhwc(test::max_pool(nchw(x), window)));
  expect_refusal(one_node("AvgPool", padded, x.dims), "padding is neither SAME nor VALID");
}

TEST_F(TensorFlow, Reductions) {
  const Array x = random({2, 3, 4, 5}, 1);
  test::Window whole;
  whole.kernel[0] = 3, whole.kernel[1] = 4;
  const Array mean = nhwc(test::average_pool(nchw(x), whole, false)), max = nhwc(test::max_pool(nchw(x), whole));
  expect_shaping("Mean", {{"keep_dims", true}}, x, {{1, 2}}, mean);
  expect_shaping("Mean", {}, x, {{-2, -3}}, test::reshape(mean, {2, 5}));
  expect_shaping("Max", {}, x, {{1, 2}}, test::reshape(max, {2, 5}));
  const auto over = [](const Array& a, size_t height, size_t width, const Dims& shape) {  // the last dimensions
    test::Window all;
    all.kernel[0] = height, all.kernel[1] = width;
    return test::reshape(
        test::average_pool(test::reshape(a, {1, test::count(a.dims) / height / width, height, width}), all, false),
        shape);
  };
  expect_shaping("Mean", {}, x, {{-1}}, over(x, 1, 5, {2, 3, 4}));
  expect_shaping("Mean", {{"keep_dims", true}}, x, {{3, 2}}, over(x, 4, 5, {2, 3, 1, 1}));
  expect_shaping("Mean", {}, x, {{1, 2, 3}}, over(x, 12, 5, {2}));
  expect_shaping("Mean", {{"keep_dims", true}}, x, {{2}},
                 test::transpose(over(test::transpose(x, {0, 1, 3, 2}), 1, 4, {2, 3, 5, 1}), {0, 1, 3, 2}));
  expect_shaping("Mean", {}, x, {{0}}, over(test::transpose(x, {1, 2, 3, 0}), 1, 2, {3, 4, 5}));
  expect_shaping("Mean", {}, x, {{0, 1, 2, 3}}, over(x, 24, 5, {}));
  expect_shaping("Mean", {}, x, {{0, 2}}, over(test::transpose(x, {1, 3, 0, 2}), 2, 4, {3, 5}));  // axes that are apart
  expect_shaping("Sum", {}, x, {{1, 2}}, test::reshape(test::map(mean, [](float m) { return m * 12; }), {2, 5}));
}

// The nearest pixel, or those around it, at (i + shift) * scale - shift.
Array resized(const Array& x, size_t height, size_t width, bool corners, bool centers, bool nearest) {
  const auto place = [&](size_t i, size_t in, size_t out) {
    const float scale = corners ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                : static_cast<float>(in) / static_cast<float>(out);
    const float at = centers ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
    if (nearest) return std::min(corners ? std::round(at) : std::floor(at), static_cast<float>(in - 1));
    return std::clamp(centers ? at - 0.5f : at, 0.0f, static_cast<float>(in - 1));
  };
  return test::generate({x.dims[0], height, width, x.dims[3]}, [&](const Dims& i) {
    const float h = place(i[1], x.dims[1], height), w = place(i[2], x.dims[2], width);
    const auto top = static_cast<size_t>(h), left = static_cast<size_t>(w);
    const size_t bottom = std::min(top + 1, x.dims[1] - 1), right = std::min(left + 1, x.dims[2] - 1);
    const float dh = h - static_cast<float>(top), dw = w - static_cast<float>(left);
    const auto row = [&](size_t r) {
      return x.at({i[0], r, left, i[3]}) * (1 - dw) + x.at({i[0], r, right, i[3]}) * dw;
    };
    return row(top) * (1 - dh) + row(bottom) * dh;
  });
}

TEST_F(TensorFlow, Resizing) {
  const Array x = random({2, 7, 9, 3}, 1);
  for (const bool nearest : {false, true}) {
    const char* op = nearest ? "ResizeNearestNeighbor" : "ResizeBilinear";
    expect_shaping(op, {}, x, {{11, 5}}, resized(x, 11, 5, false, false, nearest));
    expect_shaping(op, {{"align_corners", true}}, x, {{11, 5}}, resized(x, 11, 5, true, false, nearest));
    expect_shaping(op, {{"half_pixel_centers", true}}, x, {{11, 5}}, resized(x, 11, 5, false, true, nearest));
  }
  expect_refusal(
      one_node("ResizeBilinear", {{"align_corners", true}, {"half_pixel_centers", true}}, x.dims, {}, {{4, 4}}),
      "both align_corners and half_pixel_centers");
}

// ---- normalization ----------------------------------------------------------------------------

Array positive(const Dims& dims, uint32_t seed) {
  return test::map(random(dims, seed), [](float x) { return x * 0.4f + 1; });
}

Array normalized(const Array& x, const Array& gamma, const Array& beta, const Array& mean, const Array& variance,
                 float epsilon) {
  const size_t channel = x.dims.size() - 1;
  return test::generate(x.dims, [&](const Dims& i) {
    const Dims c = {i[channel]};
    return (x.at(i) - mean.at(c)) / std::sqrt(variance.at(c) + epsilon) * gamma.at(c) + beta.at(c);
  });
}

TEST_F(TensorFlow, BatchNormalization) {
  const Array x = random({2, 3, 4, 5}, 1), gamma = positive({5}, 2), beta = random({5}, 3), mean = random({5}, 4),
              variance = positive({5}, 5), one = test::make({5}, std::vector<float>(5, 1));
  const Array want = normalized(x, gamma, beta, mean, variance, 0.01f);
  for (const char* op : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}) {
    expect_node(op, {{"is_training", false}, {"epsilon", 0.01f}, {"U", schema::DT_FLOAT}}, x,
                {gamma, beta, mean, variance}, want);
  }
  expect_node("FusedBatchNormV3", {{"is_training", false}}, x, {gamma, beta, mean, variance},
              normalized(x, gamma, beta, mean, variance, 1e-4f));
  expect_node("FusedBatchNormV3", {{"is_training", false}, {"epsilon", 0.01f}, {"data_format", "NCHW"}}, nchw(x),
              {gamma, beta, mean, variance}, nchw(want));
  expect_refusal(one_node("FusedBatchNormV3", {}, x.dims, {gamma, beta, mean, variance}),
                 "is_training, so it computes the statistics of the batch");
  expect_node("BatchNormWithGlobalNormalization", {{"variance_epsilon", 0.01f}, {"scale_after_normalization", true}}, x,
              {mean, variance, beta, gamma}, want);
  expect_node("BatchNormWithGlobalNormalization", {{"variance_epsilon", 0.01f}, {"scale_after_normalization", false}},
              x, {mean, variance, beta, gamma}, normalized(x, one, beta, mean, variance, 0.01f));
}

TEST_F(TensorFlow, BiasAdd) {
  const Array x = random({2, 3, 4, 5}, 1), b = random({5}, 2);
  const Array want = test::combine(x, b, std::plus<float>());
  expect_node("BiasAdd", {}, x, {b}, want);
  expect_node("BiasAdd", {{"data_format", "NCHW"}}, nchw(x), {b}, nchw(want));
  expect_refusal(one_node("BiasAdd", {}, x.dims, {random({4}, 1)}), "the bias does not fit");
}

TEST_F(TensorFlow, Lrn) {
  const Array x = random({2, 3, 4, 7}, 1);
  expect_node("LRN", {{"depth_radius", 2}, {"bias", 1.5f}, {"alpha", 0.3f}, {"beta", 0.7f}}, x, {},
              nhwc(test::lrn(nchw(x), 5, 1.5f, 0.7f, 1.5f)));  // alpha of ours is 5 times as large
}

// ---- functions of one number ------------------------------------------------------------------

TEST_F(TensorFlow, Functions) {
  const std::vector<std::pair<const char*, float (*)(float)>> functions = {
      {"Abs", [](float x) { return std::fabs(x); }},
      {"Elu", [](float x) { return x < 0 ? std::expm1(x) : x; }},
      {"Exp", [](float x) { return std::exp(x); }},
      {"LeakyRelu", [](float x) { return x < 0 ? 0.2f * x : x; }},
      {"Neg", [](float x) { return -x; }},
      {"Relu", [](float x) { return std::max(x, 0.0f); }},
      {"Relu6", [](float x) { return std::clamp(x, 0.0f, 6.0f); }},
      {"Selu", [](float x) { return 1.0507009874f * (x < 0 ? 1.6732632423f * std::expm1(x) : x); }},
      {"Sigmoid", [](float x) { return 1 / (1 + std::exp(-x)); }},
      {"Square", [](float x) { return x * x; }},
      {"Tanh", [](float x) { return std::tanh(x); }},
  };
  const Array x = test::map(random({2, 3, 4, 5}, 1), [](float f) { return f * 8; });
  for (const auto& [op, function] : functions) expect_node(op, {}, x, {}, test::map(x, function));
  expect_node("LeakyRelu", {{"alpha", 0.5f}}, x, {}, test::map(x, [](float f) { return f < 0 ? f / 2 : f; }));
  const Array p = positive({2, 3, 4, 5}, 2);
  expect_node("Sqrt", {}, p, {}, test::map(p, [](float f) { return std::sqrt(f); }));
  expect_node("Rsqrt", {}, p, {}, test::map(p, [](float f) { return 1 / std::sqrt(f); }));
  TfGraph of_zero;  // 1 / sqrt(-0) is negative infinity
  of_zero.placeholder("x", {2}).floats("zero", test::make({}, {-0.0f})).floats("least", test::make({}, {-5}));
  of_zero.node("Rsqrt", "root", {"zero"}).node("Maximum", "above", {"root", "least"});
  expect_graph(of_zero.node("Add", "y", {"x", "above"}), {test::make({2}, {1, 2})}, test::make({2}, {-4, -3}));
  expect_node("Pow", {}, p, {test::make({}, {1.7f})}, test::map(p, [](float f) { return std::pow(f, 1.7f); }));
  expect_node("Softmax", {}, x, {}, test::softmax(x, 3));
}

// Of constants, functions are computed at import: nothing remains of them.
TEST_F(TensorFlow, FunctionsOfConstants) {
  const Array x = random({2, 6}, 1), variance = positive({6}, 2);
  TfGraph graph;
  graph.placeholder("x", {2, 6}).floats("variance", variance).node("Rsqrt", "scale", {"variance"});
  graph.node("Mul", "y", {"x", "scale"});
  const Array want = test::combine(x, variance, [](float a, float b) { return a / std::sqrt(b); });
  expect_graph(graph, {x}, want);
  EXPECT_EQ(import(graph).nodes.size(), 1u);
}

TEST_F(TensorFlow, PReluByChoice) {
  const Array x = random({2, 3, 4, 5}, 1), slope = random({1, 1, 5}, 2), one = test::make({}, {0.3f});
  const auto prelu = [](float a, float b) { return a < 0 ? a * b : a; };
  expect_graph(choice("Select", "Greater", false, x, slope), {x}, test::combine(x, slope, prelu));
  expect_graph(choice("SelectV2", "GreaterEqual", true, x, slope), {x}, test::combine(x, slope, prelu));
  expect_graph(choice("Select", "Greater", false, x, one), {x}, test::combine(x, one, prelu));
  expect_refusal(choice("Select", "Greater", false, x, slope, 0.5f), "PReLU: by other than zero (1 node: y)");
  const auto other = [](float a, float b) { return a < 0 ? a : a * b; };
  expect_graph(choice("Select", "Less", false, x, slope), {x}, test::combine(x, slope, other));
  expect_refusal(choice("Select", "Greater", false, x, random({3, 4, 5}, 1)), "slope is not per channel");
}

TEST_F(TensorFlow, FakeQuantization) {
  // 255 steps from -1 to 1.55: zero is step 100.
  const float step = 0.01f;
  const Array x = test::map(random({2, 3, 5}, 1), [](float f) { return 2 * f; });
  const auto rounded = [&](float first, float last) {
    return [=](float f) { return std::clamp(std::round(f / step), first, last) * step; };
  };
  const Array low = test::make({}, {-1}), high = test::make({}, {1.55f});
  expect_node("FakeQuantWithMinMaxVars", {}, x, {low, high}, test::map(x, rounded(-100, 155)));
  expect_node("FakeQuantWithMinMaxVars", {{"num_bits", 4}}, x, {test::make({}, {-0.05f}), test::make({}, {0.1f})},
              test::map(x, rounded(-5, 10)));
  expect_node("FakeQuantWithMinMaxVars", {{"narrow_range", true}}, x, {low, test::make({}, {1.54f})},
              test::map(x, rounded(-100, 154)));
  expect_node("FakeQuantWithMinMaxArgs", {{"min", -1.0f}, {"max", 1.55f}}, x, {}, test::map(x, rounded(-100, 155)));
  // Bounds around zero alike: zero would be step 127.5 of 255.
  const auto around = [](float f) { return std::clamp(std::round(f * 127.5f), -127.f, 128.f) / 127.5f; };
  expect_node("FakeQuantWithMinMaxArgs", {{"min", -1.0f}, {"max", 1.0f}}, x, {}, test::map(x, around));
  TfGraph constant;
  constant.placeholder("x", {2, 3, 5})
      .floats("w", x)
      .node("FakeQuantWithMinMaxArgs", "q", {"w"}, {{"min", -1.0f}, {"max", 1.0f}});
  expect_graph(constant.node("Add", "y", {"x", "q"}), {x}, test::combine(x, test::map(x, around), std::plus<float>()));
  TfGraph weights;
  weights.placeholder("x", {2, 3, 5}).floats("w", x).floats("low", low).floats("high", high);
  weights.node("FakeQuantWithMinMaxVars", "q", {"w", "low", "high"}).node("Add", "y", {"x", "q"});
  expect_graph(weights, {x}, test::combine(x, test::map(x, rounded(-100, 155)), std::plus<float>()));
  expect_refusal(one_node("FakeQuantWithMinMaxVars", {{"num_bits", 16}}, x.dims, {low, high}), "more than 8 bits");
  expect_refusal(one_node("FakeQuantWithMinMaxVars", {}, x.dims, {high, low}), "not around zero");
}

// x + w, where w are 0, 100 and 255, or the bounds and 28 of int8, between the real numbers -1 and 1.55.
TEST_F(TensorFlow, Dequantize) {
  const auto sum = [](schema::DataType type, const std::string& mode, bool narrow = false, int axis = -1) {
    const bool is_signed = type == schema::DT_QINT8;
    TfGraph graph;
    graph.placeholder("x", {3}).integers("w", {3}, is_signed ? Ints{-128, 28, 127} : Ints{0, 100, 255});
    schema::TensorProto& tensor = *(*graph.mutable_node("w")->mutable_attr())["value"].mutable_tensor();
    tensor.set_dtype(type);
    const size_t count = axis < 0 ? 1 : 3;
    graph.floats("low", {axis < 0 ? Dims{} : Dims{3}, std::vector<float>(count, -1)});
    graph.floats("high", {axis < 0 ? Dims{} : Dims{3}, std::vector<float>(count, 1.55f)});
    graph.node("Dequantize", "d", {"w", "low", "high"},
               {{"T", type}, {"mode", mode.c_str()}, {"narrow_range", narrow}, {"axis", axis}});
    return graph.node("Add", "y", {"x", "d"});
  };
  const Array zeros = {{3}, {0, 0, 0}};
  const auto expect = [&](const TfGraph& graph, const std::vector<float>& want) {
    expect_graph(graph, {zeros}, {{3}, want});
  };
  for (const schema::DataType type : {schema::DT_QUINT8, schema::DT_QINT8}) {
    expect(sum(type, "MIN_COMBINED"), {-1, type == schema::DT_QINT8 ? 0.56f : 0, 1.55f});
    expect(sum(type, "MIN_FIRST"), {-1, type == schema::DT_QINT8 ? 0.56f : 0, 1.55f});
  }
  expect(sum(schema::DT_QUINT8, "SCALED"), {0, 1.55f * 100 / 255, 1.55f});
  expect(sum(schema::DT_QINT8, "SCALED"), {-128 * 1.55f / 127, 28 * 1.55f / 127, 1.55f});
  expect(sum(schema::DT_QINT8, "SCALED", true, 0), {-128 * 1.55f / 127, 28 * 1.55f / 127, 1.55f});
  expect_refusal(sum(schema::DT_QUINT16, "MIN_FIRST"), "DT_QUINT16");
  expect_refusal(sum(schema::DT_QUINT8, "MIDDLE"), "mode MIDDLE");
  expect_refusal(sum(schema::DT_QUINT8, "SCALED", false, 1), "axis");
}

TEST_F(TensorFlow, WeightsWithoutElements) {
  TfGraph graph;
  graph.placeholder("x", {1, 4, 4, 2}).floats("w", {{3, 3, 0, 4}, {}}).floats("low", {{4}, {0, 0, 0, 0}});
  graph.floats("high", {{4}, {1, 1, 1, 1}}).node("FakeQuantWithMinMaxArgs", "q", {"w"}, {{"min", 0.0f}, {"max", 1.0f}});
  graph.node("Conv2D", "y", {"x", "q"}, {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}});
  expect_refusal(graph, "of no elements");
  graph.node("FakeQuantWithMinMaxVarsPerChannel", "q4", {"w", "low", "high"}).mutable_node("y")->set_input(1, "q4");
  expect_refusal(graph, "of no elements");
}

// ---- arithmetic, products ---------------------------------------------------------------------

TEST_F(TensorFlow, Arithmetic) {
  const Array x = random({2, 3, 4, 5}, 1), row = positive({5}, 2), plane = positive({3, 1, 5}, 3);
  for (const Array& c : {row, plane}) {
    expect_node("Add", {}, x, {c}, test::combine(x, c, std::plus<float>()));
    expect_node("AddV2", {}, x, {c}, test::combine(x, c, std::plus<float>()));
    expect_node("Sub", {}, x, {c}, test::combine(x, c, std::minus<float>()));
    expect_node("Mul", {}, x, {c}, test::combine(x, c, std::multiplies<float>()));
    expect_node("RealDiv", {}, x, {c}, test::combine(x, c, std::divides<float>()));
    expect_node("Div", {}, x, {c}, test::combine(x, c, std::divides<float>()));
    expect_node("SquaredDifference", {}, x, {c},
                test::combine(x, c, [](float a, float b) { return (a - b) * (a - b); }));
  }
  expect_node("AddN", {}, x, {x, x}, test::map(x, [](float f) { return 3 * f; }));
  const Array limit = test::make({}, {0.25f});
  expect_node("Maximum", {}, x, {limit}, test::map(x, [](float f) { return std::max(f, 0.25f); }));
  const Array infinite = test::make({}, {INFINITY}), nan = test::make({}, {NAN});
  expect_node("Maximum", {}, x, {infinite}, test::map(x, [](float) { return INFINITY; }));
  expect_node("Minimum", {}, x, {nan}, test::map(x, [](float) { return NAN; }));
  expect_node("Pow", {}, x, {infinite}, test::map(x, [](float f) { return std::pow(f, INFINITY); }));
  expect_node("Minimum", {}, x, {limit}, test::map(x, [](float f) { return std::min(f, 0.25f); }));
  expect_node("Maximum", {}, x, {row}, test::combine(x, row, [](float a, float b) { return std::max(a, b); }));
  TfGraph constants;
  constants.placeholder("x", {2, 5}).floats("row", row).floats("limit", test::make({}, {1}));
  constants.node("Maximum", "above", {"limit", "row"}).node("Mul", "y", {"x", "above"});
  const Array small = random({2, 5}, 4);
  expect_graph(constants, {small}, test::combine(small, row, [](float a, float b) { return a * std::max(b, 1.0f); }));
  EXPECT_EQ(import(constants).nodes.size(), 1u);
}

TEST_F(TensorFlow, Products) {
  const Array x = random({3, 6}, 1), w = random({6, 5}, 2), wt = test::transpose(w, {1, 0}),
              xt = test::transpose(x, {1, 0});
  const Array want = test::matmul(x, w);
  expect_node("MatMul", {}, x, {w}, want);
  expect_node("MatMul", {{"transpose_b", true}}, x, {wt}, want);
  expect_node("MatMul", {{"transpose_a", true}, {"transpose_b", false}}, xt, {w}, want);
  const auto one = [](const Array& a) { return test::reshape(a, {1, a.dims[0], a.dims[1]}); };
  expect_node("BatchMatMul", {{"adj_y", true}}, one(x), {one(wt)}, one(want));
  expect_node("BatchMatMulV2", {{"adj_x", true}}, one(xt), {w}, one(want));
  const Array two = test::concat({one(x), one(random({3, 6}, 3))}, 0), other = random({6, 5}, 4);
  expect_node("BatchMatMulV2", {}, two, {test::concat({one(w), one(other)}, 0)},
              test::concat({one(want), one(test::matmul(random({3, 6}, 3), other))}, 0));
  expect_refusal(one_node("MatMul", {}, {3, 4}, {w}), "y");
}

// ---- shapes -----------------------------------------------------------------------------------

TEST_F(TensorFlow, SameElements) {
  const Array x = random({2, 1, 4, 5}, 1);
  for (const char* op : {"Identity", "IdentityN", "StopGradient", "CheckNumerics", "PlaceholderWithDefault"}) {
    expect_node(op, {}, x, {}, x);
  }
  expect_shaping("Reshape", {}, x, {{2, -1, 2}}, test::reshape(x, {2, 10, 2}));
  expect_node("Squeeze", {{"squeeze_dims", Ints{1}}}, x, {}, test::reshape(x, {2, 4, 5}));
  expect_node("Squeeze", {}, x, {}, test::reshape(x, {2, 4, 5}));
  expect_shaping("ExpandDims", {}, x, {{-1}}, test::reshape(x, {2, 1, 4, 5, 1}));
  expect_shaping("Transpose", {}, x, {{0, 3, 1, 2}}, nchw(x));
  expect_node("Cast", {{"SrcT", schema::DT_FLOAT}, {"DstT", schema::DT_FLOAT}}, x, {}, x);
  const Array large = test::map(x, [](float f) { return 9 * f; });
  expect_node("Cast", {{"DstT", schema::DT_INT32}}, large, {}, test::map(large, [](float f) { return std::trunc(f); }));
}

// Images are often bytes, which the graph makes floats of.
TEST_F(TensorFlow, CastOfBytes) {
  TfGraph graph;
  graph.placeholder("x", {2, 3}, schema::DT_UINT8).node("Cast", "real", {"x"}, {{"DstT", schema::DT_FLOAT}});
  graph.floats("half", test::make({}, {0.5f})).node("Mul", "y", {"real", "half"});
  const Graph imported = import(graph);
  EXPECT_EQ(imported.inputs[0].type, QN_U8);
  const Array x = test::make({2, 3}, {0, 1, 127, 128, 200, 255});
  expect_near(test::run(imported, {x}).at(0), test::map(x, [](float f) { return f / 2; }));
}

TEST_F(TensorFlow, Parts) {
  const Array x = random({2, 7, 9, 4}, 1);
  expect_shaping("Slice", {}, x, {{0, 1, 2, 0}, {2, 3, -1, 4}}, test::slice(x, {0, 1, 2, 0}, {2, 4, 9, 4}));
  expect_shaping("StridedSlice", {{"begin_mask", 1}, {"end_mask", 5}}, x, {{9, 1, 3}, {0, -2, 0}, {1, 1, 1}},
                 test::slice(x, {0, 1, 3, 0}, {2, 5, 9, 4}));
  // x[:, 2, ..., -1, None]
  expect_shaping(
      "StridedSlice",
      {{"begin_mask", 1}, {"end_mask", 1}, {"shrink_axis_mask", 10}, {"ellipsis_mask", 4}, {"new_axis_mask", 16}}, x,
      {{0, 2, 0, -1, 0}, {0, 3, 0, 0, 0}, {1, 1, 1, 1, 1}},
      test::reshape(test::slice(x, {0, 2, 0, 3}, {2, 3, 9, 4}), {2, 9, 1}));
  expect_shaping("GatherV2", {{"batch_dims", 0}}, x, {{1, 3, 5}, {1}},
                 test::concat({test::slice(x, {0, 1, 0, 0}, {2, 2, 9, 4}), test::slice(x, {0, 3, 0, 0}, {2, 4, 9, 4}),
                               test::slice(x, {0, 5, 0, 0}, {2, 6, 9, 4})},
                              1));
  expect_shaping("Gather", {}, x, {{1}}, test::slice(x, {1, 0, 0, 0}, {2, 7, 9, 4}));
  expect_shaping(
      "StridedSlice", {}, x, {{0, 1}, {2, 6}, {2, 3}},
      test::concat({test::slice(x, {0, 1, 0, 0}, {1, 2, 9, 4}), test::slice(x, {0, 4, 0, 0}, {1, 5, 9, 4})}, 1));
  expect_refusal(one_node("Slice", {}, {2, 3}, {}, {{0, 2}, {2, 2}}), "the part does not fit");
}

TEST_F(TensorFlow, SeveralOutputs) {
  const Array x = random({2, 6, 4}, 1);
  TfGraph graph;
  graph.placeholder("x", {2, 6, 4}).integer("axis", 1).integers("sizes", {2, -1, 1});
  graph.node("Split", "split", {"axis", "x"}, {{"num_split", 3}});
  graph.node("SplitV", "split_v", {"x", "sizes", "axis"}, {{"num_split", 3}});
  graph.node("Unpack", "unpack", {"x"}, {{"axis", 2}, {"num", 4}});
  const auto part = [&](size_t begin, size_t end) { return test::slice(x, {0, begin, 0}, {2, end, 4}); };
  const std::vector<Array> some = test::run(import(graph, {"split:2", "split_v:1", "unpack:3", "split"}), {x});
  expect_near(some.at(0), part(4, 6));
  expect_near(some.at(1), part(2, 5));
  expect_near(some.at(2), test::reshape(test::slice(x, {0, 0, 3}, {2, 6, 4}), {2, 6}));
  expect_near(some.at(3), part(0, 2));
  const Graph all = import(graph);
  ASSERT_EQ(all.outputs.size(), 10u);
  EXPECT_STREQ(all.tensors[static_cast<size_t>(all.outputs[1].tensor)].name.c_str(), "split:1");
}

TEST_F(TensorFlow, Joining) {
  const Array x = random({2, 3, 4}, 1), c = random({2, 2, 4}, 2), same = random({2, 3, 4}, 3);
  TfGraph graph;
  graph.placeholder("x", {2, 3, 4}).floats("c", c).floats("same", same).integer("axis", 1);
  graph.node("ConcatV2", "new", {"x", "c", "axis"}, {{"N", 2}}).node("Concat", "old", {"axis", "c", "x"}, {{"N", 2}});
  graph.node("Pack", "pack", {"x", "same"}, {{"axis", -2}, {"N", 2}});
  const std::vector<Array> got = test::run(import(graph), {x});
  expect_near(got.at(0), test::concat({x, c}, 1));
  expect_near(got.at(1), test::concat({c, x}, 1));
  expect_near(got.at(2), test::concat({test::reshape(x, {2, 3, 1, 4}), test::reshape(same, {2, 3, 1, 4})}, 2));
  expect_shaping("Tile", {}, x, {{1, 2, 3}},
                 test::concat({test::concat({x, x}, 1), test::concat({x, x}, 1), test::concat({x, x}, 1)}, 2));
}

TEST_F(TensorFlow, Padding) {
  const Array x = random({2, 3, 4}, 1);
  const auto row = [&](size_t i) { return test::slice(x, {0, i, 0}, {2, i + 1, 4}); };
  expect_shaping("Pad", {}, x, {{0, 0, 1, 2, 0, 3}}, test::pad(x, {0, 1, 0}, {0, 2, 3}, 0));
  expect_shaping("Pad", {}, x, {{0, 0, 0, 0, 0, 0}}, x);
  expect_shaping("MirrorPad", {{"mode", "REFLECT"}}, x, {{0, 0, 2, 1, 0, 0}},
                 test::concat({row(2), row(1), x, row(1)}, 1));
  expect_shaping("MirrorPad", {{"mode", "SYMMETRIC"}}, x, {{0, 0, 1, 2, 0, 0}},
                 test::concat({row(0), x, row(2), row(1)}, 1));
  TfGraph graph;
  graph.placeholder("x", {2, 3, 4}).integers("pads", {3, 2}, {0, 0, 1, 2, 0, 3}).floats("value", test::make({}, {-2}));
  expect_graph(graph.node("PadV2", "y", {"x", "pads", "value"}), {x}, test::pad(x, {0, 1, 0}, {0, 2, 3}, -2));
  expect_refusal(one_node("MirrorPad", {{"mode", "REFLECT"}}, x.dims, {}, {{0, 0, 3, 0, 0, 0}}),
                 "pads are out of range");
}

// A shape that the graph computes follows the sizes of the inputs, and constants are folded.
TEST_F(TensorFlow, ComputedShapes) {
  TfGraph graph;
  graph.placeholder("x", {-1, 3, 4}).node("Shape", "shape", {"x"}, {{"out_type", schema::DT_INT32}});
  graph.integers("0", {0}).integers("1", {1}).integers("end", {3}).integer("axis", 0);
  graph.node("StridedSlice", "batch", {"shape", "0", "1", "1"}, {{"shrink_axis_mask", 1}});
  graph.node("StridedSlice", "rest", {"shape", "1", "end", "1"});
  graph.node("Prod", "count", {"rest", "axis"}).node("Pack", "target", {"batch", "count"}, {{"N", 2}});
  graph.node("Reshape", "flat", {"x", "target"});
  graph.integer("from", 0).integer("to", 24).integer("step", 2).node("Range", "range", {"from", "to", "step"});
  graph.node("Cast", "row", {"range"}, {{"DstT", schema::DT_FLOAT}});
  graph.floats("ten", test::make({}, {10})).integers("twelve", {12}).node("Fill", "tens", {"twelve", "ten"});
  graph.node("Add", "numbers", {"row", "tens"}).node("Add", "y", {"flat", "numbers"});
  const Graph imported = import(graph);
  EXPECT_EQ(imported.inputs[0].open, 1);
  EXPECT_EQ(imported.inputs[0].fixed & 1, 0);
  for (const size_t batch : {1, 5}) {
    const Array x = random({batch, 3, 4}, 1);
    const Array row = test::generate({12}, [](const Dims& i) { return static_cast<float>(2 * i[0] + 10); });
    expect_near(test::run(imported, {x}).at(0), test::combine(test::reshape(x, {batch, 12}), row, std::plus<float>()));
  }
}

// A slice that takes all of a batch of one is no whole dimension at other sizes.
TEST_F(TensorFlow, SlicesOfOpenDimensions) {
  TfGraph graph;
  graph.placeholder("x", {-1, 3}).integers("begin", {0}).integers("end", {1}).integers("both", {0, 0});
  graph.integers("size", {1, 3}).node("StridedSlice", "strided", {"x", "begin", "end", "end"});
  graph.node("Slice", "sized", {"x", "both", "size"});
  const Array x = random({4, 3}, 1), first = test::slice(x, {0, 0}, {1, 3});
  for (const Array& y : test::run(import(graph), {x})) expect_near(y, first);
}

}  // namespace tensorflow_test
}  // namespace quern

// Every layer that the Keras importer knows, against plain computations, and what it refuses. (keras_models.py compares
// with Keras itself.)
#include "convert/keras/keras.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "convert/convert.h"
#include "keras_model.h"

namespace quern {
namespace {

using test::Array;
using test::Dims;
using test::error_of;
using test::expect_in;
using test::expect_layer;
using test::expect_near;
using test::KerasWeights;
using test::one_layer;
using test::random;
using test::refusal;

constexpr const char* call_on_x = "[[['x', 0, 0, {}]]]";

// Between Keras' order of dimensions and that of the plain computations.
Array channels_first(const Array& x) { return test::transpose(x, {0, 3, 1, 2}); }
Array channels_last(const Array& x) { return test::transpose(x, {0, 2, 3, 1}); }
Array filters(const Array& kernel) { return test::transpose(kernel, {3, 2, 0, 1}); }
const auto plus = std::plus<float>();
const auto times = std::multiplies<float>();
float relu(float v) { return std::max(v, 0.0f); }

// ---- layers with windows ----------------------------------------------------------------------

TEST(Keras, Conv2D) {
  const Array x = random({2, 7, 6, 4}, 1), kernel = random({3, 2, 4, 6}, 2), bias = random({6}, 3);
  const Array grouped = random({3, 2, 2, 6}, 4);
  const std::string sizes = "'filters': 6, 'kernel_size': [3, 2]";
  const KerasWeights weights = {{"kernel", kernel}, {"bias", bias}};
  test::Window window;
  const auto want = [&](const Array& w, size_t groups, bool has_bias = true) {
    return channels_last(
        test::conv(channels_first(x), filters(w), has_bias ? bias.data : std::vector<float>(6, 0.0f), window, groups));
  };
  window.kernel[0] = 3, window.kernel[1] = 2;
  expect_layer("Conv2D", sizes, x, weights, want(kernel, 1));
  expect_layer("Conv2D", sizes + ", 'activation': 'relu'", x, weights, test::map(want(kernel, 1), relu));
  expect_layer("Conv2D", sizes + ", 'groups': 2", x, {{"kernel", grouped}, {"bias", bias}}, want(grouped, 2));
  expect_layer("Conv2D", sizes + ", 'use_bias': false", x, {{"kernel", kernel}}, want(kernel, 1, false));
  window.dilation[0] = 2;
  expect_layer("Conv2D", sizes + ", 'dilation_rate': [2, 1]", x, weights, want(kernel, 1));
  window.dilation[0] = 1, window.stride[0] = window.stride[1] = 2;
  window.begin[0] = window.end[0] = 1;  // 7 rows, 4 windows; 6 columns, 3 windows
  expect_layer("Conv2D", sizes + ", 'strides': [2, 2], 'padding': 'same'", x, weights, want(kernel, 1));
  const Array planes = channels_first(x);
  const Array y = test::conv(planes, filters(kernel), bias.data, window, 1);
  expect_layer("Conv2D", sizes + ", 'strides': 2, 'padding': 'same', 'data_format': 'channels_first'", planes, weights,
               y);
  // Softmax goes over the last dimension, whichever that is.
  expect_layer("Conv2D",
               sizes + ", 'strides': 2, 'padding': 'same', 'data_format': 'channels_first', 'activation': 'softmax'",
               planes, weights, test::softmax(y, 3));
}

TEST(Keras, DepthwiseAndSeparable) {
  const Array x = random({2, 7, 6, 3}, 1), kernel = random({3, 3, 3, 2}, 2), bias = random({6}, 3);
  const Array point = random({1, 1, 6, 4}, 4), point_bias = random({4}, 5);
  test::Window window;
  window.kernel[0] = window.kernel[1] = 3;
  // The filters of one channel follow each other: 3 x 2 outputs.
  const Array each = test::reshape(test::transpose(kernel, {2, 3, 0, 1}), {6, 1, 3, 3});
  const Array deep = test::conv(channels_first(x), each, bias.data, window, 3);
  const std::string sizes = "'kernel_size': [3, 3], 'depth_multiplier': 2";
  expect_layer("DepthwiseConv2D", sizes, x, {{"depthwise_kernel", kernel}, {"bias", bias}}, channels_last(deep));
  expect_layer("DepthwiseConv2D", sizes, x, {{"kernel", kernel}, {"bias", bias}}, channels_last(deep), "3.0.0");
  const Array no_bias = test::conv(channels_first(x), each, std::vector<float>(6, 0.0f), window, 3);
  const Array mixed = test::conv(no_bias, filters(point), point_bias.data, {}, 1);
  expect_layer("SeparableConv2D", sizes + ", 'filters': 4", x,
               {{"depthwise_kernel", kernel}, {"pointwise_kernel", point}, {"bias", point_bias}}, channels_last(mixed));
}

TEST(Keras, Conv1D) {
  const Array x = random({2, 9, 4}, 1), kernel = random({3, 4, 5}, 2), bias = random({5}, 3);
  test::Window window;
  window.kernel[1] = 3, window.dilation[1] = 2, window.begin[1] = 4;
  const Array image = test::reshape(test::transpose(x, {0, 2, 1}), {2, 4, 1, 9});
  const Array w = test::reshape(test::transpose(kernel, {2, 1, 0}), {5, 4, 1, 3});
  const Array y = test::reshape(test::conv(image, w, bias.data, window, 1), {2, 5, 9});
  const std::string config = "'filters': 5, 'kernel_size': [3], 'dilation_rate': [2], 'padding': 'causal'";
  const KerasWeights weights = {{"kernel", kernel}, {"bias", bias}};
  expect_layer("Conv1D", config, x, weights, test::transpose(y, {0, 2, 1}));
  expect_layer("Conv1D", config + ", 'data_format': 'channels_first'", test::transpose(x, {0, 2, 1}), weights, y);
}

TEST(Keras, Pooling) {
  const Array x = random({2, 7, 6, 3}, 1), planes = channels_first(x);
  test::Window window;
  window.kernel[0] = 3, window.kernel[1] = window.stride[0] = window.stride[1] = 2;
  const std::string config = "'pool_size': [3, 2], 'strides': [2, 2], 'padding': ";
  expect_layer("MaxPooling2D", config + "'valid'", x, {}, channels_last(test::max_pool(planes, window)));
  window.begin[0] = window.end[0] = 1;
  expect_layer("MaxPooling2D", config + "'same'", x, {}, channels_last(test::max_pool(planes, window)));
  const Array average = test::average_pool(planes, window, false);
  expect_layer("AveragePooling2D", config + "'same'", x, {}, channels_last(average));
  expect_layer("AveragePooling2D", config + "'same', 'data_format': 'channels_first'", planes, {}, average);
  test::Window row;
  row.kernel[1] = row.stride[1] = 3;
  const Array sequence = random({2, 9, 4}, 2),
              image = test::reshape(test::transpose(sequence, {0, 2, 1}), {2, 4, 1, 9});
  const Array pooled = test::transpose(test::reshape(test::max_pool(image, row), {2, 4, 3}), {0, 2, 1});
  expect_layer("MaxPooling1D", "'pool_size': [3]", sequence, {}, pooled);
}

TEST(Keras, GlobalPooling) {
  const Array x = random({2, 5, 4, 3}, 1), planes = channels_first(x);
  test::Window all;
  all.kernel[0] = 5, all.kernel[1] = 4;
  const Array most = test::max_pool(planes, all), mean = test::average_pool(planes, all, false);
  expect_layer("GlobalMaxPooling2D", "", x, {}, test::reshape(most, {2, 3}));
  expect_layer("GlobalAveragePooling2D", "'keepdims': true", x, {}, channels_last(mean));
  expect_layer("GlobalAveragePooling2D", "'data_format': 'channels_first'", planes, {}, test::reshape(mean, {2, 3}));
}

TEST(Keras, Enlarging) {
  const Array x = random({2, 3, 4, 2}, 1);
  const auto nearest = [&](const Dims& i) { return x.at({i[0], i[1] / 2, i[2] / 3, i[3]}); };
  expect_layer("UpSampling2D", "'size': [2, 3], 'interpolation': 'nearest'", x, {},
               test::generate({2, 6, 12, 2}, nearest));
  // Twice as wide: each pixel of the output lies a quarter of a pixel beside one of the input.
  const Array row = test::make({1, 1, 2, 1}, {4, 8}), wide = test::make({1, 1, 4, 1}, {4, 5, 7, 8});
  expect_layer("UpSampling2D", "'size': [1, 2], 'interpolation': 'bilinear'", row, {}, wide);
  expect_layer("Resizing", "'height': 1, 'width': 4", row, {}, wide);
  expect_in(refusal("UpSampling2D", "'size': 2, 'interpolation': 'bicubic'", x.dims), "interpolation 'bicubic'");
}

// ---- layers on vectors and single numbers -----------------------------------------------------

TEST(Keras, Dense) {
  const Array kernel = random({4, 3}, 2), bias = random({3}, 3);
  for (const Dims& dims : {Dims{2, 4}, Dims{2, 5, 4}}) {
    const Array x = random(dims, 1),
                y = test::combine(test::matmul(test::reshape(x, {test::count(dims) / 4, 4}), kernel), bias, plus);
    Dims shape = dims;
    shape.back() = 3;
    expect_layer("Dense", "'units': 3, 'use_bias': true", x, {{"kernel", kernel}, {"bias", bias}},
                 test::reshape(y, shape));
    expect_layer("Dense", "'units': 3, 'activation': 'softmax'", x, {{"kernel", kernel}, {"bias", bias}},
                 test::reshape(test::softmax(y, 1), shape));
  }
}

TEST(Keras, Activations) {
  const Array x = test::map(random({2, 3, 4}, 1), [](float v) { return 5 * v; });
  const auto elu = [](float v) { return v < 0 ? std::expm1(v) : v; };
  const std::map<std::string, std::function<float(float)>> functions = {
      {"linear", [](float v) { return v; }},
      {"relu", relu},
      {"relu6", [](float v) { return std::clamp(v, 0.0f, 6.0f); }},
      {"sigmoid", [](float v) { return 1 / (1 + std::exp(-v)); }},
      {"tanh", [](float v) { return std::tanh(v); }},
      {"exponential", [](float v) { return std::exp(v); }},
      {"elu", elu},
      {"selu", [](float v) { return 1.05070098f * (v < 0 ? 1.67326324f * std::expm1(v) : v); }},
      {"swish", [](float v) { return v / (1 + std::exp(-v)); }},
      {"silu", [](float v) { return v / (1 + std::exp(-v)); }},
      {"hard_silu", [](float v) { return v * std::clamp(v + 3, 0.0f, 6.0f) / 6; }},
      {"hard_tanh", [](float v) { return std::clamp(v, -1.0f, 1.0f); }},
      {"leaky_relu", [](float v) { return v < 0 ? 0.2f * v : v; }},
      {"softsign", [](float v) { return v / (1 + std::fabs(v)); }},
      {"hard_sigmoid", [](float v) { return std::clamp(0.2f * v + 0.5f, 0.0f, 1.0f); }},
  };
  for (const auto& [name, function] : functions) {
    expect_layer("Activation", "'activation': '" + name + "'", x, {}, test::map(x, function));
  }
  const auto steeper = [](float v) { return std::clamp(v / 6 + 0.5f, 0.0f, 1.0f); };
  expect_layer("Activation", "'activation': 'hard_sigmoid'", x, {}, test::map(x, steeper), "3.1.0");
  expect_layer("Activation", "'activation': 'softmax'", x, {}, test::softmax(x, 2));
  expect_layer("Softmax", "'axis': 1", x, {}, test::softmax(x, 1));
  expect_layer("Softmax", "'axis': [-1]", x, {}, test::softmax(x, 2));
  expect_layer("ELU", "'alpha': 0.5", x, {}, test::map(x, [](float v) { return v < 0 ? 0.5f * std::expm1(v) : v; }));
  expect_in(refusal("Activation", "'activation': 'sparsemax'", x.dims), "y (Activation: activation 'sparsemax')");
  expect_in(refusal("Activation", "'activation': {'class_name': 'F'}", x.dims), "'activation' that is no text");
}

TEST(Keras, Rectifiers) {
  const Array x = test::map(random({2, 3, 4, 5}, 1), [](float v) { return 4 * v; });
  const auto leaky = [](float v) { return v < 0 ? 0.25f * v : v; };
  expect_layer("ReLU", "'max_value': null, 'negative_slope': 0.0, 'threshold': 0.0", x, {}, test::map(x, relu));
  expect_layer("ReLU", "'max_value': {'type': 'ndarray', 'value': 2.0}", x, {},
               test::map(x, [](float v) { return std::clamp(v, 0.0f, 2.0f); }));
  expect_layer("ReLU", "'negative_slope': 0.25", x, {}, test::map(x, leaky));
  expect_layer("ReLU", "'negative_slope': 0.25, 'max_value': 2", x, {},
               test::map(x, [&](float v) { return std::min(leaky(v), 2.0f); }));
  expect_layer("LeakyReLU", "'alpha': 0.25", x, {}, test::map(x, leaky));
  expect_layer("LeakyReLU", "'negative_slope': 0.25", x, {}, test::map(x, leaky));
  const auto prelu = [&](const Array& slope) {
    const Array below = test::combine(test::map(x, [](float v) { return std::min(v, 0.0f); }), slope, times);
    return test::combine(test::map(x, relu), below, plus);
  };
  const Array channel = random({1, 1, 5}, 2), row = random({3, 1, 1}, 3), all = random({3, 4, 5}, 4);
  expect_layer("PReLU", "'shared_axes': [1, 2]", x, {{"alpha", channel}}, prelu(channel));
  expect_layer("PReLU", "'shared_axes': [2, 3]", x, {{"alpha", row}}, prelu(row));
  expect_layer("PReLU", "'shared_axes': null", x, {{"alpha", all}}, prelu(all));
  expect_in(refusal("PReLU", "'shared_axes': [1, 2]", x.dims, {{"alpha", row}}), "alpha is 3 x 1 x 1");
}

TEST(Keras, Normalization) {
  const Array x = random({2, 3, 4, 5}, 1);
  const auto positive = [](float v) { return std::fabs(v) + 0.5f; };
  const Array gamma = random({5}, 2), beta = random({5}, 3), mean = random({5}, 4),
              var = test::map(random({5}, 5), positive);
  const auto normal = [&](float epsilon) {
    const Array centered = test::combine(x, mean, std::minus<float>());
    return test::combine(centered, var, [&](float a, float b) { return a / std::sqrt(b + epsilon); });
  };
  const KerasWeights statistics = {{"moving_mean", mean}, {"moving_variance", var}};
  KerasWeights all = statistics;
  all["gamma"] = gamma, all["beta"] = beta;
  const Array want = test::combine(test::combine(normal(0.01f), gamma, times), beta, plus);
  expect_layer("BatchNormalization", "'axis': [3], 'epsilon': 0.01, 'momentum': 0.99", x, all, want);
  expect_layer("BatchNormalization", "'axis': -1, 'epsilon': 0.01, 'synchronized': false", x, all, want);
  expect_layer("BatchNormalization", "'scale': false, 'center': false", x, statistics, normal(0.001f));
  const auto swap = [](const Array& a) { return test::transpose(a, {0, 3, 1, 2}); };
  expect_layer("BatchNormalization", "'axis': 1, 'epsilon': 0.01", swap(x), all, swap(want));
  expect_in(refusal("BatchNormalization", "'renorm': true", x.dims, all), "renorm");
  expect_in(refusal("BatchNormalization", "'scale': false", x.dims, all), "nothing reads its weights 'y/y/gamma:0'");
  expect_layer("Normalization", "'axis': [-1]", x, {{"mean", mean}, {"variance", var}, {"count", test::make({}, {7})}},
               normal(0));
  expect_layer("Normalization", "'axis': null, 'mean': 0.5, 'variance': 4.0", x, {},
               test::map(x, [](float v) { return (v - 0.5f) / 2; }));
  expect_layer("Normalization",
               "'axis': [-1], 'mean': [[[[1, 2, 3, 4, 5]]]], 'variance': [4, 4, 4, 4, 4], 'invert': true", x, {},
               test::combine(test::map(x, [](float v) { return 2 * v; }), test::make({5}, {1, 2, 3, 4, 5}), plus));
  expect_layer("Rescaling", "'scale': 0.5, 'offset': -1.0", x, {}, test::map(x, [](float v) { return v / 2 - 1; }));
}

// ---- layers that move elements ----------------------------------------------------------------

TEST(Keras, Shapes) {
  const Array x = random({2, 3, 4, 6}, 1);
  expect_layer("Flatten", "'data_format': 'channels_last'", x, {}, test::reshape(x, {2, 72}));
  expect_layer("Flatten", "'data_format': 'channels_first'", x, {}, test::reshape(channels_last(x), {2, 72}));
  expect_layer("Reshape", "'target_shape': [4, -1, 2]", x, {}, test::reshape(x, {2, 4, 9, 2}));
  expect_layer("Permute", "'dims': [3, 1, 2]", x, {}, test::transpose(x, {0, 3, 1, 2}));
  const Array row = random({2, 3}, 2);
  expect_layer("RepeatVector", "'n': 2", row, {}, test::generate({2, 2, 3}, [&](const Dims& i) {
                 return row.at({i[0], i[2]});
               }));
  const Array padded = test::pad(x, {0, 1, 3, 0}, {0, 2, 0, 0}, 0);
  expect_layer("ZeroPadding2D", "'padding': [[1, 2], [3, 0]]", x, {}, padded);
  expect_layer("ZeroPadding2D", "'padding': [[1, 2], [3, 0]], 'data_format': 'channels_first'", channels_first(x), {},
               channels_first(padded));
  expect_layer("ZeroPadding2D", "'padding': [1, 2]", x, {}, test::pad(x, {0, 1, 2, 0}, {0, 1, 2, 0}, 0));
  expect_layer("Cropping2D", "'cropping': [[1, 0], [0, 2]]", x, {}, test::slice(x, {0, 1, 0, 0}, {2, 3, 2, 6}));
  const Array sequence = random({2, 5, 3}, 3);
  expect_layer("ZeroPadding1D", "'padding': [1, 2]", sequence, {}, test::pad(sequence, {0, 1, 0}, {0, 2, 0}, 0));
  expect_layer("Cropping1D", "'cropping': [2, 1]", sequence, {}, test::slice(sequence, {0, 2, 0}, {2, 4, 3}));
  expect_in(refusal("Cropping2D", "'cropping': [[2, 1], [0, 0]]", x.dims), "nothing is left");
  expect_in(refusal("Permute", "'dims': [1, 1, 2]", x.dims), "perm is no permutation");
  expect_in(refusal("Reshape", "'target_shape': [0, 3]", x.dims), "'target_shape' is out of range");
  expect_in(refusal("ZeroPadding2D", "'padding': [1, 2, 3]", x.dims), "'padding' has an unknown form");
  expect_in(refusal("ZeroPadding2D", "'padding': -1", x.dims), "'padding' is out of range");
}

TEST(Keras, TrainingOnly) {
  const Array x = random({2, 3, 4, 6}, 1);
  for (const char* type : {"Dropout", "SpatialDropout2D", "GaussianNoise", "AlphaDropout", "ActivityRegularization",
                           "RandomFlip", "RandomZoom"}) {
    expect_layer(type, "'rate': 0.5, 'noise_shape': [1, 2], 'seed': 3", x, {}, x);
  }
}

// ---- models -----------------------------------------------------------------------------------

// Two inputs a, b of these dimensions, which a layer "y" reads.
std::string two_inputs(const std::string& type, const std::string& config, const Dims& a, const Dims& b,
                       const std::string& calls = "[[['a', 0, 0, {}], ['b', 0, 0, {}]]]") {
  return test::keras_functional(
      "net", {test::keras_input("a", a), test::keras_input("b", b), test::keras_layer(type, "y", config, calls)},
      "[['a', 0, 0], ['b', 0, 0]]", "[['y', 0, 0]]");
}

TEST(Keras, Merging) {
  const Array a = random({2, 3, 4, 5}, 1), b = random({2, 3, 4, 5}, 2), row = random({2, 1, 1, 5}, 3);
  const auto expect_merged = [&](const std::string& type, const Array& second, float (*f)(float, float)) {
    SCOPED_TRACE(type);
    const Graph graph = keras::import_contents(test::keras_contents(two_inputs(type, "", a.dims, second.dims), {}), {});
    expect_near(test::run(graph, {a, second}).at(0), test::combine(a, second, f));
  };
  expect_merged("Add", b, [](float u, float v) { return u + v; });
  expect_merged("Add", row, [](float u, float v) { return u + v; });
  expect_merged("Subtract", b, [](float u, float v) { return u - v; });
  expect_merged("Multiply", row, [](float u, float v) { return u * v; });
  expect_merged("Average", b, [](float u, float v) { return (u + v) / 2; });
  expect_merged("Maximum", b, [](float u, float v) { return std::max(u, v); });
  expect_merged("Minimum", b, [](float u, float v) { return std::min(u, v); });
  const Graph joined =
      keras::import_contents(test::keras_contents(two_inputs("Concatenate", "'axis': 2", a.dims, b.dims), {}), {});
  expect_near(test::run(joined, {a, b}).at(0), test::concat({a, b}, 2));
  expect_in(refusal(test::keras_contents(two_inputs("Add", "", a.dims, {2, 5}), {})), "different ranks");
  expect_in(refusal(test::keras_contents(two_inputs("Maximum", "", a.dims, row.dims), {})), "different shapes");
}

// Operators between layers: Keras 2 has TFOpLambda, Keras 3 layers with numbers among their arguments.
// Of the networks that come with Keras.
TEST(Keras, LayersOfApplications) {
  const Array x = random({2, 3, 4}, 1), gamma = random({4}, 2), y = random({2, 3, 4}, 3);
  expect_layer("LayerScale", "'init_values': 0.1, 'projection_dim': 4", x, {{"gamma", gamma}},
               test::combine(x, gamma, times));
  expect_layer("LayerScale", "'projection_dim': 4", x, {{"variable_7", gamma}}, test::combine(x, gamma, times));
  expect_in(refusal("LayerScale", "'projection_dim': 4", x.dims), "has 0 weights for it instead of one");
  expect_in(refusal("LayerScale", "'projection_dim': 3", x.dims, {{"gamma", gamma}}), "does not fit the input");
  expect_layer("StochasticDepth", "'drop_path_rate': 0.5", x, {}, x);
  const Array want = test::combine(x, y, [](float a, float b) { return a + 0.25f * b; });
  for (const char* type : {"CustomScaleLayer", "Custom>CustomScaleLayer"}) {
    const std::string net =
        test::keras_functional("net",
                               {test::keras_input("x", x.dims), test::keras_input("y", x.dims),
                                test::keras_layer(type, "s", "'scale': 0.25", "[[['x', 0, 0, {}], ['y', 0, 0, {}]]]")},
                               "[['x', 0, 0], ['y', 0, 0]]", "[['s', 0, 0]]");
    expect_near(test::run(keras::import_contents(test::keras_contents(net, {}), {}), {x, y}).at(0), want);
  }
}

TEST(Keras, Operators) {
  const Array x = random({2, 3}, 1), want = test::map(x, [](float v) { return 2 - v; });
  const std::string ends = "[['x', 0, 0]]", input = test::keras_input("x", x.dims);
  const std::string lambda = test::keras_layer("TFOpLambda", "y", "'function': 'math.subtract'",
                                               "[['_CONSTANT_VALUE', -1, 2, {'y': ['x', 0, 0], 'name': null}]]");
  const std::string tensor = "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['x', 0, 0]}}";
  const std::string layer = test::keras_layer("Subtract", "y", "", "[{'args': [2.0, " + tensor + "], 'kwargs': {}}]");
  for (const std::string& each : {lambda, layer}) {
    const std::string net = test::keras_functional("net", {input, each}, ends, "[['y', 0, 0]]");
    expect_near(test::run(keras::import_contents(test::keras_contents(net, {}), {}), {x}).at(0), want);
  }
  const std::string argument = test::keras_layer("Add", "y", "", "[[['x', 0, 0, {'mask': 3}]]]");
  const std::string training = test::keras_layer("Dropout", "y", "", "[[['x', 0, 0, {'training': true}]]]");
  for (const auto& [each, part] : {std::pair(argument, "'mask'"), std::pair(training, "'training'")}) {
    const std::string net = test::keras_functional("net", {input, each}, ends, "[['y', 0, 0]]");
    expect_in(refusal(test::keras_contents(net, {})), std::string("the argument ") + part);
  }
}

// A layer that is called twice; the file lists it before the layer whose result it reads.
TEST(Keras, SharedLayers) {
  const Array x = random({2, 3}, 1), kernel = random({3, 3}, 2);
  const std::string net = test::keras_functional(
      "net",
      {test::keras_input("x", x.dims),
       test::keras_layer("Dense", "y", "'units': 3, 'use_bias': false", "[[['x', 0, 0, {}]], [['z', 0, 0, {}]]]"),
       test::keras_layer("ReLU", "z", "", "[[['y', 0, 0, {}]]]")},
      "[['x', 0, 0]]", "[['y', 1, 0], ['z', 0, 0]]");
  const keras::Contents contents = test::keras_contents(net, {{"y/y/kernel:0", kernel}});
  const Array z = test::map(test::matmul(x, kernel), relu);
  const std::vector<Array> got = test::run(keras::import_contents(contents, {}), {x});
  expect_near(got.at(0), test::matmul(z, kernel));
  expect_near(got.at(1), z);
  EXPECT_EQ(keras::import_contents(contents, {}).outputs.size(), 2u);
  expect_near(test::run(keras::import_contents(contents, {"y"}), {x}).at(0), test::matmul(x, kernel));
  expect_in(error_of([&] { keras::import_contents(contents, {"w"}); }), "the model has no layer 'w'");
}

// A model within the model, called twice, as Keras 2 (which counts its calls from 1 on) and Keras 3 write it. Its layer
// has the name of one outside.
TEST(Keras, NestedModels) {
  const Array x = random({2, 3}, 1), kernel = random({3, 3}, 2), outer = random({3, 3}, 3);
  const std::string dense = "'units': 3, 'use_bias': false";
  const std::string own_input = test::keras_input("i", x.dims);
  const Array once = test::map(test::matmul(test::matmul(x, outer), kernel), relu);
  const Array want = test::map(test::matmul(once, kernel), relu);
  const std::string old_calls = "[[['fc', 0, 0, {}]], [['inner', 1, 0, {}]]]";
  const auto tensor = [](const std::string& layer) {
    return "{'args': [{'class_name': '__keras_tensor__', 'config': {'keras_history': ['" + layer +
           "', 0, 0]}}], 'kwargs': {'mask': [null]}}";
  };
  const std::string new_calls = "[" + tensor("fc") + ", " + tensor("inner") + "]";
  for (const bool is_new : {false, true}) {
    const std::string calls = is_new ? new_calls : old_calls, first = is_new ? "[" + tensor("x") + "]" : call_on_x;
    const std::vector<std::string> layers = {own_input, test::keras_layer("Dense", "fc", dense, "[[['i', 0, 0, {}]]]"),
                                             test::keras_layer("ReLU", "r", "", "[[['fc', 0, 0, {}]]]")};
    const std::string functional = test::keras_functional("inner", layers, "[['i', 0, 0]]", "[['r', 0, 0]]", calls);
    const std::string sequential = test::keras_sequential(
        "inner", {own_input, test::keras_layer("Dense", "fc", dense), test::keras_layer("ReLU", "r", "")}, calls);
    for (const std::string& inner : {functional, sequential}) {
      const bool counts_from_1 = !is_new || inner == functional;  // where the model names its outputs
      const std::string net = test::keras_functional(
          "net", {test::keras_input("x", x.dims), test::keras_layer("Dense", "fc", dense, first), inner}, "['x', 0, 0]",
          "['inner', " + std::string(counts_from_1 ? "2" : "1") + ", 0]");
      const std::string folder = is_new ? "inner/inner/" : "inner/";
      const keras::Contents contents = test::keras_contents(
          net, {{"fc/fc/kernel:0", outer}, {folder + "fc/kernel:0", kernel}}, is_new ? "3.1.0" : "2.4.0");
      expect_near(test::run(keras::import_contents(contents, {}), {x}).at(0), want);
      expect_near(test::run(keras::import_contents(contents, {"inner/r"}), {x}).at(0), once);
    }
  }
}

TEST(Keras, SequentialWithoutInputLayer) {
  const Array x = random({2, 3}, 1), kernel = random({3, 2}, 2);
  const std::string dense =
      test::keras_layer("Dense", "fc", "'batch_input_shape': [null, 3], 'units': 2, 'use_bias': false");
  const std::string inner = test::keras_sequential("inner", {dense});
  for (const std::string& net : {inner, test::keras_sequential("net", {inner})}) {
    const std::string path = net == inner ? "fc/fc/kernel:0" : "inner/fc/kernel:0";
    const Graph graph = keras::import_contents(test::keras_contents(net, {{path, kernel}}), {});
    expect_near(test::run(graph, {x}).at(0), test::matmul(x, kernel));
  }
  // Old files have nothing but a list of layers.
  const std::string list = R"({"class_name": "Sequential", "config": [)" + dense + "]}";
  const Graph graph = keras::import_contents(test::keras_contents(list, {{"fc/kernel:0", kernel}}), {});
  expect_near(test::run(graph, {x}).at(0), test::matmul(x, kernel));
  expect_in(refusal(test::keras_contents(test::keras_sequential("net", {test::keras_layer("ReLU", "r", "")}), {})),
            "does not say which shape its input has");
}

// Names of layers may have slashes, and one may begin with another's.
TEST(Keras, NamesWithSlashes) {
  const Array x = random({2, 3}, 1), first = random({3, 3}, 2), second = random({3, 3}, 3);
  const std::string config = "'units': 3, 'use_bias': false";
  const std::string net =
      test::keras_sequential("net", {test::keras_input("x", x.dims), test::keras_layer("Dense", "a", config),
                                     test::keras_layer("Dense", "a/b", config)});
  const keras::Contents contents = test::keras_contents(net, {{"a/a/kernel:0", first}, {"a/b/a/b/kernel:0", second}});
  expect_near(test::run(keras::import_contents(contents, {}), {x}).at(0), test::matmul(test::matmul(x, first), second));
}

// ---- what is refused --------------------------------------------------------------------------

TEST(Keras, ListsAllUnsupportedLayers) {
  const std::string net = test::keras_sequential(
      "net",
      {test::keras_input("x", {1, 8, 8, 2}), test::keras_layer("ConvLSTM2D", "up", "'filters': 2"),
       test::keras_layer("ReLU", "r", ""), test::keras_sequential("inner", {test::keras_layer("Lambda", "f", "")})});
  EXPECT_EQ(refusal(test::keras_contents(net, {})), "2 layers are not supported: up (ConvLSTM2D), inner/f (Lambda)");
  const std::string two = test::keras_functional(
      "net",
      {test::keras_input("x", {1, 8, 8, 2}), test::keras_layer("ConvLSTM2D", "up", "", call_on_x),
       test::keras_layer("Softmax", "r", "'axis': [1, 2]", call_on_x),
       test::keras_layer("Softmax", "s", "'temperature': 2.0", call_on_x),
       test::keras_layer("ReLU", "q", "'dtype': 'int8'", call_on_x)},
      "[['x', 0, 0]]", "[['up', 0, 0], ['r', 0, 0], ['s', 0, 0], ['q', 0, 0]]");
  EXPECT_EQ(refusal(test::keras_contents(two, {})),
            "4 layers are not supported: up (ConvLSTM2D), r (Softmax: over several axes), s (Softmax: 'temperature'), "
            "q (ReLU: "
            "type 'int8')");
}

TEST(Keras, Refuses) {
  const Dims x = {1, 8, 8, 2};
  const KerasWeights kernel = {{"kernel", random({3, 3, 2, 4}, 1)}};
  const std::string conv = "'filters': 4, 'kernel_size': [3, 3], 'use_bias': false";
  expect_in(refusal("Conv2D", conv, x), "layer 'y' (Conv2D): the file has no weights 'kernel' for it");
  expect_in(refusal("Conv2D", "'filters': 5, 'kernel_size': 3, 'use_bias': false", x, kernel),
            "its kernel is 3 x 3 x 2 x 4, the layer needs 3 x 3 x 2 x 5");
  expect_in(refusal("Conv2D", "'filters': 4, 'kernel_size': [3, 3]", x, kernel), "no weights 'bias'");
  expect_in(refusal("Conv2D", "'kernel_size': [3, 3]", x, kernel), "'filters' is missing");
  expect_in(refusal("Conv2D", conv + ", 'groups': 3", x, kernel), "does not divide");
  expect_in(refusal("Conv2D", conv + ", 'strides': [1, 0]", x, kernel), "'strides' is out of range");
  expect_in(refusal("Conv2D", conv + ", 'strides': [1, 1, 1]", x, kernel), "'strides' has too many numbers");
  expect_in(refusal("Conv2D", conv + ", 'strides': 1.5", x, kernel), "'strides' is no whole number");
  expect_in(refusal("Conv2D", conv + ", 'padding': 'causal'", x, kernel), "padding 'causal'");
  expect_in(refusal("Conv2D", conv + ", 'data_format': 'nhwc'", x, kernel), "'data_format' is unknown");
  expect_in(refusal("Conv2D", conv + ", 'lora_rank': 4", x, kernel), "y (Conv2D: 'lora_rank')");
  expect_in(refusal("MaxPooling2D", "'pool_size': 99999999999999999999", x), "no whole number");
  expect_in(refusal("LeakyReLU", "'alpha': 1e39", x), "is not a finite number");
  expect_in(refusal("LeakyReLU", "'alpha': NaN", x), "model_config is damaged");
  expect_in(refusal("LeakyReLU", "'alpha': 'big'", x), "'alpha' is no number");
  expect_in(refusal("Dense", "'units': 2", {1}), "rank 1");
  expect_in(refusal("Conv2D", conv, {1, 8, 8}, kernel), "rank 3");
}

TEST(Keras, RefusesDamagedModels) {
  const auto refused = [&](const std::string& config) { return refusal(keras::Contents{config, "2.4.0", {}}); };
  expect_in(refused(""), "model_config is damaged");
  expect_in(refused("{"), "model_config is damaged");
  expect_in(refused("[]"), "'class_name' is missing");
  expect_in(refused(R"({"class_name": "MyModel", "config": {}})"), "a model of the class 'MyModel'");
  expect_in(refused(R"({"class_name": "Sequential", "config": {"layers": []}})"), "has no layers");
  expect_in(refused(R"({"class_name": "Sequential", "config": {"layers": [3]}})"), "layer 0: 'class_name' is missing");
  const std::string x = test::keras_input("x", {1, 3}), ends = "[['x', 0, 0]]";
  const auto net = [&](const std::vector<std::string>& layers, const std::string& outputs) {
    return refused(test::keras_functional("net", layers, ends, outputs));
  };
  const auto call = [](const std::string& source) { return "[[['" + source + "', 0, 0, {}]]]"; };
  expect_in(net({x, test::keras_layer("ReLU", "a", "", call("b")), test::keras_layer("ReLU", "b", "", call("a"))},
                "[['b', 0, 0]]"),
            "layer 'a' depends on its own result");
  expect_in(net({x, test::keras_layer("ReLU", "a", "", call("c"))}, "[['a', 0, 0]]"), "there is no layer 'c'");
  expect_in(net({x, x}, ends), "layer 'x' is there twice");
  expect_in(net({x}, "[['x', 1, 0]]"), "layer 'x' has no call 1");
  expect_in(net({x}, "[['x', -1, 0]]"), "layer 'x' has no call -1");
  expect_in(net({x}, "[['x', 0, 99999]]"), "layer 'x' has no result 99999");
  expect_in(net({x, test::keras_layer("ReLU", "a", "", "[[['x', 0]]]")}, "[['a', 0, 0]]"),
            "'inbound_nodes' is damaged");
  expect_in(net({x}, "[]"), "the model has no outputs");
  expect_in(
      refused(test::keras_sequential("net", {test::keras_layer("InputLayer", "x", "'batch_input_shape': [1, -3]")})),
      "out of range");
  expect_in(
      refused(test::keras_sequential("net", {test::keras_layer("InputLayer", "x", "'batch_shape': [1, null, 3]")})),
      "dimension 1 has no fixed size");
  expect_in(refused(test::keras_sequential(
                "net", {test::keras_layer("InputLayer", "x", "'batch_shape': [1, 3], 'dtype': 'uint8'")})),
            "type 'uint8'");
}

// Each model calls the one within it ten times: 10^16 layers.
TEST(Keras, RefusesModelsThatExplode) {
  std::string model = test::keras_layer("ReLU", "r", "");
  for (int depth = 0; depth < 16; ++depth) {
    model = test::keras_sequential("m" + std::to_string(depth), std::vector<std::string>(depth < 4 ? 10 : 1, model));
  }
  expect_in(refusal(test::keras_contents(
                test::keras_sequential("net", {test::keras_input("x", {1, 3}), model, model, model}), {})),
            "more than 20000 layers");
  std::string deep = test::keras_layer("ReLU", "r", "");
  for (int depth = 0; depth < 20; ++depth) deep = test::keras_sequential("m", {deep});
  expect_in(refusal(test::keras_contents(test::keras_sequential("net", {test::keras_input("x", {1, 3}), deep}), {})),
            "too deep");
}

}  // namespace
}  // namespace quern

// Every layer that the Keras importer knows, against plain computations. (keras_models.py compares with Keras itself.)
#include <cmath>

#include "keras_model.h"

namespace quern::test {
namespace keras_test {

// Keras' order of dimensions as that of the plain computations.
Array filters(const Array& kernel) { return transpose(kernel, {3, 2, 0, 1}); }
float relu(float v) { return std::max(v, 0.0f); }

// ---- layers with windows ----------------------------------------------------------------------

TEST(Keras, Conv2D) {
  const Array x = random({2, 7, 6, 4}, 1), kernel = random({3, 2, 4, 6}, 2), bias = random({6}, 3);
  const Array grouped = random({3, 2, 2, 6}, 4);
  const std::string sizes = "'filters': 6, 'kernel_size': [3, 2]";
  const KerasWeights weights = {{"kernel", kernel}, {"bias", bias}};
  Window window;
  const auto want = [&](const Array& w, size_t groups, bool has_bias = true) {
    return nhwc(conv(nchw(x), filters(w), has_bias ? bias.data : std::vector<float>(6, 0.0f), window, groups));
  };
  window.kernel[0] = 3, window.kernel[1] = 2;
  expect_layer("Conv2D", sizes, x, weights, want(kernel, 1));
  expect_layer("Conv2D", sizes + ", 'activation': 'relu'", x, weights, map(want(kernel, 1), relu));
  expect_layer("Conv2D", sizes + ", 'groups': 2", x, {{"kernel", grouped}, {"bias", bias}}, want(grouped, 2));
  expect_layer("Conv2D", sizes + ", 'use_bias': false", x, {{"kernel", kernel}}, want(kernel, 1, false));
  window.dilation[0] = 2;
  expect_layer("Conv2D", sizes + ", 'dilation_rate': [2, 1]", x, weights, want(kernel, 1));
  window.dilation[0] = 1, window.stride[0] = window.stride[1] = 2;
  window.begin[0] = window.end[0] = 1;  // 7 rows, 4 windows; 6 columns, 3 windows
  expect_layer("Conv2D", sizes + ", 'strides': [2, 2], 'padding': 'same'", x, weights, want(kernel, 1));
  const Array planes = nchw(x);
  const Array y = conv(planes, filters(kernel), bias.data, window, 1);
  expect_layer("Conv2D", sizes + ", 'strides': 2, 'padding': 'same', 'data_format': 'channels_first'", planes, weights,
               y);
  // Softmax goes over the last dimension, whichever that is.
  expect_layer("Conv2D",
               sizes + ", 'strides': 2, 'padding': 'same', 'data_format': 'channels_first', 'activation': 'softmax'",
               planes, weights, softmax(y, 3));
}

TEST(Keras, DepthwiseAndSeparable) {
  const Array x = random({2, 7, 6, 3}, 1), kernel = random({3, 3, 3, 2}, 2), bias = random({6}, 3);
  const Array point = random({1, 1, 6, 4}, 4), point_bias = random({4}, 5);
  Window window;
  window.kernel[0] = window.kernel[1] = 3;
  // The filters of one channel follow each other: 3 x 2 outputs.
  const Array each = reshape(transpose(kernel, {2, 3, 0, 1}), {6, 1, 3, 3});
  const Array deep = conv(nchw(x), each, bias.data, window, 3);
  const std::string sizes = "'kernel_size': [3, 3], 'depth_multiplier': 2";
  expect_layer("DepthwiseConv2D", sizes, x, {{"depthwise_kernel", kernel}, {"bias", bias}}, nhwc(deep));
  expect_layer("DepthwiseConv2D", sizes, x, {{"kernel", kernel}, {"bias", bias}}, nhwc(deep), "3.0.0");
  const Array no_bias = conv(nchw(x), each, std::vector<float>(6, 0.0f), window, 3);
  const Array mixed = conv(no_bias, filters(point), point_bias.data, {}, 1);
  expect_layer("SeparableConv2D", sizes + ", 'filters': 4", x,
               {{"depthwise_kernel", kernel}, {"pointwise_kernel", point}, {"bias", point_bias}}, nhwc(mixed));
}

TEST(Keras, Conv1D) {
  const Array x = random({2, 9, 4}, 1), kernel = random({3, 4, 5}, 2), bias = random({5}, 3);
  Window window;
  window.kernel[1] = 3, window.dilation[1] = 2, window.begin[1] = 4;
  const Array image = reshape(transpose(x, {0, 2, 1}), {2, 4, 1, 9});
  const Array w = reshape(transpose(kernel, {2, 1, 0}), {5, 4, 1, 3});
  const Array y = reshape(conv(image, w, bias.data, window, 1), {2, 5, 9});
  const std::string config = "'filters': 5, 'kernel_size': [3], 'dilation_rate': [2], 'padding': 'causal'";
  const KerasWeights weights = {{"kernel", kernel}, {"bias", bias}};
  expect_layer("Conv1D", config, x, weights, transpose(y, {0, 2, 1}));
  expect_layer("Conv1D", config + ", 'data_format': 'channels_first'", transpose(x, {0, 2, 1}), weights, y);
}

TEST(Keras, Pooling) {
  const Array x = random({2, 7, 6, 3}, 1), planes = nchw(x);
  Window window;
  window.kernel[0] = 3, window.kernel[1] = window.stride[0] = window.stride[1] = 2;
  const std::string config = "'pool_size': [3, 2], 'strides': [2, 2], 'padding': ";
  expect_layer("MaxPooling2D", config + "'valid'", x, {}, nhwc(max_pool(planes, window)));
  window.begin[0] = window.end[0] = 1;
  expect_layer("MaxPooling2D", config + "'same'", x, {}, nhwc(max_pool(planes, window)));
  const Array average = average_pool(planes, window, false);
  expect_layer("AveragePooling2D", config + "'same'", x, {}, nhwc(average));
  expect_layer("AveragePooling2D", config + "'same', 'data_format': 'channels_first'", planes, {}, average);
  Window row;
  row.kernel[1] = row.stride[1] = 3;
  const Array sequence = random({2, 9, 4}, 2), image = reshape(transpose(sequence, {0, 2, 1}), {2, 4, 1, 9});
  const Array pooled = transpose(reshape(max_pool(image, row), {2, 4, 3}), {0, 2, 1});
  expect_layer("MaxPooling1D", "'pool_size': [3]", sequence, {}, pooled);
}

TEST(Keras, GlobalPooling) {
  const Array x = random({2, 5, 4, 3}, 1), planes = nchw(x);
  Window all;
  all.kernel[0] = 5, all.kernel[1] = 4;
  const Array most = max_pool(planes, all), mean = average_pool(planes, all, false);
  expect_layer("GlobalMaxPooling2D", "", x, {}, reshape(most, {2, 3}));
  expect_layer("GlobalAveragePooling2D", "'keepdims': true", x, {}, nhwc(mean));
  expect_layer("GlobalAveragePooling2D", "'data_format': 'channels_first'", planes, {}, reshape(mean, {2, 3}));
}

TEST(Keras, Enlarging) {
  const Array x = random({2, 3, 4, 2}, 1);
  const auto nearest = [&](const Dims& i) { return x.at({i[0], i[1] / 2, i[2] / 3, i[3]}); };
  expect_layer("UpSampling2D", "'size': [2, 3], 'interpolation': 'nearest'", x, {}, generate({2, 6, 12, 2}, nearest));
  // Twice as wide: each pixel of the output lies a quarter of a pixel beside one of the input.
  const Array row = make({1, 1, 2, 1}, {4, 8}), wide = make({1, 1, 4, 1}, {4, 5, 7, 8});
  expect_layer("UpSampling2D", "'size': [1, 2], 'interpolation': 'bilinear'", row, {}, wide);
  expect_layer("Resizing", "'height': 1, 'width': 4", row, {}, wide);
  expect_in(refusal("UpSampling2D", "'size': 2, 'interpolation': 'bicubic'", x.dims), "interpolation 'bicubic'");
}

// ---- layers on vectors and single numbers -----------------------------------------------------

TEST(Keras, Dense) {
  const Array kernel = random({4, 3}, 2), bias = random({3}, 3);
  for (const Dims& dims : {Dims{2, 4}, Dims{2, 5, 4}}) {
    const Array x = random(dims, 1), y = combine(matmul(reshape(x, {count(dims) / 4, 4}), kernel), bias, plus);
    Dims shape = dims;
    shape.back() = 3;
    expect_layer("Dense", "'units': 3, 'use_bias': true", x, {{"kernel", kernel}, {"bias", bias}}, reshape(y, shape));
    expect_layer("Dense", "'units': 3, 'activation': 'softmax'", x, {{"kernel", kernel}, {"bias", bias}},
                 reshape(softmax(y, 1), shape));
  }
}

TEST(Keras, Activations) {
  const Array x = map(random({2, 3, 4}, 1), [](float v) { return 5 * v; });
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
    expect_layer("Activation", "'activation': '" + name + "'", x, {}, map(x, function));
  }
  const auto steeper = [](float v) { return std::clamp(v / 6 + 0.5f, 0.0f, 1.0f); };
  expect_layer("Activation", "'activation': 'hard_sigmoid'", x, {}, map(x, steeper), "3.1.0");
  expect_layer("Activation", "'activation': 'softmax'", x, {}, softmax(x, 2));
  expect_layer("Softmax", "'axis': 1", x, {}, softmax(x, 1));
  expect_layer("Softmax", "'axis': [-1]", x, {}, softmax(x, 2));
  expect_in(refusal("Softmax", "'axis': null", x.dims), "Softmax: over all elements (1 node: y)");
  expect_in(refusal("Average", "'axis': null", x.dims), "Average: of the elements of one tensor (1 node: y)");
  expect_layer("ELU", "'alpha': 0.5", x, {}, map(x, [](float v) { return v < 0 ? 0.5f * std::expm1(v) : v; }));
  expect_in(refusal("Activation", "'activation': 'sparsemax'", x.dims),
            "Activation: activation 'sparsemax' (1 node: y)");
  expect_in(refusal("Activation", "'activation': {'class_name': 'F'}", x.dims), "'activation' that is not a string");
}

TEST(Keras, Rectifiers) {
  const Array x = map(random({2, 3, 4, 5}, 1), [](float v) { return 4 * v; });
  const auto leaky = [](float v) { return v < 0 ? 0.25f * v : v; };
  expect_layer("ReLU", "'max_value': null, 'negative_slope': 0.0, 'threshold': 0.0", x, {}, map(x, relu));
  expect_layer("ReLU", "'max_value': {'type': 'ndarray', 'value': 2.0}", x, {},
               map(x, [](float v) { return std::clamp(v, 0.0f, 2.0f); }));
  expect_in(refusal("ReLU", "'max_value': {'value': {'value': 2.0}}", x.dims), "'max_value' must be a number");
  expect_layer("ReLU", "'negative_slope': 0.25", x, {}, map(x, leaky));
  expect_layer("ReLU", "'negative_slope': 0.25, 'max_value': 2", x, {},
               map(x, [&](float v) { return std::min(leaky(v), 2.0f); }));
  expect_layer("LeakyReLU", "'alpha': 0.25", x, {}, map(x, leaky));
  expect_layer("LeakyReLU", "'negative_slope': 0.25", x, {}, map(x, leaky));
  const auto prelu = [&](const Array& slope) {
    const Array below = combine(map(x, [](float v) { return std::min(v, 0.0f); }), slope, times);
    return combine(map(x, relu), below, plus);
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
  const Array gamma = random({5}, 2), beta = random({5}, 3), mean = random({5}, 4), var = map(random({5}, 5), positive);
  const auto normal = [&](float epsilon) {
    const Array centered = combine(x, mean, std::minus<float>());
    return combine(centered, var, [&](float a, float b) { return a / std::sqrt(b + epsilon); });
  };
  const KerasWeights statistics = {{"moving_mean", mean}, {"moving_variance", var}};
  KerasWeights all = statistics;
  all["gamma"] = gamma, all["beta"] = beta;
  const Array want = combine(combine(normal(0.01f), gamma, times), beta, plus);
  expect_layer("BatchNormalization", "'axis': [3], 'epsilon': 0.01, 'momentum': 0.99", x, all, want);
  expect_layer("BatchNormalization", "'axis': -1, 'epsilon': 0.01, 'synchronized': false", x, all, want);
  expect_layer("BatchNormalization", "'scale': false, 'center': false", x, statistics, normal(0.001f));
  const auto swap = [](const Array& a) { return transpose(a, {0, 3, 1, 2}); };
  expect_layer("BatchNormalization", "'axis': 1, 'epsilon': 0.01", swap(x), all, swap(want));
  expect_in(refusal("BatchNormalization", "'renorm': true", x.dims, all), "renorm");
  expect_in(refusal("BatchNormalization", "'scale': false", x.dims, all), "nothing reads its weights 'y/y/gamma:0'");
  expect_layer("Normalization", "'axis': [-1]", x, {{"mean", mean}, {"variance", var}, {"count", make({}, {7})}},
               normal(0));
  const Array column = make({2, 1}, {3, 5}), one = make({1}, {1}), four = make({1}, {4});
  expect_layer("Normalization", "'axis': [-1]", column, {{"mean", one}, {"variance", four}, {"count", make({}, {7})}},
               make({2, 1}, {1, 2}));
  expect_layer("Normalization", "'axis': null, 'mean': 0.5, 'variance': 4.0", x, {},
               map(x, [](float v) { return (v - 0.5f) / 2; }));
  expect_layer("Normalization",
               "'axis': [-1], 'mean': [[[[1, 2, 3, 4, 5]]]], 'variance': [4, 4, 4, 4, 4], 'invert': true", x, {},
               combine(map(x, [](float v) { return 2 * v; }), make({5}, {1, 2, 3, 4, 5}), plus));
  expect_layer("Rescaling", "'scale': 0.5, 'offset': -1.0", x, {}, map(x, [](float v) { return v / 2 - 1; }));
}

// ---- layers that move elements ----------------------------------------------------------------

TEST(Keras, Shapes) {
  const Array x = random({2, 3, 4, 6}, 1);
  expect_layer("Flatten", "'data_format': 'channels_last'", x, {}, reshape(x, {2, 72}));
  expect_layer("Flatten", "'data_format': 'channels_first'", x, {}, reshape(nhwc(x), {2, 72}));
  expect_layer("Reshape", "'target_shape': [4, -1, 2]", x, {}, reshape(x, {2, 4, 9, 2}));
  expect_layer("Permute", "'dims': [3, 1, 2]", x, {}, transpose(x, {0, 3, 1, 2}));
  const Array row = random({2, 3}, 2);
  expect_layer("RepeatVector", "'n': 2", row, {}, generate({2, 2, 3}, [&](const Dims& i) {
                 return row.at({i[0], i[2]});
               }));
  const Array padded = pad(x, {0, 1, 3, 0}, {0, 2, 0, 0}, 0);
  expect_layer("ZeroPadding2D", "'padding': [[1, 2], [3, 0]]", x, {}, padded);
  expect_layer("ZeroPadding2D", "'padding': [[1, 2], [3, 0]], 'data_format': 'channels_first'", nchw(x), {},
               nchw(padded));
  expect_layer("ZeroPadding2D", "'padding': [1, 2]", x, {}, pad(x, {0, 1, 2, 0}, {0, 1, 2, 0}, 0));
  expect_layer("Cropping2D", "'cropping': [[1, 0], [0, 2]]", x, {}, slice(x, {0, 1, 0, 0}, {2, 3, 2, 6}));
  const Array sequence = random({2, 5, 3}, 3);
  expect_layer("ZeroPadding1D", "'padding': [1, 2]", sequence, {}, pad(sequence, {0, 1, 0}, {0, 2, 0}, 0));
  expect_layer("Cropping1D", "'cropping': [2, 1]", sequence, {}, slice(sequence, {0, 2, 0}, {2, 4, 3}));
  expect_in(refusal("Cropping2D", "'cropping': [[2, 1], [0, 0]]", x.dims), "nothing is left");
  expect_in(refusal("Permute", "'dims': [1, 1, 2]", x.dims), "perm must be a permutation");
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

}  // namespace keras_test
}  // namespace quern::test

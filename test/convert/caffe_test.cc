// Every type of layer that the Caffe importer knows, against plain computations.
#include <algorithm>
#include <cmath>

#include "caffe_model.h"

namespace quern::test {
namespace caffe_test {

const char* const input_2x3x7x6 = "input: \"x\" input_dim: 2 input_dim: 3 input_dim: 7 input_dim: 6\n";

// ---- layers -----------------------------------------------------------------------------------

TEST_F(Caffe, Convolution) {
  const Array x = random({2, 4, 9, 8}, 1), w = random({6, 4, 3, 3}, 2), b = random({6}, 3);
  test::Window window;
  expect_layer("Convolution", "convolution_param { num_output: 6 kernel_size: 3 }", {x}, {w, b},
               test::conv(x, w, b.data, window, 1));
  window.stride[0] = 2;
  window.begin[0] = window.end[0] = 1;
  window.begin[1] = window.end[1] = 2;
  window.dilation[0] = window.dilation[1] = 2;
  expect_layer("Convolution",
               "convolution_param { num_output: 6 kernel_h: 3 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 2 "
               "dilation: 2 bias_term: false }",
               {x}, {w}, test::conv(x, w, {}, window, 1));
  const Array grouped = random({6, 2, 3, 2}, 4);
  expect_layer("Convolution",
               "convolution_param { num_output: 6 kernel_size: 3 kernel_size: 2 group: 2 engine: CUDNN "
               "weight_filler { type: \"xavier\" } }",
               {x}, {grouped, b}, test::conv(x, grouped, b.data, {}, 2));
  const Array depthwise = random({4, 1, 3, 3}, 5);
  expect_layer("DepthwiseConvolution", "convolution_param { num_output: 4 kernel_size: 3 group: 4 bias_term: false }",
               {x}, {depthwise}, test::conv(x, depthwise, {}, {}, 4));
}

TEST_F(Caffe, Pooling) {
  const Array x = random({1, 5, 8, 9}, 1);
  test::Window window;
  window.kernel[0] = window.kernel[1] = 3;
  window.stride[0] = window.stride[1] = 2;
  window.ceil = true;
  expect_layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 }", {x}, {}, test::max_pool(x, window));
  expect_layer("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }", {x}, {},
               test::average_pool(x, window, true));
  window.begin[0] = window.end[0] = window.begin[1] = window.end[1] = 1;
  expect_layer("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", {x}, {},
               test::average_pool(x, window, true));
  window.ceil = false;
  expect_layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 round_mode: FLOOR }", {x}, {},
               test::max_pool(x, window));
  expect_layer("Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 ceil_mode: false }", {x}, {},
               test::max_pool(x, window));
  test::Window large;
  large.kernel[0] = 10, large.kernel[1] = 12;
  large.stride[0] = large.stride[1] = 4;
  large.ceil = true;
  const std::string larger = "kernel_h: 10 kernel_w: 12 stride: 4 }";
  expect_layer("Pooling", "pooling_param { " + larger, {x}, {}, test::max_pool(x, large));
  expect_layer("Pooling", "pooling_param { pool: AVE " + larger, {x}, {}, test::average_pool(x, large, true));
  test::Window whole;
  whole.kernel[0] = 8;
  whole.kernel[1] = 9;
  expect_layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", {x}, {},
               test::average_pool(x, whole, false));
  expect_layer("Pooling", "pooling_param { global_pooling: true }", {x}, {}, test::max_pool(x, whole));
}

// Without padding, Caffe does not drop the last window if it begins behind the image.
TEST_F(Caffe, PoolingBehindTheImage) {
  const Array x = random({1, 2, 8, 9}, 1);
  const auto refused = [&](const std::string& parameters) {
    return error_of([&] { import(one_layer({x.dims}, "Pooling", "pooling_param { " + parameters + " }")); });
  };
  EXPECT_NE(refused("kernel_size: 1 stride: 2").find("behind the image"), std::string::npos);
  EXPECT_NE(refused("kernel_size: 2 stride: 5").find("behind the image"), std::string::npos);
  test::Window window;
  window.stride[0] = 7, window.stride[1] = 8;
  window.kernel[0] = window.kernel[1] = 2;
  window.ceil = true;
  expect_layer("Pooling", "pooling_param { kernel_size: 2 stride_h: 7 stride_w: 8 }", {x}, {},
               test::max_pool(x, window));
  window.stride[0] = 2, window.kernel[0] = 1;
  window.stride[1] = 4, window.kernel[1] = 2;
  window.begin[1] = window.end[1] = 1;
  expect_layer("Pooling", "pooling_param { kernel_h: 1 kernel_w: 2 stride_h: 2 stride_w: 4 pad_h: 0 pad_w: 1 }", {x},
               {}, test::max_pool(x, window));
}

TEST_F(Caffe, InnerProduct) {
  const Array x = random({2, 3, 4, 5}, 1), w = random({7, 60}, 2), b = random({7}, 3);
  const Array flat = test::reshape(x, {2, 60});
  const Array product = test::matmul(flat, test::transpose(w, {1, 0}));
  expect_layer("InnerProduct", "inner_product_param { num_output: 7 }", {x}, {w, b},
               test::combine(product, b, std::plus<float>()));
  expect_layer("InnerProduct", "inner_product_param { num_output: 7 bias_term: false transpose: true }", {x},
               {test::transpose(w, {1, 0})}, product);
  const Array rows = random({7, 5}, 4);
  expect_layer("InnerProduct", "inner_product_param { num_output: 7 bias_term: false axis: -1 }", {x}, {rows},
               test::matmul(x, test::transpose(rows, {1, 0})));
}

TEST_F(Caffe, BatchNormUsesTheScaleFactor) {
  const Array x = random({2, 3, 4, 5}, 1), mean = random({3}, 2);
  const Array variance = test::map(random({3}, 3), [](float v) { return 4 * (v + 1.5f); });
  const Array factor = test::make({1}, {4});
  const Array want = test::generate(x.dims, [&](const Dims& i) {
    return (x.at(i) - mean.data[i[1]] / 4) / std::sqrt(variance.data[i[1]] / 4 + 0.001f);
  });
  expect_layer("BatchNorm", "batch_norm_param { eps: 0.001 use_global_stats: true }", {x}, {mean, variance, factor},
               want);
  // All of a vector is one channel.
  const Array vector = random({7}, 4), one = test::make({1}, {0.5f}), two = test::make({1}, {2});
  expect_layer("BatchNorm", "batch_norm_param { eps: 0.001 }", {vector}, {one, two, factor},
               test::map(vector, [](float v) { return (v - 0.125f) / std::sqrt(0.501f); }));
}

TEST_F(Caffe, ScaleAndBias) {
  const Array x = random({2, 3, 4, 5}, 1), s = random({3}, 2), b = random({3}, 3);
  const auto column = [](const Array& v) { return test::reshape(v, {v.dims[0], 1, 1}); };
  const auto times = std::multiplies<float>();
  const auto plus = std::plus<float>();
  expect_layer("Scale", "scale_param { bias_term: true }", {x}, {s, b},
               test::combine(test::combine(x, column(s), times), column(b), plus));
  expect_layer("Scale", "", {x}, {s}, test::combine(x, column(s), times));
  const Array plane = random({4, 5}, 4);
  expect_layer("Scale", "scale_param { axis: 2 num_axes: 2 }", {x}, {plane}, test::combine(x, plane, times));
  expect_layer("Scale", "scale_param { axis: 2 num_axes: -1 }", {x}, {plane}, test::combine(x, plane, times));
  expect_layer("Scale", "scale_param { num_axes: 0 }", {x}, {test::make({1}, {3})},
               test::map(x, [](float v) { return 3 * v; }));
  const Array gate = random({2, 3}, 5);
  expect_layer("Scale", "scale_param { axis: 0 }", {x, gate}, {},
               test::combine(x, test::reshape(gate, {2, 3, 1, 1}), times));
  expect_layer("Bias", "", {x}, {b}, test::combine(x, column(b), plus));
  const Array rows = random({4}, 6);
  expect_layer("Bias", "bias_param { axis: 2 }", {x, rows}, {}, test::combine(x, test::reshape(rows, {4, 1}), plus));
}

TEST_F(Caffe, Activations) {
  const Array x = test::map(random({2, 3, 4, 5}, 1), [](float v) { return 8 * v; });
  const auto expect_function = [&](const std::string& type, const std::string& parameters, float (*f)(float)) {
    expect_layer(type, parameters, {x}, {}, test::map(x, f));
  };
  expect_function("ReLU", "", [](float v) { return std::max(v, 0.0f); });
  expect_function("ReLU", "relu_param { negative_slope: 0.25 }", [](float v) { return v < 0 ? v / 4 : v; });
  expect_function("ReLU6", "", [](float v) { return std::min(std::max(v, 0.0f), 6.0f); });
  expect_function("Clip", "clip_param { min: -2 max: 3 }", [](float v) { return std::min(std::max(v, -2.0f), 3.0f); });
  expect_function("AbsVal", "", [](float v) { return std::fabs(v); });
  expect_function("Sigmoid", "", [](float v) { return 1 / (1 + std::exp(-v)); });
  expect_function("TanH", "", [](float v) { return std::tanh(v); });
  expect_function("Swish", "swish_param { beta: 0.5 }", [](float v) { return v / (1 + std::exp(-v / 2)); });
  expect_function("Power", "power_param { power: 2 scale: 0.5 shift: 1 }",
                  [](float v) { return (0.5f * v + 1) * (0.5f * v + 1); });
  expect_function("Power", "power_param { scale: -1 shift: 6 }", [](float v) { return 6 - v; });
  expect_function("Power", "", [](float v) { return v; });
  expect_function("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", [](float v) { return std::exp2(v / 2 + 1); });
  expect_function("Exp", "", [](float v) { return std::exp(v); });
  expect_function("Dropout", "", [](float v) { return v; });
  expect_function("Split", "", [](float v) { return v; });
}

TEST_F(Caffe, PReLU) {
  const Array x = random({2, 3, 4, 5}, 1), slope = random({3}, 2);
  expect_layer("PReLU", "", {x}, {slope}, test::generate(x.dims, [&](const Dims& i) {
                 return x.at(i) < 0 ? x.at(i) * slope.data[i[1]] : x.at(i);
               }));
  expect_layer("PReLU", "prelu_param { channel_shared: true }", {x}, {test::make({1}, {0.5f})},
               test::map(x, [](float v) { return v < 0 ? v / 2 : v; }));
}

TEST_F(Caffe, LrnAndSoftmax) {
  const Array x = random({2, 7, 3, 4}, 1);
  expect_layer("LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 k: 2 }", {x}, {},
               test::lrn(x, 5, 0.5f, 0.75f, 2));
  expect_layer("Softmax", "", {x}, {}, test::softmax(x, 1));
  expect_layer("Softmax", "softmax_param { axis: -1 }", {x}, {}, test::softmax(x, 3));
}

TEST_F(Caffe, ConcatAndEltwise) {
  const Array a = random({2, 3, 4, 5}, 1), b = random({2, 3, 4, 5}, 2), c = random({2, 3, 4, 5}, 3);
  expect_layer("Concat", "", {a, b}, {}, test::concat({a, b}, 1));
  expect_layer("Concat", "concat_param { axis: 2 }", {a, b, c}, {}, test::concat({a, b, c}, 2));
  expect_layer("Concat", "concat_param { concat_dim: 0 }", {a, b}, {}, test::concat({a, b}, 0));
  const Array sum = test::combine(a, b, std::plus<float>());
  expect_layer("Eltwise", "", {a, b}, {}, sum);
  expect_layer("Eltwise", "", {a, b, c}, {}, test::combine(sum, c, std::plus<float>()));
  expect_layer("Eltwise", "eltwise_param { operation: PROD }", {a, b}, {},
               test::combine(a, b, std::multiplies<float>()));
  expect_layer("Eltwise", "eltwise_param { coeff: 1 coeff: -1 }", {a, b}, {}, test::combine(a, b, std::minus<float>()));
  expect_layer("Eltwise", "eltwise_param { coeff: 2 coeff: 0.5 }", {a, b}, {},
               test::combine(a, b, [](float p, float q) { return 2 * p + q / 2; }));
}

TEST_F(Caffe, Shapes) {
  const Array x = random({2, 6, 4, 5}, 1);
  expect_layer("Flatten", "", {x}, {}, test::reshape(x, {2, 120}));
  expect_layer("Flatten", "flatten_param { axis: 1 end_axis: 2 }", {x}, {}, test::reshape(x, {2, 24, 5}));
  expect_layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 10 } }", {x}, {}, test::reshape(x, {2, 12, 10}));
  expect_layer("Reshape", "reshape_param { shape { dim: 2 dim: 3 } axis: 1 num_axes: 1 }", {x}, {},
               test::reshape(x, {2, 2, 3, 4, 5}));
  expect_layer("Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }", {x}, {},
               test::reshape(x, {2, 6, 4, 5, 1}));
  expect_layer("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", {x}, {},
               test::transpose(x, {0, 2, 3, 1}));
  expect_layer("Permute", "permute_param { order: 2 }", {x}, {}, test::transpose(x, {2, 0, 1, 3}));
  const Array parts = test::reshape(x, {2, 2, 3, 4, 5});
  expect_layer("ShuffleChannel", "shuffle_channel_param { group: 2 }", {x}, {},
               test::reshape(test::transpose(parts, {0, 2, 1, 3, 4}), {2, 6, 4, 5}));
}

TEST_F(Caffe, FunctionsOfElements) {
  const Array x = random({2, 3, 4, 5}, 1), y = random({2, 3, 4, 5}, 2);
  expect_layer("Log", "log_param { scale: 0.25 shift: 2 base: 10 }", {x}, {},
               test::map(x, [](float v) { return std::log10(v / 4 + 2); }));
  expect_layer("BNLL", "", {x}, {}, test::map(x, [](float v) { return std::log1p(std::exp(v)); }));
  expect_layer("ELU", "elu_param { alpha: 0.5 }", {x}, {},
               test::map(x, [](float v) { return v < 0 ? std::expm1(v) / 2 : v; }));
  expect_layer("Eltwise", "eltwise_param { operation: MAX }", {x, y}, {},
               test::combine(x, y, [](float a, float b) { return std::max(a, b); }));
}

// The mean over all dimensions from `axis` on.
Array means(const Array& x, size_t axis) {
  size_t n = 1;
  for (size_t d = axis; d < x.dims.size(); ++d) n *= x.dims[d];
  const Array rows = test::reshape(x, {x.data.size() / n, n});
  const Array ones = test::make({n, 1}, std::vector<float>(n, 1.0f / static_cast<float>(n)));
  return test::reshape(test::matmul(rows, ones), {x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis)});
}

TEST_F(Caffe, Reductions) {
  const Array x = random({2, 3, 4, 5}, 1);
  const auto times = [](float factor) { return [factor](float v) { return v * factor; }; };
  const Array absolute = test::map(x, [](float v) { return std::fabs(v); });
  const Array squares = test::map(x, [](float v) { return v * v; });
  expect_layer("Reduction", "", {x}, {}, test::map(means(x, 0), times(120)), 1e-4f);
  expect_layer("Reduction", "reduction_param { axis: 1 operation: ASUM coeff: 0.5 }", {x}, {},
               test::map(means(absolute, 1), times(30)), 1e-4f);
  expect_layer("Reduction", "reduction_param { axis: -2 operation: SUMSQ }", {x}, {},
               test::map(means(squares, 2), times(20)), 1e-4f);
  expect_layer("Reduction", "reduction_param { axis: 3 operation: MEAN }", {x}, {}, means(x, 3));
}

TEST_F(Caffe, Mvn) {
  const Array x = random({2, 3, 4, 5}, 1);
  for (const size_t axis : {size_t{1}, size_t{2}}) {
    const std::string across = axis == 1 ? "across_channels: true" : "";
    const Dims columns = axis == 1 ? Dims{2, 1, 1, 1} : Dims{2, 3, 1, 1};
    const Array centred = test::combine(x, test::reshape(means(x, axis), columns), std::minus<float>());
    expect_layer("MVN", "mvn_param { normalize_variance: false " + across + " }", {x}, {}, centred);
    const Array variance = means(test::map(centred, [](float v) { return v * v; }), axis);
    const Array divisor = test::map(test::reshape(variance, columns), [](float v) { return std::sqrt(v) + 0.5f; });
    expect_layer("MVN", "mvn_param { eps: 0.5 " + across + " }", {x}, {},
                 test::combine(centred, divisor, std::divides<float>()));
  }
}

TEST_F(Caffe, LrnWithinChannel) {
  const Array x = random({1, 2, 4, 5}, 1);
  test::Window window;
  window.kernel[0] = window.kernel[1] = 3;
  for (const size_t d : {0, 1}) window.begin[d] = window.end[d] = 1;
  const Array squares = test::average_pool(test::map(x, [](float v) { return v * v; }), window, true);
  const Array factors = test::map(squares, [](float v) { return std::pow(1 + 2 * v, -0.75f); });
  expect_layer("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 2 beta: 0.75 }", {x}, {},
               test::combine(x, factors, std::multiplies<float>()));
}

TEST_F(Caffe, Deconvolution) {
  const Array x = random({1, 2, 3, 4}, 1), w = random({2, 3, 3, 3}, 2), b = random({3}, 3);
  // The same as a convolution of the image with zeros between pixels, and mirrored weights.
  const Array spread = test::generate({1, 2, 9, 11}, [&](const Dims& i) {
    const bool pixel = i[2] % 2 == 0 && i[3] % 2 == 0 && i[2] >= 2 && i[3] >= 2 && i[2] <= 6 && i[3] <= 8;
    return pixel ? x.at({0, i[1], i[2] / 2 - 1, i[3] / 2 - 1}) : 0.0f;
  });
  const Array mirrored = test::generate({3, 2, 3, 3}, [&](const Dims& i) {
    return w.at({i[1], i[0], 2 - i[2], 2 - i[3]});
  });
  const Array whole = test::conv(spread, mirrored, b.data, {}, 1);
  expect_layer("Deconvolution", "convolution_param { num_output: 3 kernel_size: 3 stride: 2 }", {x}, {w, b}, whole);
  expect_layer("Deconvolution", "convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 }", {x}, {w, b},
               test::slice(whole, {0, 0, 1, 1}, {1, 3, 6, 8}));
}

TEST_F(Caffe, PartsAndCopies) {
  const Array x = random({2, 3, 5, 6}, 1), small = random({2, 3, 2, 4}, 2);
  expect_layer("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", {x, small}, {},
               test::slice(x, {0, 0, 1, 2}, {2, 3, 3, 6}));
  expect_layer("Crop", "crop_param { axis: -1 }", {x, small}, {}, test::slice(x, {0, 0, 0, 0}, {2, 3, 5, 4}));
  expect_layer("Tile", "tile_param { axis: 1 tiles: 2 }", {x}, {}, test::concat({x, x}, 1));
  const Array a = random({2, 3}, 3), y = random({2, 3, 5, 6}, 4);
  const Array product = test::combine(x, test::reshape(a, {2, 3, 1, 1}), std::multiplies<float>());
  expect_layer("Axpy", "", {a, x, y}, {}, test::combine(product, y, std::plus<float>()));
  const Array bias = random({3}, 5);
  expect_layer("Scale", "scale_param { axis: 0 bias_term: true }", {x, a}, {test::reshape(a, {2, 3})},
               test::combine(product, test::reshape(a, {2, 3, 1, 1}), std::plus<float>()));
  expect_layer("Interp", "interp_param { height: 3 width: 2 }", {test::make({1, 1, 2, 2}, {0, 1, 2, 3})}, {},
               test::make({1, 1, 3, 2}, {0, 1, 1, 2, 2, 3}));
  expect_layer("Interp", "interp_param { zoom_factor: 2 }", {test::make({1, 1, 1, 2}, {0, 2})}, {},
               test::make({1, 1, 1, 3}, {0, 1, 2}));
  expect_layer("Interp", "interp_param { shrink_factor: 2 }", {test::make({1, 1, 1, 3}, {0, 1, 2})}, {},
               test::make({1, 1, 1, 2}, {0, 2}));
}

TEST_F(Caffe, ArgMax) {
  const Array x = test::make({1, 3, 1, 2}, {5, 0, 3, 7, 4, 6});
  expect_layer("ArgMax", "argmax_param { axis: 1 }", {x}, {}, test::make({1, 1, 1, 2}, {0, 1}));
  expect_layer("ArgMax", "argmax_param { axis: 1 top_k: 2 out_max_val: true }", {x}, {},
               test::make({1, 2, 1, 2}, {5, 7, 4, 6}));
  expect_layer("ArgMax", "argmax_param { top_k: 2 }", {x}, {}, test::make({1, 1, 2, 1}, {3, 5}));
  expect_layer("ArgMax", "argmax_param { out_max_val: true }", {x}, {}, test::make({1, 2, 1, 1}, {3, 7}));
  // Of equal elements the last comes first.
  expect_layer("ArgMax", "argmax_param { axis: 1 top_k: 3 }", {test::make({1, 6}, {1, 3, 2, 3, 3, 0})}, {},
               test::make({1, 3}, {4, 3, 1}));
}

TEST_F(Caffe, Normalize) {
  const Array x = random({2, 3, 4, 5}, 1), scale = random({3}, 2);
  const Array squares = test::map(x, [](float v) { return v * v; });
  const auto expected = [&](const Array& sums, const Array& factors) {
    const Array norms = test::map(sums, [](float v) { return std::sqrt(v + 1e-10f); });
    return test::combine(test::combine(x, norms, std::divides<float>()), factors, std::multiplies<float>());
  };
  const Array of_pixels = test::generate({2, 1, 4, 5}, [&](const Dims& i) {
    float sum = 0;
    for (size_t c = 0; c < 3; ++c) sum += squares.at({i[0], c, i[2], i[3]});
    return sum;
  });
  const Array of_images = test::map(test::reshape(means(squares, 1), {2, 1, 1, 1}), [](float v) { return v * 60; });
  const Array channels = test::reshape(scale, {1, 3, 1, 1}), one = test::make({1}, {0.5f});
  expect_layer("Normalize", "norm_param { across_spatial: false channel_shared: false scale_filler { value: 20 } }",
               {x}, {scale}, expected(of_pixels, channels));
  expect_layer("Normalize", "norm_param { across_spatial: false }", {x}, {one}, expected(of_pixels, one));
  expect_layer("Normalize", "", {x}, {one}, expected(of_images, one));
}

TEST_F(Caffe, PriorBox) {
  const Array features = random({1, 2, 1, 2}, 1), image = random({1, 3, 8, 16}, 2);
  // Boxes of 4 x 4, of the root of 4 * 9, and of ratios 4 and 1 / 4, around (4, 4) and (12, 4).
  Array want = {{1, 2, 32}, {}};
  for (const float x : {4.0f, 12.0f}) {
    for (const auto& [width, height] : {std::pair{4.0f, 4.0f}, {6.0f, 6.0f}, {8.0f, 2.0f}, {2.0f, 8.0f}}) {
      for (const float place :
           {(x - width / 2) / 16, (4 - height / 2) / 8, (x + width / 2) / 16, (4 + height / 2) / 8}) {
        want.data.push_back(place);
      }
    }
  }
  want.data.resize(64, 0.1f);
  const std::string sizes = "prior_box_param { min_size: 4 max_size: 9 aspect_ratio: 4 aspect_ratio: 1 ";
  expect_layer("PriorBox", sizes + "}", {features, image}, {}, want);
  expect_layer("PriorBox", "prior_box_param { min_size: 4.9 max_size: 9.9 aspect_ratio: 4 }", {features, image}, {},
               want);
  Array clipped = want;
  for (size_t i = 0; i < 32; ++i) clipped.data[i] = std::clamp(clipped.data[i], 0.0f, 1.0f);
  for (size_t i = 32; i < 64; ++i) clipped.data[i] = i % 4 < 2 ? 0.25f : 0.5f;
  expect_layer("PriorBox",
               sizes + "step_h: 8 step_w: 8 clip: true variance: 0.25 variance: 0.25 variance: 0.5 variance: 0.5 }",
               {features, image}, {}, clipped);
  const auto refused = [&](const std::string& parameters) {
    return refusal(one_layer({features.dims, image.dims}, "PriorBox", "prior_box_param { " + parameters + " }"));
  };
  EXPECT_NE(refused("").find("min_size is missing"), std::string::npos);
  EXPECT_NE(refused("min_size: 4 max_size: 4").find("max_size is not above"), std::string::npos);
  EXPECT_NE(refused("min_size: 4 step: 0").find("step is not positive"), std::string::npos);
  EXPECT_NE(refused("min_size: 4 step: 1 step_h: 2").find("step is given in two forms"), std::string::npos);
  EXPECT_NE(refused("min_size: 4 variance: 1 variance: 1").find("variance has neither"), std::string::npos);
}

TEST_F(Caffe, DetectionOutput) {
  const Array offsets = test::make({1, 8}, std::vector<float>(8, 0)),
              scores = test::make({1, 4}, {0.25f, 0.75f, 0.5f, 0.5f});
  const Array priors = test::make({1, 2, 8}, {0, 0, 0.5f, 0.5f, 0.5f, 0.5f, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  const std::string text =
      "detection_output_param { num_classes: 2 nms_param { nms_threshold: 0.5 top_k: 9 } visualize: true ";
  const std::vector<float> first = {0, 1, 0.75f, 0, 0, 0.5f, 0.5f}, second = {0, 1, 0.5f, 0.5f, 0.5f, 1, 1};
  std::vector<float> rows = first;
  rows.insert(rows.end(), second.begin(), second.end());
  expect_layer("DetectionOutput", text + "}", {offsets, scores, priors}, {}, test::make({1, 1, 2, 7}, rows));
  rows.resize(21, 0);
  expect_layer("DetectionOutput", text + "keep_top_k: 3 code_type: CENTER_SIZE }", {offsets, scores, priors}, {},
               test::make({1, 1, 3, 7}, rows));
  expect_layer("DetectionOutput", text + "confidence_threshold: 0.9 }", {offsets, scores, priors}, {},
               test::make({1, 1, 1, 7}, {0, -1, -1, -1, -1, -1, -1}));
  const std::string net = one_layer({offsets.dims, scores.dims, priors.dims}, "DetectionOutput", "");
  EXPECT_NE(refusal(net).find("num_classes is missing"), std::string::npos);
}

TEST_F(Caffe, RegionsOfInterest) {
  const Array x = test::make({1, 4, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), region = test::make({1, 5}, {0, 0, 0, 2, 0});
  expect_layer("ROIPooling", "roi_pooling_param { pooled_h: 1 pooled_w: 2 spatial_scale: 0.5 }", {x, region}, {},
               test::make({1, 4, 1, 2}, x.data));
  expect_layer("PSROIPooling", "psroi_pooling_param { spatial_scale: 0.5 output_dim: 4 group_size: 1 }",
               {x, test::make({1, 5, 1, 1}, {0, 0, 0, 3, 1})}, {}, test::make({1, 4, 1, 1}, {0.5f, 2.5f, 4.5f, 6.5f}));
}

TEST_F(Caffe, SliceHasOneOutputPerPart) {
  const Array x = random({2, 3, 7, 6}, 1);
  const std::string head = std::string(input_2x3x7x6) + "layer { name: \"s\" type: \"Slice\" bottom: \"x\" ";
  std::vector<Array> got =
      test::run(import(head + "top: \"p\" top: \"q\" slice_param { axis: 2 slice_point: 3 } }"), {x});
  ASSERT_EQ(got.size(), 2u);
  expect_near(got[0], test::slice(x, {0, 0, 0, 0}, {2, 3, 3, 6}));
  expect_near(got[1], test::slice(x, {0, 0, 3, 0}, {2, 3, 7, 6}));
  got = test::run(import(head + "top: \"p\" top: \"q\" top: \"r\" }"), {x});
  ASSERT_EQ(got.size(), 3u);
  expect_near(got[2], test::slice(x, {0, 2, 0, 0}, {2, 3, 7, 6}));
}

// What is imported at one size and run at another is what is imported at that size, or refused.
TEST_F(Caffe, ShapesFollowTheInput) {
  const struct {
    const char *type, *parameters;
  } follow[] = {
      {"Flatten", ""},
      {"Flatten", "flatten_param { axis: 1 end_axis: 2 }"},
      {"Flatten", "flatten_param { axis: 0 end_axis: 1 }"},
      {"Reshape", "reshape_param { shape { dim: 2 dim: 3 } axis: 1 num_axes: 1 }"},
      {"Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }"},
      {"Reshape", "reshape_param { shape { dim: 1 dim: 1 } axis: 0 num_axes: 0 }"},
      {"Slice", "slice_param { axis: 2 slice_point: 3 }  top: \"z\""},
      {"ArgMax", "argmax_param { axis: 1 }"},
      {"Interp", "interp_param { height: 3 width: 2 }"},
      {"LRN", "lrn_param { norm_region: WITHIN_CHANNEL }"},
      {"Reduction", "reduction_param { axis: 1 operation: MEAN }"},
      {"Tile", "tile_param { axis: 2 tiles: 3 }"},
  };
  const Array small = random({2, 6, 4, 5}, 1), large = random({3, 6, 7, 8}, 2);
  for (const auto& c : follow) {
    SCOPED_TRACE(std::string(c.type) + " " + c.parameters);
    const std::string net = one_layer({small.dims}, c.type, c.parameters);
    const Array want = test::run(import(one_layer({large.dims}, c.type, c.parameters)), {large}).at(0);
    expect_near(test::run(import(net), {large}).at(0), want);
  }
  const std::string halves = one_layer({small.dims}, "Slice", "slice_param { axis: 2 } top: \"z\"");
  EXPECT_EQ(error_of([&] { test::run(import(halves), {large}); }),
            "input 'a': expected size 4 in dimension 2, for which node 'l' of the source was converted, got 7");
}

TEST_F(Caffe, PriorsFollowTheImage) {
  const auto net = [](const std::string& size) {
    return "input: \"x\" input_dim: 1 input_dim: 2 input_dim: " + size + " input_dim: 8\n" +
           "layer { name: \"p\" type: \"Pooling\" bottom: \"x\" top: \"p\" pooling_param { kernel_size: 2 stride: 2 } "
           "}\n"
           "layer { name: \"b\" type: \"PriorBox\" bottom: \"p\" bottom: \"x\" top: \"b\" prior_box_param { min_size: "
           "2 } }";
  };
  const Array large = random({3, 2, 6, 8}, 1);
  const Array want = test::run(import(net("6")), {large}).at(0);
  EXPECT_EQ(want.dims, (Dims{1, 2, 48}));
  expect_near(test::run(import(net("4")), {large}).at(0), want);
}

}  // namespace caffe_test
}  // namespace quern::test

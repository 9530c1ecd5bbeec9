// Imports TensorFlow Lite's operators that compute: convolution, pooling, activations, arithmetic.
#include <algorithm>
#include <cmath>

#include "convert/common/fold.h"
#include "convert/common/layers.h"
#include "convert/tflite/node.h"

namespace quern::tflite {
namespace {

// ---- windows ----------------------------------------------------------------------------------

size_t at_least_1(const TfliteNode& node, int32_t number, const char* what) {
  if (number < 1) node.fail(std::string(what) + " is out of range");
  return static_cast<size_t>(number);
}

// Sets the padding for an image N, C, H, W.
void pad_window(const TfliteNode& node, const View& x, schema::Padding padding, Attributes* a) {
  if (padding == schema::Padding::valid) return;
  if (padding != schema::Padding::same) node.fail("padding is neither SAME nor VALID");
  pad_same(node.builder, x, a);
}

// The scales of a bias are the products of those of input and weights.
Value bias_of_products(const TfliteNode& node, size_t input) {
  if (!node.has(input)) return {};
  const Value& bias = node.value(input);
  if (is_float(bias.type)) return node.constant(input);
  if (bias.type != ElementType::s32) throw Unsupported{"a bias that is neither of floats nor of int32"};
  Scales s = node.scales(1);
  const Scales x = node.scales(0);
  if (x.scales.size() != 1 || s.scales.empty()) node.fail("a bias of integers beside real numbers");
  for (float& scale : s.scales) scale *= x.scales[0];
  s.zero_points.clear();
  s.axis = 0;
  return dequantized(node, input, s);
}

// A convolution of x by weights O, I, kh, kw, of which `kept` is that order in the file's order of dimensions.
template <class Options>
Values convolution(const TfliteNode& node, const Options& o, const Order& order, size_t groups) {
  Builder& builder = node.builder;
  const View x = node.image(0);
  Value weights = node.real(1);
  if (!builder.is_constant(weights.view)) throw Unsupported{"weights that are not constant"};
  if (weights.view.rank() != 4) node.fail("the weights do not have four dimensions");
  weights.view = builder.permute(weights.view, order);
  for (View& part : weights.quantized) part = builder.permute(part, order);
  const Shape w = builder.shape(weights.view), shape = builder.shape(x);
  Attributes a;
  a.kernel = {w[2], w[3]};
  a.stride = {at_least_1(node, o.stride_h(), "stride_h"), at_least_1(node, o.stride_w(), "stride_w")};
  a.dilation = {at_least_1(node, o.dilation_h(), "dilation_h"), at_least_1(node, o.dilation_w(), "dilation_w")};
  a.groups = groups != 0 ? groups : std::max<size_t>(shape[1] / std::max<size_t>(w[1], 1), 1);
  if (w[1] * a.groups != shape[1] || w[0] % a.groups != 0) {
    node.fail(std::to_string(shape[1]) + " channels and weights for " + std::to_string(w[1]) + " do not fit");
  }
  pad_window(node, x, o.padding(), &a);
  const Value bias = bias_of_products(node, 2);
  if (bias.view && builder.shape(bias.view) != Shape{w[0]}) node.fail("the bias does not fit the weights");
  const auto [input, kept] = convolution_factors(node, x, weights, &a);
  const View y = builder.conv2d(node.name, input, kept, bias_for(kept, weights, bias), a);
  return {node.image_result(y, o.activation())};
}

// Weights O, kh, kw, I.
Values conv_2d(const TfliteNode& node) {
  return convolution(node, node.options<schema::Conv2DOptions>(), {0, 3, 1, 2}, 0);
}

// Weights 1, kh, kw, O.
Values depthwise_conv_2d(const TfliteNode& node) {
  const View x = node.image(0);
  return convolution(node, node.options<schema::DepthwiseConv2DOptions>(), {3, 0, 1, 2}, node.builder.shape(x)[1]);
}

// The window of a pooling of x.
Attributes window_of(const TfliteNode& node, const View& x) {
  const auto& o = node.options<schema::Pool2DOptions>();
  Attributes a;
  a.kernel = {at_least_1(node, o.filter_h(), "filter_h"), at_least_1(node, o.filter_w(), "filter_w")};
  a.stride = {at_least_1(node, o.stride_h(), "stride_h"), at_least_1(node, o.stride_w(), "stride_w")};
  pad_window(node, x, o.padding(), &a);
  return a;
}

Values pool(const TfliteNode& node, OpKind kind) {
  const auto& o = node.options<schema::Pool2DOptions>();
  const View x = node.image(0);
  Attributes a = window_of(node, x);
  if (kind == OpKind::average_pool && node.keeps_bytes()) {
    a.pool_rounding = node.value(0).type == ElementType::u8 ? QN_POOL_ROUND_U8 : QN_POOL_ROUND_S8;
  }
  return {node.image_result(node.builder.pool(kind, node.name, x, a), o.activation())};
}
Values average_pool_2d(const TfliteNode& node) { return pool(node, OpKind::average_pool); }
Values max_pool_2d(const TfliteNode& node) { return pool(node, OpKind::max_pool); }

// The root of the average square.
Values l2_pool_2d(const TfliteNode& node) {
  const auto& o = node.options<schema::Pool2DOptions>();
  Builder& builder = node.builder;
  const View x = builder.power(node.name + "/square", node.image(0), 1, 0, 2);
  const View y = builder.pool(OpKind::average_pool, node.name + "/average", x, window_of(node, x));
  return {node.image_result(builder.power(node.name, y, 1, 0, 0.5f), o.activation())};
}

Values reduce(const TfliteNode& node, OpKind kind) {
  const bool keep = node.options<schema::ReducerOptions>().keep_dims();
  return {node.result(reduced(node, kind, node.real_view(0), node.integers(1).values, keep))};
}
Values mean(const TfliteNode& node) { return reduce(node, OpKind::global_average_pool); }
Values reduce_max(const TfliteNode& node) { return reduce(node, OpKind::global_max_pool); }

Values local_response_normalization(const TfliteNode& node) {
  const auto& o = node.options<schema::LocalResponseNormalizationOptions>();
  const size_t radius = at_least_1(node, o.radius(), "radius"), size = 2 * radius + 1;
  const float alpha = node.finite(o.alpha(), "alpha") * static_cast<float>(size);  // ours is divided by the size
  const View y = node.builder.lrn(node.name, node.image(0), size, alpha, node.finite(o.beta(), "beta"),
                                  node.finite(o.bias(), "bias"));
  return {node.image_result(y)};
}

template <class Options>
Values resize(const TfliteNode& node, qn_resize_kind mode) {
  const auto& o = node.options<Options>();
  const Attributes a = resize_attributes(node, mode, o.align_corners(), o.half_pixel_centers(), 1);
  return {node.image_result(node.builder.resize(node.name, node.image(0), a))};
}
Values resize_bilinear(const TfliteNode& node) {
  return resize<schema::ResizeBilinearOptions>(node, QN_RESIZE_BILINEAR);
}
Values resize_nearest_neighbor(const TfliteNode& node) {
  return resize<schema::ResizeNearestNeighborOptions>(node, QN_RESIZE_NEAREST);
}

// ---- products ---------------------------------------------------------------------------------

// x times weights O, I. Without keep_num_dims, all dimensions but I are one.
Values fully_connected(const TfliteNode& node) {
  const auto& o = node.options<schema::FullyConnectedOptions>();
  if (o.weights_format() != 0) throw Unsupported{"shuffled weights"};
  Builder& builder = node.builder;
  View x = node.real_view(0);
  const Value weights = node.real(1);
  if (!builder.is_constant(weights.view)) throw Unsupported{"weights that are not constant"};
  if (weights.view.rank() != 2) node.fail("expected 2-D weights, got rank " + std::to_string(weights.view.rank()));
  const Shape w = builder.shape(weights.view);
  if (w[1] == 0 || builder.elements(x) % w[1] != 0) node.fail("the input does not fit the weights");
  const bool fits = x.rank() > 0 && builder.shape(x).back() == w[1];
  if (o.keep_num_dims() && !fits) node.fail("the input does not fit the weights");
  if (!fits || (x.rank() != 2 && !o.keep_num_dims())) {
    x = builder.reshape(node.name + "/rows", x, {-1, static_cast<int64_t>(w[1])});
  }
  const Value bias = bias_of_products(node, 2);
  if (bias.view && builder.shape(bias.view) != Shape{w[0]}) node.fail("the bias does not fit the weights");
  const auto [input, kept] = factors(node, x, x.rank() - 1, 1, weights, 1);
  return {node.result(builder.fully_connected(node.name, input, kept, bias_for(kept, weights, bias)), o.activation())};
}

// ---- functions of one number ------------------------------------------------------------------

Values unary(const TfliteNode& node, OpKind kind) {
  return {node.result(node.builder.unary(kind, node.name, node.real_view(0)))};
}
Values logistic(const TfliteNode& node) { return unary(node, OpKind::sigmoid); }
Values tanh(const TfliteNode& node) { return unary(node, OpKind::tanh); }
Values hard_swish(const TfliteNode& node) { return unary(node, OpKind::hard_swish); }
Values exp(const TfliteNode& node) { return unary(node, OpKind::exp); }

Values clamped(const TfliteNode& node, float min, float max) {
  return {node.result(node.builder.clamp(node.name, node.real_view(0), min, max))};
}
Values relu(const TfliteNode& node) { return clamped(node, 0, infinity); }
Values relu6(const TfliteNode& node) { return clamped(node, 0, 6); }
Values relu_n1_to_1(const TfliteNode& node) { return clamped(node, -1, 1); }
Values relu_0_to_1(const TfliteNode& node) { return clamped(node, 0, 1); }

Values power_of(const TfliteNode& node, float scale, float power) {
  return {node.result(node.builder.power(node.name, node.real_view(0), scale, 0, power))};
}
Values neg(const TfliteNode& node) { return power_of(node, -1, 1); }
Values sqrt(const TfliteNode& node) { return power_of(node, 1, 0.5f); }
Values rsqrt(const TfliteNode& node) { return power_of(node, 1, -0.5f); }
Values square(const TfliteNode& node) { return power_of(node, 1, 2); }
Values pow(const TfliteNode& node) {
  const std::vector<float> exponent = node.real_numbers(1);
  if (exponent.size() != 1) throw Unsupported{"exponent is not one number"};
  return power_of(node, 1, node.finite_or_general(exponent[0], "exponent"));
}

Values abs(const TfliteNode& node) { return {node.result(node.builder.leaky_relu(node.name, node.real_view(0), -1))}; }

Values leaky_relu(const TfliteNode& node) {
  const float slope = node.finite(node.options<schema::LeakyReluOptions>().alpha(), "alpha");
  return {node.result(node.builder.leaky_relu(node.name, node.real_view(0), slope))};
}

Values prelu(const TfliteNode& node) {
  size_t axis;
  const View x = node.real_view(0), slope = node.real_view(1);
  if (!node.builder.is_constant(slope) || !node.builder.along_axis(x, slope, &axis)) {
    throw Unsupported{"slope is not per channel"};
  }
  return {node.result(node.builder.prelu(node.name, x, node.real_numbers(1), axis))};
}

Values softmax(const TfliteNode& node) {
  const float beta = node.finite(node.options<schema::SoftmaxOptions>().beta(), "beta");
  View x = node.real_view(0);
  if (x.rank() == 0) node.fail("the input is a scalar");
  if (beta != 1) x = node.builder.power(node.name + "/beta", x, beta, 0, 1);
  return {node.result(node.builder.softmax(node.name, x, x.rank() - 1))};
}

// ---- arithmetic -------------------------------------------------------------------------------

// Arithmetic on integers and constants is done at import.
Values binary(const TfliteNode& node, OpKind kind, schema::Activation activation) {
  if (node.is_integer(0) && node.is_integer(1) && node.scales(0).scales.empty()) return {arithmetic(node, kind)};
  return {node.result(node.builder.binary(kind, node.name, node.real_view(0), node.real_view(1)), activation)};
}
Values add(const TfliteNode& node) {
  return binary(node, OpKind::add, node.options<schema::AddOptions>().activation());
}
Values sub(const TfliteNode& node) {
  return binary(node, OpKind::sub, node.options<schema::SubOptions>().activation());
}
Values mul(const TfliteNode& node) {
  return binary(node, OpKind::mul, node.options<schema::MulOptions>().activation());
}
Values div(const TfliteNode& node) {
  return binary(node, OpKind::div, node.options<schema::DivOptions>().activation());
}

Values add_n(const TfliteNode& node) {
  std::vector<View> terms;
  for (size_t i = 0; i < node.input_count(); ++i) terms.push_back(node.real_view(i));
  return {node.result(sum_of(node, terms))};
}

Values squared_difference(const TfliteNode& node) {
  const View d = node.builder.binary(OpKind::sub, node.name + "/difference", node.real_view(0), node.real_view(1));
  return {node.result(node.builder.power(node.name, d, 1, 0, 2))};
}

// With one constant number, these are a clamp; we have no operator for two tensors.
Values bounded(const TfliteNode& node, bool below) {
  const size_t number = node.is_constant(0) ? 0 : 1;
  if (!node.is_constant(number)) throw Unsupported{"of two computed tensors"};
  const std::vector<float> limit = node.real_numbers(number);
  if (limit.size() != 1) throw Unsupported{"of two tensors"};
  if (limit[0] == (below ? infinity : -infinity) || std::isnan(limit[0])) throw Unsupported{"a bound is not a number"};
  const View x = node.real_view(1 - number);
  return {node.result(node.builder.clamp(node.name, x, below ? limit[0] : -infinity, below ? infinity : limit[0]))};
}
Values maximum(const TfliteNode& node) { return bounded(node, true); }
Values minimum(const TfliteNode& node) { return bounded(node, false); }

// ---- quantized numbers ------------------------------------------------------------------------

// Real numbers of any type become those of the output's.
Values converted(const TfliteNode& node) { return {node.result(node.real_view(0))}; }

}  // namespace

const TfliteRow* find_layer(const std::string& type) {
  static const TfliteTable kinds = {
      {"ABS", {abs, 1, 1}},
      {"ADD", {add, 2, 2}},
      {"ADD_N", {add_n, 1, many_inputs}},
      {"AVERAGE_POOL_2D", {average_pool_2d, 1, 1}},
      {"CONV_2D", {conv_2d, 2, 3}},
      {"DEPTHWISE_CONV_2D", {depthwise_conv_2d, 2, 3}},
      {"DEQUANTIZE", {converted, 1, 1}},
      {"DIV", {div, 2, 2}},
      {"EXP", {exp, 1, 1}},
      {"FULLY_CONNECTED", {fully_connected, 2, 3}},
      {"HARD_SWISH", {hard_swish, 1, 1}},
      {"L2_POOL_2D", {l2_pool_2d, 1, 1}},
      {"LEAKY_RELU", {leaky_relu, 1, 1}},
      {"LOCAL_RESPONSE_NORMALIZATION", {local_response_normalization, 1, 1}},
      {"LOGISTIC", {logistic, 1, 1}},
      {"MAXIMUM", {maximum, 2, 2}},
      {"MAX_POOL_2D", {max_pool_2d, 1, 1}},
      {"MEAN", {mean, 2, 2}},
      {"MINIMUM", {minimum, 2, 2}},
      {"MUL", {mul, 2, 2}},
      {"NEG", {neg, 1, 1}},
      {"POW", {pow, 2, 2}},
      {"PRELU", {prelu, 2, 2}},
      {"QUANTIZE", {converted, 1, 1}},
      {"REDUCE_MAX", {reduce_max, 2, 2}},
      {"RELU", {relu, 1, 1}},
      {"RELU6", {relu6, 1, 1}},
      {"RELU_0_TO_1", {relu_0_to_1, 1, 1}},
      {"RELU_N1_TO_1", {relu_n1_to_1, 1, 1}},
      {"RESIZE_BILINEAR", {resize_bilinear, 2, 2}},
      {"RESIZE_NEAREST_NEIGHBOR", {resize_nearest_neighbor, 2, 2}},
      {"RSQRT", {rsqrt, 1, 1}},
      {"SOFTMAX", {softmax, 1, 1}},
      {"SQRT", {sqrt, 1, 1}},
      {"SQUARE", {square, 1, 1}},
      {"SQUARED_DIFFERENCE", {squared_difference, 2, 2}},
      {"SUB", {sub, 2, 2}},
      {"TANH", {tanh, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::tflite

// Imports TensorFlow's operators that compute: convolution, pooling, activations, arithmetic.
#include <algorithm>
#include <cmath>

#include "convert/common/fold.h"
#include "convert/common/layers.h"
#include "convert/common/quantized.h"
#include "convert/tensorflow/node.h"

namespace quern::tensorflow {
namespace {

// ---- windows ----------------------------------------------------------------------------------

// Reads height and width from a list with one number for each dimension of an image.
qn_hw height_width(const TfNode& node, const char* attribute) {
  const std::vector<int64_t> list = node.integer_list(attribute);
  if (list.size() != 4) node.fail(std::string(attribute) + " are not four numbers");
  for (const int64_t x : list) {
    if (x < 1 || x > INT32_MAX) node.fail(std::string(attribute) + " are out of range");
  }
  const size_t h = node.channels_first() ? 2 : 1, channels = node.channels_first() ? 1 : 3;
  if (list[0] != 1 || list[channels] != 1)
    throw Unsupported{std::string(attribute) + " of other than height and width"};
  return {static_cast<size_t>(list[h]), static_cast<size_t>(list[h + 1])};
}

qn_padding explicit_padding(const TfNode& node, const std::vector<int64_t>& pads) {
  if (pads.size() != 8) node.fail("explicit_paddings are not eight numbers");
  for (const int64_t x : pads) {
    if (x < 0 || x > INT32_MAX) node.fail("explicit_paddings are out of range");
  }
  const size_t h = node.channels_first() ? 4 : 2, c = node.channels_first() ? 2 : 6;
  if (pads[0] + pads[1] + pads[c] + pads[c + 1] != 0) throw Unsupported{"padding of other than height and width"};
  const auto at = [&](size_t i) { return static_cast<size_t>(pads[h + i]); };
  return {at(0), at(2), at(1), at(3)};
}

// Reads strides, dilations and padding of a window on an image N, C, H, W.
Attributes window(const TfNode& node, const View& x, qn_hw kernel) {
  Attributes a;
  a.kernel = kernel;
  a.stride = height_width(node, "strides");
  if (!node.integer_list("dilations").empty()) a.dilation = height_width(node, "dilations");
  const std::string padding = node.text("padding");
  const std::vector<int64_t> pads = node.integer_list("explicit_paddings");
  if (padding == "SAME") {
    const Shape shape = node.builder.shape(x);
    a.same_padding = SamePadding::odd_pixel_last;
    same_padding(a.same_padding, shape[2], kernel.h, a.stride.h, a.dilation.h, &a.padding.top, &a.padding.bottom);
    same_padding(a.same_padding, shape[3], kernel.w, a.stride.w, a.dilation.w, &a.padding.left, &a.padding.right);
  } else if (padding == "EXPLICIT") {
    a.padding = explicit_padding(node, pads);
  } else if (padding != "VALID") {
    node.fail("padding is '" + padding + "'");
  }
  if (padding != "EXPLICIT" && !pads.empty()) node.fail("explicit_paddings beside padding " + padding);
  return a;
}

// ---- convolutions -----------------------------------------------------------------------------

// Returns constant weights kh, kw, I, O as O, I, kh, kw.
View weights_of(const TfNode& node, size_t input) {
  const View& w = node.constant(input);
  if (w.rank() != 4) node.fail("the weights do not have four dimensions");
  return node.builder.permute(w, {3, 2, 0, 1});
}

// The same of a depthwise convolution, whose weights are kh, kw, C, M: M outputs for each channel.
View depthwise_weights_of(const TfNode& node, size_t input) {
  const View& w = node.constant(input);
  if (w.rank() != 4) node.fail("the weights do not have four dimensions");
  const Shape shape = node.builder.shape(w);
  const auto kh = static_cast<int64_t>(shape[0]), kw = static_cast<int64_t>(shape[1]);
  return node.builder.reshape("", node.builder.permute(w, {2, 3, 0, 1}), {-1, 1, kh, kw});
}

View convolution(const TfNode& node, const View& x, const View& weights, Attributes a) {
  const Shape w = node.builder.shape(weights), shape = node.builder.shape(x);
  if (w[1] == 0) node.fail("the weights have no elements");
  a.groups = std::max<size_t>(shape[1] / w[1], 1);
  if (w[1] * a.groups != shape[1] || w[0] % a.groups != 0) {
    node.fail(std::to_string(shape[1]) + " channels and weights for " + std::to_string(w[1]) + " do not fit");
  }
  return node.builder.conv2d(node.name, x, weights, {}, a);
}

Values convolution(const TfNode& node, const View& weights) {
  const View x = node.image(0);
  const Shape w = node.builder.shape(weights);
  return {node.image_result(convolution(node, x, weights, window(node, x, {w[2], w[3]})))};
}
Values conv_2d(const TfNode& node) { return convolution(node, weights_of(node, 1)); }
Values depthwise_conv_2d(const TfNode& node) { return convolution(node, depthwise_weights_of(node, 1)); }

// How many pixels a convolution pads on one side that has been padded by `pad` before and is cropped by `crop` after.
size_t left_over(const TfNode& node, int64_t pad, int64_t crop) {
  if (pad < 0 || crop < 0 || pad > INT32_MAX) node.fail("paddings or crops are out of range");
  if (crop > pad) throw Unsupported{"crops that are larger than the paddings"};
  return static_cast<size_t>(pad - crop);
}

// SpaceToBatchND, a convolution and BatchToSpaceND, which together are a dilated convolution (graph.h). The attributes
// are those of the convolution. Inputs: image, weights, block and paddings, block and crops.
Values dilated(const TfNode& node, const View& weights) {
  if (node.channels_first()) throw Unsupported{"SpaceToBatchND around data_format NCHW"};
  if (node.text("padding") != "VALID") throw Unsupported{"SpaceToBatchND around padding " + node.text("padding")};
  const std::vector<int64_t>&block = node.integers(2).values, &pads = node.integers(3).values,
        &crops = node.integers(5).values;
  if (block.size() != 2 || pads.size() != 4 || crops.size() != 4)
    throw Unsupported{"blocks of other than two dimensions"};
  if (block != node.integers(4).values) throw Unsupported{"SpaceToBatchND and BatchToSpaceND of different blocks"};
  const View x = node.image(0);
  const Shape w = node.builder.shape(weights), shape = node.builder.shape(x);
  Attributes a = window(node, x, {w[2], w[3]});
  if (a.stride.h != 1 || a.stride.w != 1) throw Unsupported{"strides within SpaceToBatchND"};
  for (size_t d = 0; d < 2; ++d) {
    if (block[d] < 1 || block[d] > INT32_MAX) node.fail("a block is out of range");
    const auto size = static_cast<int64_t>(shape[d + 2]);
    left_over(node, pads[2 * d], 0);
    left_over(node, pads[2 * d + 1], 0);
    if ((size + pads[2 * d] + pads[2 * d + 1]) % block[d] != 0)
      node.fail("the padded image does not divide into blocks");
    node.fix(node.builder.symbol(x, d + 2));
  }
  a.dilation.h *= static_cast<size_t>(block[0]);
  a.dilation.w *= static_cast<size_t>(block[1]);
  a.padding = {left_over(node, pads[0], crops[0]), left_over(node, pads[2], crops[2]),
               left_over(node, pads[1], crops[1]), left_over(node, pads[3], crops[3])};
  return {node.image_result(convolution(node, x, weights, a))};
}
Values dilated_conv_2d(const TfNode& node) { return dilated(node, weights_of(node, 1)); }
Values dilated_depthwise_conv_2d(const TfNode& node) { return dilated(node, depthwise_weights_of(node, 1)); }

// ---- pooling, reductions ----------------------------------------------------------------------

Values pool(const TfNode& node, OpKind kind) {
  const View x = node.image(0);
  return {node.image_result(node.builder.pool(kind, node.name, x, window(node, x, height_width(node, "ksize"))))};
}
Values max_pool(const TfNode& node) { return pool(node, OpKind::max_pool); }
Values average_pool(const TfNode& node) {
  if (node.text("padding") == "EXPLICIT") node.fail("padding is neither SAME nor VALID");
  return pool(node, OpKind::average_pool);
}

View reduced(const TfNode& node, OpKind kind) {
  return convert::reduced(node, kind, node.view(0), node.integers(1).values, node.flag("keep_dims", false));
}
Values mean(const TfNode& node) { return {node.result(reduced(node, OpKind::global_average_pool))}; }
Values max(const TfNode& node) { return {node.result(reduced(node, OpKind::global_max_pool))}; }

// A mean times the number of its elements.
Values sum(const TfNode& node) {
  const View average = reduced(node, OpKind::global_average_pool);
  size_t count = 1;
  for (const int64_t axis : node.integers(1).values) {
    const size_t d = node.axis(axis, node.dims(0).size());
    count *= node.dims(0)[d];
    node.fix(node.dimension(0, d).symbol);
  }
  return {node.result(node.builder.power(node.name + "/count", average, static_cast<float>(count), 0, 1))};
}

// ---- normalization ----------------------------------------------------------------------------

// Inputs: x, scale, offset, mean, variance.
Values fused_batch_norm(const TfNode& node) {
  if (node.flag("is_training", true)) throw Unsupported{"is_training, so it computes the statistics of the batch"};
  node.ignore("exponential_avg_factor");  // only about training
  const size_t axis = node.channels_first() ? 1 : node.view(0).rank() - 1;
  if (node.view(0).rank() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(node.view(0).rank())};
  const Normalization n{node.floats(1), node.floats(2), node.floats(3), node.floats(4), node.number("epsilon", 1e-4f)};
  return {node.result(normalized(node, node.view(0), axis, n))};
}

// Inputs: x, mean, variance, beta, gamma.
Values batch_norm_with_global_normalization(const TfNode& node) {
  if (node.view(0).rank() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(node.view(0).rank())};
  Normalization n{node.floats(4), node.floats(3), node.floats(1), node.floats(2), node.number("variance_epsilon")};
  if (!node.flag("scale_after_normalization")) n.gamma.assign(n.gamma.size(), 1);
  return {node.result(normalized(node, node.view(0), 3, n))};
}

Values bias_add(const TfNode& node) {
  const View& x = node.view(0);
  const std::vector<float> bias = node.floats(1);
  if (x.rank() < 2) node.fail("the input has no channels");
  const size_t axis = node.channels_first() ? 1 : x.rank() - 1;
  if (bias.size() != node.builder.shape(x)[axis] || node.dims(1).size() != 1) node.fail("the bias does not fit");
  return {node.result(node.builder.scale(node.name, x, {1}, bias, axis))};
}

Values lrn(const TfNode& node) {
  const int64_t radius = node.integer("depth_radius", 5);
  if (radius < 0 || radius > INT32_MAX / 4) node.fail("depth_radius is out of range");
  const size_t size = 2 * static_cast<size_t>(radius) + 1;
  const float alpha = node.number("alpha", 1) * static_cast<float>(size);  // ours is divided by the size
  const View y =
      node.builder.lrn(node.name, node.image(0), size, alpha, node.number("beta", 0.5f), node.number("bias", 1));
  return {node.image_result(y)};
}

// ---- functions of one number ------------------------------------------------------------------

Values unary(const TfNode& node, OpKind kind) {
  return {node.result(node.builder.unary(kind, node.name, node.view(0)))};
}
Values sigmoid(const TfNode& node) { return unary(node, OpKind::sigmoid); }
Values tanh(const TfNode& node) { return unary(node, OpKind::tanh); }
Values exp(const TfNode& node) { return unary(node, OpKind::exp); }

Values clamped(const TfNode& node, float min, float max) {
  return {node.result(node.builder.clamp(node.name, node.view(0), min, max))};
}
Values relu(const TfNode& node) { return clamped(node, 0, infinity); }
Values relu6(const TfNode& node) { return clamped(node, 0, 6); }

// Roots of negative infinity and of negative zero are not what std::pow() makes of them.
float powered(float x, float power) {
  if (std::abs(power) != 0.5f) return static_cast<float>(std::pow(double{x}, double{power}));
  const double root = std::sqrt(double{x});
  return static_cast<float>(power < 0 ? 1 / root : root);
}

// (scale * x) ^ power. Of constants it is computed here: old graphs compute the scales of a normalization so.
Values power_of(const TfNode& node, float scale, float power) {
  if (node.is_constant(0) && !node.is_integer(0) && node.elements(0) <= fold_limit) {
    return {mapped(node, 0, [=](float x) { return powered(scale * x, power); })};
  }
  return {node.result(node.builder.power(node.name, node.view(0), scale, 0, power))};
}
Values neg(const TfNode& node) { return power_of(node, -1, 1); }
Values sqrt(const TfNode& node) { return power_of(node, 1, 0.5f); }
Values rsqrt(const TfNode& node) { return power_of(node, 1, -0.5f); }
Values square(const TfNode& node) { return power_of(node, 1, 2); }
// Other than by one constant number, it is a node of another kind (general/).
Values pow(const TfNode& node) {
  if (!node.is_constant(1) || node.elements(1) != 1) throw Unsupported{"by a tensor"};
  return power_of(node, 1, node.finite_or_general(node.scalar(1), "exponent"));
}

// x < 0 ? slope * x : x. For one slope, any dimension will do: the last in our order needs no transpose.
Values sloped(const TfNode& node, float slope) {
  const View& x = node.view(0);
  if (x.rank() == 0) throw Unsupported{"on a scalar"};
  return {node.result(node.builder.prelu(node.name, x, {slope}, x.order.back()))};
}
Values abs(const TfNode& node) { return sloped(node, -1); }
Values leaky_relu(const TfNode& node) { return sloped(node, node.number("alpha", 0.2f)); }

// factor * (x < 0 ? alpha * (e^x - 1) : x), from max(x, 0) and min(e^x, 1)
Values exponential(const TfNode& node, float factor, float alpha) {
  Builder& builder = node.builder;
  const std::string& name = node.name;
  View above = builder.clamp(name + "/above", node.view(0), 0, infinity);
  if (factor != 1) above = builder.power(name + "/factor", above, factor, 0, 1);
  const View e = builder.unary(OpKind::exp, name + "/exp", node.view(0));
  const View below =
      builder.power(name + "/below", builder.clamp(name + "/1", e, -infinity, 1), factor * alpha, -factor * alpha, 1);
  return {node.result(builder.binary(OpKind::add, name, above, below))};
}
Values elu(const TfNode& node) { return exponential(node, 1, 1); }
Values selu(const TfNode& node) { return exponential(node, 1.0507009873554805f, 1.6732632423543772f); }

// A choice by comparison with zero (graph.h). Inputs: x, slope, and the zero.
Values prelu(const TfNode& node) {
  const std::vector<float> slope = node.floats(1), zero = node.floats(2);
  const size_t rank = node.view(0).rank();
  if (zero.size() != 1 || zero[0] != 0 || node.dims(2).size() > rank) throw Unsupported{"by other than zero"};
  for (const float x : slope) node.finite(x, "a slope");
  if (slope.size() == 1 && node.dims(1).size() <= rank) return sloped(node, slope[0]);
  size_t axis;
  if (!node.builder.along_axis(node.view(0), node.constant(1), &axis)) throw Unsupported{"slope is not per channel"};
  return {node.result(node.builder.prelu(node.name, node.view(0), slope, axis))};
}

Values softmax(const TfNode& node) {
  const View& x = node.view(0);
  if (x.rank() == 0) node.fail("the input is a scalar");
  return {node.result(node.builder.softmax(node.name, x, x.rank() - 1))};
}

// ---- arithmetic -------------------------------------------------------------------------------

Values add(const TfNode& node) { return {arithmetic(node, OpKind::add)}; }
Values sub(const TfNode& node) { return {arithmetic(node, OpKind::sub)}; }
Values mul(const TfNode& node) { return {arithmetic(node, OpKind::mul)}; }
Values div(const TfNode& node) { return {arithmetic(node, OpKind::div)}; }

Values add_n(const TfNode& node) {
  std::vector<View> terms;
  for (size_t i = 0; i < node.input_count(); ++i) terms.push_back(node.view(i));
  return {node.result(sum_of(node, terms))};
}

Values squared_difference(const TfNode& node) {
  const View d = node.builder.binary(OpKind::sub, node.name + "/difference", node.view(0), node.view(1));
  return {node.result(node.builder.power(node.name, d, 1, 0, 2))};
}

// With one constant number, these are a clamp; we have no operator for two tensors.
Values bounded(const TfNode& node, bool below) {
  const auto is_number = [&](size_t input) { return node.is_constant(input) && node.elements(input) == 1; };
  const size_t number = is_number(1) ? 1 : 0;
  if (!is_number(number)) throw Unsupported{"of two tensors"};
  const float limit = node.scalar(number), min = below ? limit : -infinity, max = below ? infinity : limit;
  if (std::isnan(limit)) throw Unsupported{"a bound is not a number"};
  const size_t other = 1 - number;
  const View& x = node.view(other);
  if (node.dims(number).size() > x.rank()) throw Unsupported{"by a tensor of more dimensions"};
  if (node.is_constant(other) && node.elements(other) <= fold_limit) {
    return {mapped(node, other, [=](float f) { return std::clamp(f, min, max); })};
  }
  return {node.result(node.builder.clamp(node.name, x, min, max))};
}
Values maximum(const TfNode& node) { return bounded(node, true); }
Values minimum(const TfNode& node) { return bounded(node, false); }

// ---- products ---------------------------------------------------------------------------------

Values mat_mul(const TfNode& node) {
  const bool transpose_a = node.flag("transpose_a", false), transpose_b = node.flag("transpose_b", false);
  View x = node.view(0), w = node.constant(1);
  if (x.rank() != 2 || w.rank() != 2) node.fail("inputs are not matrices");
  if (transpose_a) x = node.builder.permute(x, {1, 0});
  if (!transpose_b) w = node.builder.permute(w, {1, 0});
  return {node.result(node.builder.fully_connected(node.name, x, w, {}))};
}

// The same constant matrix for all matrices of x.
Values batch_mat_mul(const TfNode& node) {
  for (const char* type : {"Ta", "Tb", "Tout"}) node.ignore(type);
  const bool adjoint_x = node.flag("adj_x", false), adjoint_y = node.flag("adj_y", false);
  View x = node.view(0), w = node.constant(1);
  if (x.rank() < 2 || w.rank() < 2) node.fail("inputs are not matrices");
  const Shape shape = node.builder.shape(w);
  const auto rows = static_cast<int64_t>(shape[w.rank() - 2]), columns = static_cast<int64_t>(shape[w.rank() - 1]);
  const bool is_one = std::all_of(shape.begin(), shape.end() - 2, [](size_t d) { return d == 1; });
  if (w.rank() > x.rank() || !is_one) throw Unsupported{"by several matrices"};
  if (w.rank() > 2) w = node.builder.reshape("", w, {rows, columns});
  if (adjoint_x) {
    Order order = source_order(x.rank());
    std::swap(order[x.rank() - 2], order[x.rank() - 1]);
    x = node.builder.permute(x, order);
  }
  if (!adjoint_y) w = node.builder.permute(w, {1, 0});
  return {node.result(node.builder.fully_connected(node.name, x, w, {}))};
}

// ---- resizing ---------------------------------------------------------------------------------

Values resize(const TfNode& node, qn_resize_kind mode) {
  const View& x = node.view(0);
  if (x.rank() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const Attributes a =
      resize_attributes(node, mode, node.flag("align_corners", false), node.flag("half_pixel_centers", false), 1);
  return {node.image_result(node.builder.resize(node.name, node.image(0), a))};
}
Values resize_bilinear(const TfNode& node) { return resize(node, QN_RESIZE_BILINEAR); }
Values resize_nearest_neighbor(const TfNode& node) { return resize(node, QN_RESIZE_NEAREST); }

// ---- numbers that are rounded as if they were quantized -----------------------------------------

// The steps to which numbers are rounded: whole multiples of `scale`, from `first` to `last` of them.
struct Steps {
  float scale;
  int64_t first, last;

  float low() const { return static_cast<float>(first) * scale; }
  float high() const { return static_cast<float>(last) * scale; }
};

// Moves the bounds so that zero is a step: with floats, as TensorFlow does, because bounds around zero alike put it in
// the middle of two steps.
Steps steps_between(const TfNode& node, float min, float max) {
  const int64_t bits = node.integer("num_bits", 8);
  if (bits < 2 || bits > 16) node.fail("num_bits are out of range");
  const int64_t lowest = node.flag("narrow_range", false) ? 1 : 0, highest = (int64_t{1} << bits) - 1;
  node.finite(min, "min");
  node.finite(max, "max");
  if (!(min < max) || min > 0 || max < 0) throw Unsupported{"bounds that are not around zero"};
  const auto low = static_cast<float>(lowest), high = static_cast<float>(highest);
  const float scale = (max - min) / (high - low);
  if (!(scale > 0 && std::isfinite(scale))) node.fail("the bounds are too close or too far apart");
  const auto at = static_cast<int64_t>(std::round(std::clamp(low - min / scale, low, high)));
  return {scale, lowest - at, highest - at};
}

float rounded(float x, const Steps& s) {
  const float steps = 1 / s.scale, zero = std::floor(-s.low() * steps + 0.5f);
  return std::floor((std::clamp(x, s.low(), s.high()) - s.low()) * steps - zero + 0.5f) * s.scale;
}

// Computed numbers become bytes and numbers again, so that layers can compute with the bytes. There, halves are rounded
// to even; TensorFlow rounds them up.
Values fake_quant(const TfNode& node, float min, float max) {
  const Steps s = steps_between(node, min, max);
  if (node.is_constant(0) && node.elements(0) <= fold_limit) {
    return {mapped(node, 0, [=](float x) { return rounded(x, s); })};
  }
  if (s.last - s.first > UINT8_MAX) throw Unsupported{"of more than 8 bits"};
  const View x = node.builder.clamp(node.name + "/clamp", node.view(0), s.low(), s.high());
  const auto zero = static_cast<int32_t>(INT8_MIN - s.first);
  const View bytes = node.builder.quantize(node.name + "/bytes", x, s.scale, zero);
  return {node.result(node.builder.dequantize(node.name, bytes))};
}
Values fake_quant_with_min_max_vars(const TfNode& node) { return fake_quant(node, node.scalar(1), node.scalar(2)); }
// Each channel of constant weights has bounds of its own.
Values fake_quant_with_min_max_vars_per_channel(const TfNode& node) {
  if (!node.is_constant(0) || node.elements(0) > fold_limit) throw Unsupported{"of other than constants"};
  std::vector<float> numbers = node.floats(0);
  const std::vector<float> min = node.floats(1), max = node.floats(2);
  if (numbers.empty()) throw Unsupported{"of no elements"};
  const Shape shape = node.dims(0);
  if (shape.empty() || min.size() != shape.back() || max.size() != min.size()) node.fail("the bounds do not fit");
  for (size_t c = 0; c < min.size(); ++c) {
    const Steps s = steps_between(node, min[c], max[c]);
    for (size_t i = c; i < numbers.size(); i += min.size()) numbers[i] = rounded(numbers[i], s);
  }
  return {node.result(node.builder.constant(shape, numbers.data()))};
}
Values fake_quant_with_min_max_args(const TfNode& node) {
  return fake_quant(node, node.number("min", -6), node.number("max", 6));
}

// ---- Dequantize: a quantized type stands for the real numbers between two bounds

// The integers of a quantized type.
struct Quantized {
  double lowest, highest;
};

Quantized quantized_type(schema::DataType type) {
  switch (type) {
    case schema::DT_QUINT8: return {0, UINT8_MAX};
    case schema::DT_QINT8: return {INT8_MIN, INT8_MAX};
    case schema::DT_QINT32: return {INT32_MIN, INT32_MAX};
    default: throw Unsupported{"of " + schema::DataType_Name(type)};
  }
}

// The real number of an integer x is scale * x + offset.
struct Mapping {
  float scale, offset;
};

Mapping mapping_of(const std::string& mode, const Quantized& type, bool narrow, float min, float max) {
  const double steps = type.highest - type.lowest;
  if (mode == "SCALED") {
    const double of_max = double{max} / type.highest;
    if (type.lowest == 0) return {static_cast<float>(of_max), 0};
    return {static_cast<float>(std::max(of_max, double{min} / (type.lowest + (narrow ? 1 : 0)))), 0};
  }
  const double scale = (double{max} - double{min}) / steps;
  if (mode == "MIN_COMBINED") {
    const double half = type.lowest == 0 ? 0 : (steps + 1) / 2;
    return {static_cast<float>(scale), static_cast<float>(half * scale + double{min})};
  }
  if (mode != "MIN_FIRST") throw Unsupported{"mode " + mode};
  const double first = scale == 0 ? double{min} : std::round(double{min} / scale) * scale;
  return {static_cast<float>(scale), static_cast<float>(first - type.lowest * scale)};
}

Values dequantize(const TfNode& node) {
  const Quantized type = quantized_type(node.type("T"));
  const std::string mode = node.text("mode", "MIN_COMBINED");
  const bool narrow = node.flag("narrow_range", false);
  if (node.type("dtype", schema::DT_FLOAT) != schema::DT_FLOAT) throw Unsupported{"to other than float"};
  const int64_t axis = node.integer("axis", -1);
  const std::vector<float> min = node.floats(1), max = node.floats(2);
  const Shape shape = node.dims(0);
  const size_t along = axis < 0 ? 0 : node.axis(axis, shape.size());
  if (min.size() != max.size() || min.size() != (axis < 0 ? 1 : shape[along])) node.fail("the bounds do not fit");
  std::vector<float> scales, offsets;
  for (size_t c = 0; c < min.size(); ++c) {
    const Mapping m = mapping_of(mode, type, narrow, node.finite(min[c], "a bound"), node.finite(max[c], "a bound"));
    scales.push_back(m.scale);
    offsets.push_back(m.offset);
  }
  if (!node.is_integer(0)) {
    const Value x = dequantized(node, 0, {{1}, {}, 0});
    if (axis >= 0) return {node.builder.scale(node.name, x.view, scales, offsets, along)};
    return {node.builder.power(node.name, x.view, scales[0], offsets[0], 1)};
  }
  const std::vector<int64_t>& integers = node.integers(0).values;
  const Scales channels = {scales, {}, along};
  std::vector<float> numbers(integers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t c = channels.channel(shape, i);
    numbers[i] = static_cast<float>(static_cast<double>(integers[i]) * double{scales[c]} + double{offsets[c]});
  }
  if (numbers.empty()) throw Unsupported{"of no elements"};
  return {node.builder.constant(shape, numbers.data())};
}

}  // namespace

const TfRow* find_layer(const std::string& op) {
  static const TfTable kinds = {
      {"Abs", {abs, 1, 1}},
      {"Add", {add, 2, 2}},
      {"AddN", {add_n, 1, many_inputs}},
      {"AddV2", {add, 2, 2}},
      {"AvgPool", {average_pool, 1, 1}},
      {"BatchMatMul", {batch_mat_mul, 2, 2}},
      {"BatchMatMulV2", {batch_mat_mul, 2, 2}},
      {"BatchMatMulV3", {batch_mat_mul, 2, 2}},
      {"BatchNormWithGlobalNormalization", {batch_norm_with_global_normalization, 5, 5}},
      {"BiasAdd", {bias_add, 2, 2}},
      {"Conv2D", {conv_2d, 2, 2}},
      {"DepthwiseConv2dNative", {depthwise_conv_2d, 2, 2}},
      {"Dequantize", {dequantize, 3, 3}},
      {"Div", {div, 2, 2}},
      {"Elu", {elu, 1, 1}},
      {"Exp", {exp, 1, 1}},
      {"FakeQuantWithMinMaxArgs", {fake_quant_with_min_max_args, 1, 1}},
      {"FakeQuantWithMinMaxVars", {fake_quant_with_min_max_vars, 3, 3}},
      {"FakeQuantWithMinMaxVarsPerChannel", {fake_quant_with_min_max_vars_per_channel, 3, 3}},
      {"FusedBatchNorm", {fused_batch_norm, 5, 5}},
      {"FusedBatchNormV2", {fused_batch_norm, 5, 5}},
      {"FusedBatchNormV3", {fused_batch_norm, 5, 5}},
      {"LRN", {lrn, 1, 1}},
      {"LeakyRelu", {leaky_relu, 1, 1}},
      {"MatMul", {mat_mul, 2, 2}},
      {"Max", {max, 2, 2}},
      {"MaxPool", {max_pool, 1, 1}},
      {"Maximum", {maximum, 2, 2}},
      {"Mean", {mean, 2, 2}},
      {"Minimum", {minimum, 2, 2}},
      {"Mul", {mul, 2, 2}},
      {"Neg", {neg, 1, 1}},
      {"Pow", {pow, 2, 2}},
      {"RealDiv", {div, 2, 2}},
      {"Relu", {relu, 1, 1}},
      {"Relu6", {relu6, 1, 1}},
      {"ResizeBilinear", {resize_bilinear, 2, 2}},
      {"ResizeNearestNeighbor", {resize_nearest_neighbor, 2, 2}},
      {"Rsqrt", {rsqrt, 1, 1}},
      {"Selu", {selu, 1, 1}},
      {"Sigmoid", {sigmoid, 1, 1}},
      {"Softmax", {softmax, 1, 1}},
      {"Sqrt", {sqrt, 1, 1}},
      {"Square", {square, 1, 1}},
      {"SquaredDifference", {squared_difference, 2, 2}},
      {"Sub", {sub, 2, 2}},
      {"Sum", {sum, 2, 2}},
      {"Tanh", {tanh, 1, 1}},
  };
  return find_in(kinds, op);
}

const TfRow* find_group(const std::string& op) {
  static const TfTable kinds = {
      {"PReLU", {prelu, 3, 3}},
      {"dilated Conv2D", {dilated_conv_2d, 6, 6}},
      {"dilated DepthwiseConv2dNative", {dilated_depthwise_conv_2d, 6, 6}},
  };
  return find_in(kinds, op);
}

}  // namespace quern::tensorflow

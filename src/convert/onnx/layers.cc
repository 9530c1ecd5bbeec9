// Imports ONNX operators that compute: convolution, pooling, activations, arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "convert/common/fold.h"
#include "convert/common/layers.h"
#include "convert/onnx/node.h"
#include "graph/ir/rules.h"

namespace quern::onnx {
namespace {

// ---- windows ----------------------------------------------------------------------------------

// Windows of one dimension are those of an image with one row.
qn_hw pair_of(const OnnxNode& node, const char* attribute, int64_t otherwise) {
  std::vector<int64_t> list = node.integer_list(attribute);
  if (list.empty()) return {static_cast<size_t>(otherwise), static_cast<size_t>(otherwise)};
  if (list.size() == 1) list.insert(list.begin(), 1);
  if (list.size() != 2)
    throw Unsupported{std::string(attribute) + " of " + std::to_string(list.size()) + " dimensions"};
  for (const int64_t value : list) {
    if (value <= 0 || value > std::numeric_limits<int32_t>::max())
      node.fail(std::string(attribute) + " is out of range");
  }
  return {static_cast<size_t>(list[0]), static_cast<size_t>(list[1])};
}

// Calls compute(image), which returns an image. A signal (N, C, L) is an image with one row. Checks that attributes are as
// long as the rank says.
template <class Compute>
View with_rows(const OnnxNode& node, const View& x, Compute&& compute) {
  const size_t spatial = x.rank() < 3 ? 0 : x.rank() - 2;
  const std::pair<const char*, size_t> lists[] = {
      {"kernel_shape", spatial}, {"strides", spatial}, {"dilations", spatial}, {"pads", 2 * spatial}};
  for (const auto& [attribute, length] : lists) {
    const size_t has = node.integer_list(attribute).size();
    if (has != 0 && has != length) node.fail(std::string(attribute) + " has " + std::to_string(has) + " numbers");
  }
  if (x.rank() != 3) return compute(x);
  const View image = compute(node.builder.insert_dimension(node.name + "/row", x, 2));
  return node.builder.remove_dimension(node.name + "/signal", image, 2);
}

// Reads kernel_shape, strides, dilations, pads and auto_pad.
Attributes window(const OnnxNode& node, const View& x, qn_hw kernel) {
  Attributes a;
  a.kernel = kernel;
  a.stride = pair_of(node, "strides", 1);
  a.dilation = pair_of(node, "dilations", 1);
  const std::string mode = node.text("auto_pad", "NOTSET");
  std::vector<int64_t> pads = node.integer_list("pads");
  if (pads.size() == 2) pads = {0, pads[0], 0, pads[1]};
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    const Shape shape = node.builder.shape(x);
    if (shape.size() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
    a.same_padding = mode == "SAME_UPPER" ? SamePadding::odd_pixel_last : SamePadding::odd_pixel_first;
    same_padding(a.same_padding, shape[2], kernel.h, a.stride.h, a.dilation.h, &a.padding.top, &a.padding.bottom);
    same_padding(a.same_padding, shape[3], kernel.w, a.stride.w, a.dilation.w, &a.padding.left, &a.padding.right);
  } else if (mode == "NOTSET" && !pads.empty()) {
    if (pads.size() != 4) throw Unsupported{"pads of " + std::to_string(pads.size() / 2) + " dimensions"};
    for (const int64_t pad : pads) {
      if (pad < 0 || pad > std::numeric_limits<int32_t>::max()) node.fail("pads are out of range");
    }
    a.padding = {static_cast<size_t>(pads[0]), static_cast<size_t>(pads[1]), static_cast<size_t>(pads[2]),
                 static_cast<size_t>(pads[3])};
  } else if (mode != "NOTSET" && mode != "VALID") {
    node.fail("auto_pad is '" + mode + "'");
  }
  return a;
}

// Weights are O, I, kh, kw.
View conv_image(const OnnxNode& node, const View& x, const Value& weights, const Value& bias) {
  Builder& builder = node.builder;
  const Shape w = builder.shape(weights.view), shape = builder.shape(x);
  if (w.size() != 4 || shape.size() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
  const qn_hw kernel = node.has_attribute("kernel_shape") ? pair_of(node, "kernel_shape", 0) : qn_hw{w[2], w[3]};
  if (kernel.h != w[2] || kernel.w != w[3]) node.fail("kernel_shape differs from the weights");
  Attributes a = window(node, x, kernel);
  const int64_t groups = node.integer("group", 1);
  if (groups <= 0 || shape[1] % static_cast<size_t>(groups) != 0 || w[0] % static_cast<size_t>(groups) != 0 ||
      shape[1] / static_cast<size_t>(groups) != w[1]) {
    node.fail(std::to_string(shape[1]) + " channels, weights for " + std::to_string(w[1]) + " and group " +
              std::to_string(groups) + " do not fit");
  }
  a.groups = static_cast<size_t>(groups);
  if (bias.view && builder.shape(bias.view) != Shape{w[0]}) node.fail("the bias does not fit the weights");
  const auto [input, kept] = convolution_factors(node, x, weights, &a);
  return builder.conv2d(node.name, input, kept, bias_for(kept, weights, bias), a);
}

View pool_image(const OnnxNode& node, OpKind kind, const std::string& name, const View& x) {
  if (kind == OpKind::global_average_pool || kind == OpKind::global_max_pool) {
    return node.builder.pool(kind, name, x, {});
  }
  if (!node.has_attribute("kernel_shape")) node.fail("kernel_shape is missing");
  Attributes a = window(node, x, pair_of(node, "kernel_shape", 0));
  a.ceil_mode = node.integer("ceil_mode", 0) != 0;
  if (kind == OpKind::average_pool) a.count_padding = node.integer("count_include_pad", 0) != 0;
  node.ignore("storage_order");  // only about the second output, which is not supported
  return node.builder.pool(kind, name, x, a);
}

}  // namespace

View conv(const OnnxNode& node, const View& x, const Value& weights, const Value& bias) {
  if (!node.builder.is_constant(weights.view)) throw Unsupported{"weights that are not constant"};
  if (x.rank() != weights.view.rank()) node.fail("input and weights differ in rank");
  const bool signal = x.rank() == 3;
  const Value kernels = signal ? node.builder.insert_dimension("", weights.view, 2) : weights;
  return with_rows(node, x, [&](const View& image) { return conv_image(node, image, kernels, bias); });
}

View pool(const OnnxNode& node, OpKind kind, const std::string& name, const View& x) {
  return with_rows(node, x, [&](const View& image) { return pool_image(node, kind, name, image); });
}

namespace {

Values conv(const OnnxNode& node) {
  node.constant(1);
  if (node.has(2)) node.constant(2);
  return {node.result(conv(node, node.view(0), node.value(1), node.has(2) ? node.value(2) : Value()))};
}

// Maximums of bytes are bytes; averages are not.
Values maximums(const OnnxNode& node, OpKind kind) {
  if (node.builder.type(node.any_view(0)) == QN_U8) throw Unsupported{"bytes without a sign"};
  return {node.result(pool(node, kind, node.name, node.any_view(0)))};
}
Values max_pool(const OnnxNode& node) { return maximums(node, OpKind::max_pool); }
Values global_max_pool(const OnnxNode& node) { return maximums(node, OpKind::global_max_pool); }
Values average_pool(const OnnxNode& node) {
  return {node.result(pool(node, OpKind::average_pool, node.name, node.view(0)))};
}
Values global_average_pool(const OnnxNode& node) {
  return {node.result(pool(node, OpKind::global_average_pool, node.name, node.view(0)))};
}

Values reduce(const OnnxNode& node, OpKind kind, int64_t axes_are_input_since) {
  std::vector<int64_t> axes;
  const bool given = node.list("axes", 1, axes_are_input_since, &axes);
  const bool keep = node.integer("keepdims", 1) != 0;
  if (node.integer("noop_with_empty_axes", 0) != 0 && (!given || axes.empty())) return {node.value(0)};
  return {node.result(reduced(node, kind, node.view(0), axes, keep))};
}
Values reduce_mean(const OnnxNode& node) { return reduce(node, OpKind::global_average_pool, 18); }
Values reduce_max(const OnnxNode& node) { return reduce(node, OpKind::global_max_pool, 18); }

// ---- normalisation ----------------------------------------------------------------------------

Values batch_normalization(const OnnxNode& node) {
  node.ignore("momentum");
  if (node.integer("training_mode", 0) != 0) throw Unsupported{"training_mode"};
  if (node.integer("spatial", 1) == 0) throw Unsupported{"spatial: 0"};
  const Normalization n{node.floats(1), node.floats(2), node.floats(3), node.floats(4), node.number("epsilon", 1e-5f)};
  return {node.result(normalized(node, node.view(0), 1, n))};
}

Values lrn(const OnnxNode& node) {
  const int64_t size = node.integer("size", 0);
  if (size <= 0) node.fail("size is missing or not positive");
  const float alpha = node.number("alpha", 1e-4f), beta = node.number("beta", 0.75f), k = node.number("bias", 1);
  return {node.result(node.builder.lrn(node.name, node.view(0), static_cast<size_t>(size), alpha, beta, k))};
}

// ---- activations ------------------------------------------------------------------------------

Values clamped(const OnnxNode& node, float min, float max) {
  return {node.result(node.builder.clamp(node.name, node.view(0), min, max))};
}
Values unary(const OnnxNode& node, OpKind kind) {
  return {node.result(node.builder.unary(kind, node.name, node.view(0)))};
}
Values power_of(const OnnxNode& node, float scale, float shift, float exponent) {
  return {node.result(node.builder.power(node.name, node.view(0), scale, shift, exponent))};
}
Values sloped(const OnnxNode& node, float slope) {
  return {node.result(node.builder.leaky_relu(node.name, node.view(0), slope))};
}

Values relu(const OnnxNode& node) { return clamped(node, 0, infinity); }
Values leaky_relu(const OnnxNode& node) { return sloped(node, node.number("alpha", 0.01f)); }
Values abs(const OnnxNode& node) { return sloped(node, -1); }
Values sigmoid(const OnnxNode& node) { return unary(node, OpKind::sigmoid); }
Values tanh(const OnnxNode& node) { return unary(node, OpKind::tanh); }
Values hard_swish(const OnnxNode& node) { return unary(node, OpKind::hard_swish); }
Values exp(const OnnxNode& node) { return unary(node, OpKind::exp); }
Values neg(const OnnxNode& node) { return power_of(node, -1, 0, 1); }
Values sqrt(const OnnxNode& node) { return power_of(node, 1, 0, 0.5f); }
Values reciprocal(const OnnxNode& node) { return power_of(node, 1, 0, -1); }

Values prelu(const OnnxNode& node) {
  size_t axis;
  if (!node.builder.along_axis(node.view(0), node.constant(1), &axis)) throw Unsupported{"slope is not per channel"};
  const std::vector<float> slope = node.floats(1);
  if (slope.size() == 1) return sloped(node, slope[0]);  // which needs no dimension to keep its size
  return {node.result(node.builder.prelu(node.name, node.view(0), slope, axis))};
}

// Returns a bound of a clamp. Models write the largest finite number for "no bound".
float bound(const OnnxNode& node, float value) {
  if (std::isnan(value)) node.fail("a bound is not a number");
  const float largest = std::numeric_limits<float>::max();
  return value >= largest ? infinity : value <= -largest ? -infinity : value;
}

Values clip(const OnnxNode& node) {
  float min = -infinity, max = infinity;
  if (node.opset < 11) {
    min = node.any_number("min", min);
    max = node.any_number("max", max);
  } else {
    if (node.has(1)) min = node.scalar(1);
    if (node.has(2)) max = node.scalar(2);
  }
  min = bound(node, min);
  max = bound(node, max);
  if (min > max) throw Unsupported{"min is larger than max"};
  return clamped(node, min, max);
}

Values hard_sigmoid(const OnnxNode& node) {
  const float alpha = node.number("alpha", 0.2f), beta = node.number("beta", 0.5f);
  const View line = node.builder.power(node.name + "/line", node.view(0), alpha, beta, 1);
  return {node.result(node.builder.clamp(node.name, line, 0, 1))};
}

Values pow(const OnnxNode& node) {
  if (!node.is_constant(1) || node.dims(1).size() > node.view(0).rank())
    throw Unsupported{"exponent is not one number"};
  if (node.is_integer(1)) {
    if (node.integers(1).values.size() != 1) throw Unsupported{"exponent is not one number"};
    return power_of(node, 1, 0, static_cast<float>(node.integers(1).values[0]));
  }
  if (node.elements(1) != 1) throw Unsupported{"exponent is not one number"};
  return power_of(node, 1, 0, node.finite(node.scalar(1), "exponent"));
}

// ---- arithmetic -------------------------------------------------------------------------------

Values add(const OnnxNode& node) { return {arithmetic(node, OpKind::add)}; }
Values sub(const OnnxNode& node) { return {arithmetic(node, OpKind::sub)}; }
Values mul(const OnnxNode& node) { return {arithmetic(node, OpKind::mul)}; }
Values div(const OnnxNode& node) { return {arithmetic(node, OpKind::div)}; }

Values sum(const OnnxNode& node) {
  std::vector<View> terms;
  for (size_t i = 0; i < node.input_count(); ++i) terms.push_back(node.view(i));
  return {node.result(sum_of(node, terms))};
}

// Imports Max and Min. With one constant number they are a clamp; we have no operator for two tensors.
Values bounded(const OnnxNode& node, bool below) {
  const size_t number = node.is_constant(0) ? 0 : 1;
  if (node.input_count() != 2 || !node.is_constant(number) || node.elements(number) != 1) {
    throw Unsupported{"of two computed tensors"};
  }
  const float limit = bound(node, node.scalar(number));
  const View& x = node.view(1 - number);
  if (node.dims(number).size() > x.rank()) throw Unsupported{"of a number of a larger rank"};
  return {node.result(node.builder.clamp(node.name, x, below ? limit : -infinity, below ? infinity : limit))};
}
Values max(const OnnxNode& node) { return bounded(node, true); }
Values min(const OnnxNode& node) { return bounded(node, false); }

// ---- matrix products --------------------------------------------------------------------------

}  // namespace

View mat_mul(const OnnxNode& node, const View& x, const Value& weights) {
  if (!node.builder.is_constant(weights.view)) throw Unsupported{"two tensors that are not constant"};
  if (weights.view.rank() != 2) throw Unsupported{"by a tensor of rank " + std::to_string(weights.view.rank())};
  if (x.rank() == 0) node.fail("the first input is a scalar");
  const auto [input, kept] = factors(node, x, x.rank() - 1, 1, weights, 0);
  return node.builder.fully_connected(node.name, input, node.builder.permute(kept, {1, 0}), {});
}

namespace {

Values mat_mul(const OnnxNode& node) {
  node.constant(1);
  return {node.result(mat_mul(node, node.view(0), node.value(1)))};
}

View scaled(const OnnxNode& node, const View& constant, float factor) {
  if (factor == 1) return constant;
  const float* data = node.builder.floats(constant);
  std::vector<float> values(data, data + node.builder.elements(constant));
  for (float& value : values) value *= factor;
  return node.builder.constant(node.builder.shape(constant), values.data());
}

// Whether `bias` can be the bias of a layer: a constant row of as many numbers as the layer has outputs.
bool is_row(Builder& builder, const Value& bias, size_t columns) {
  const View& c = bias.view;
  return c && builder.is_constant(c) && builder.elements(c) == columns &&
         (c.rank() == 1 || builder.shape(c) == Shape{1, columns});
}

}  // namespace

// alpha * A * B + beta * C
View gemm(const OnnxNode& node, const View& x, const Value& matrix, const Value& c) {
  const float alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  const bool transpose_a = node.integer("transA", 0) != 0, transpose_b = node.integer("transB", 0) != 0;
  if (x.rank() != 2 || matrix.view.rank() != 2) node.fail("inputs are not matrices");
  Builder& builder = node.builder;
  if (!builder.is_constant(matrix.view)) throw Unsupported{"two tensors that are not constant"};
  Factors f = {transpose_a ? builder.permute(x, {1, 0}) : x, {}};
  if (alpha == 1) f = factors(node, f.x, 1, 1, matrix, transpose_b ? 1 : 0);
  const View kept = alpha == 1 ? f.weights : scaled(node, matrix.view, alpha);  // [K, N], or [N, K]
  const View weights = transpose_b ? kept : builder.permute(kept, {1, 0});
  const size_t columns = builder.shape(weights)[0];
  const bool as_bias = is_row(builder, c, columns), separate = c.view && !as_bias;
  View bias;
  if (as_bias && beta == 1 && c.view.rank() == 1) {
    bias = bias_for(kept, matrix, c);
  } else if (as_bias) {
    bias = builder.reshape("", scaled(node, c.view, beta), {static_cast<int64_t>(columns)});
  }
  const View product = builder.fully_connected(separate ? node.name + "/product" : node.name, f.x, weights, bias);
  if (!separate) return product;
  View rest = c.view;
  if (beta != 1) {
    rest = builder.is_constant(rest) ? scaled(node, rest, beta) : builder.power(node.name + "/beta", rest, beta, 0, 1);
  }
  return builder.binary(OpKind::add, node.name, product, rest);
}

namespace {

Values gemm(const OnnxNode& node) {
  node.constant(1);
  if (node.has(2)) node.view(2);
  return {node.result(gemm(node, node.view(0), node.value(1), node.has(2) ? node.value(2) : Value()))};
}

// ---- softmax ----------------------------------------------------------------------------------

}  // namespace

View softmax(const OnnxNode& node, const View& x, bool flattens) {
  const size_t axis = node.axis(node.integer("axis", flattens ? 1 : -1), x.rank());
  const Shape shape = node.builder.shape(x);
  const bool alone =
      std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(), [](size_t d) { return d == 1; });
  if (flattens) {  // if these sizes change, this conversion would sum over the wrong elements
    for (size_t d = alone ? axis + 1 : axis == 0 ? 0 : 1; d < shape.size(); ++d) node.fix(node.builder.symbol(x, d));
  }
  if (!flattens || alone) return node.builder.softmax(node.name, x, axis);
  int64_t inner = 1;
  std::vector<int64_t> back = {-1};
  for (size_t i = axis; i < shape.size(); ++i) inner *= static_cast<int64_t>(shape[i]);
  for (size_t i = 1; i < shape.size(); ++i) back.push_back(static_cast<int64_t>(shape[i]));
  const View flat = node.builder.reshape(node.name + "/flatten", x, {-1, inner});
  const View soft = node.builder.softmax(node.name, flat, 1);
  return node.builder.reshape(node.name + "/shape", soft, back);
}

namespace {

// Before opset 13, softmax runs over all dimensions from `axis` on, as if they were one.
Values softmax(const OnnxNode& node) { return {node.result(softmax(node, node.view(0), node.opset < 13))}; }

// ---- resize -----------------------------------------------------------------------------------

// The size to which an image is resized, as factors or as sizes. Only height and width may change.
struct Target {
  std::vector<float> scales;           // one per dimension; empty: `sizes` is used
  std::vector<Symbols::Number> sizes;  // one per dimension
};

// Returns the whole number by which `size` is always a multiple of dimension d of the input; 0 if none is known.
float whole_factor(const OnnxNode& node, const Symbols::Number& size, size_t d) {
  const Symbols::Number from = node.dimension(0, d);
  const int64_t factor = size.value / from.value;
  const bool follows = from.symbol != no_symbol && factor > 0 && factor * from.value == size.value &&
                       node.builder.symbols().product(from, {factor}) == size.symbol;
  return follows ? static_cast<float>(factor) : 0;
}

void set_target(const OnnxNode& node, const Target& target, Attributes* a) {
  const Shape shape = node.builder.shape(node.view(0));
  const bool by_scale = !target.scales.empty();
  if (shape.size() != 4) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
  if ((by_scale ? target.scales.size() : target.sizes.size()) != 4) node.fail("scales or sizes do not fit the input");
  for (size_t d = 0; d < 2; ++d) {
    if (by_scale ? target.scales[d] != 1 : target.sizes[d].value != static_cast<int64_t>(shape[d])) {
      throw Unsupported{"of other than height and width"};
    }
    const Symbol own = node.builder.symbol(node.view(0), d);
    if (by_scale || target.sizes[d].symbol == own) continue;
    node.fix(own);
    node.fix(target.sizes[d].symbol);
  }
  if (by_scale) {
    for (size_t d = 2; d < 4; ++d) {
      if (!(target.scales[d] > 0) || !std::isfinite(target.scales[d])) node.fail("scales are not positive");
    }
    a->alpha = target.scales[2];
    a->beta = target.scales[3];
    return;
  }
  a->alpha = whole_factor(node, target.sizes[2], 2);
  a->beta = whole_factor(node, target.sizes[3], 3);
  if (a->alpha != 0 && a->beta != 0) return;
  a->values = {target.sizes[2].value, target.sizes[3].value};
  for (size_t d = 2; d < 4; ++d) node.fix(target.sizes[d].symbol);
}

void set_mode(const OnnxNode& node, Attributes* a) {
  const std::string mode = node.text("mode", "nearest");
  if (mode == "nearest") {
    a->mode = QN_RESIZE_NEAREST;
  } else if (mode == "linear" || mode == "bilinear") {
    a->mode = QN_RESIZE_BILINEAR;
  } else {
    throw Unsupported{mode};
  }
}

// Imports Upsample, and Resize before opset 11.
Values upsample(const OnnxNode& node) {
  Attributes a;
  set_mode(node, &a);
  a.coordinates = QN_COORDINATES_ASYMMETRIC;
  a.rounding = QN_ROUND_FLOOR;
  const bool by_attribute = node.proto.op_type() == "Upsample" && node.opset < 9;
  set_target(node, {by_attribute ? node.number_list("scales") : node.floats(1), {}}, &a);
  return {node.result(node.builder.resize(node.name, node.view(0), a))};
}

void set_coordinates(const OnnxNode& node, Attributes* a) {
  static const std::map<std::string, qn_resize_coordinates> modes = {
      {"half_pixel", QN_COORDINATES_HALF_PIXEL},
      {"pytorch_half_pixel", QN_COORDINATES_HALF_PIXEL_OR_0},
      {"asymmetric", QN_COORDINATES_ASYMMETRIC},
      {"align_corners", QN_COORDINATES_ALIGN_CORNERS},
  };
  static const std::map<std::string, qn_resize_rounding> roundings = {
      {"round_prefer_floor", QN_ROUND_HALF_DOWN},
      {"round_prefer_ceil", QN_ROUND_HALF_UP},
      {"floor", QN_ROUND_FLOOR},
      {"ceil", QN_ROUND_CEIL},
  };
  const std::string mode = node.text("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.text("nearest_mode", "round_prefer_floor");
  if (modes.count(mode) == 0) throw Unsupported{mode};
  if (roundings.count(rounding) == 0) throw Unsupported{rounding};
  a->coordinates = modes.at(mode);
  a->rounding = roundings.at(rounding);
}

// Returns one value per dimension from values for `axes`. The other dimensions get their values from `kept`.
template <class T>
std::vector<T> for_all_axes(const OnnxNode& node, const std::vector<T>& values, const std::vector<T>& kept) {
  if (!node.has_attribute("axes") || values.empty()) return values;
  const std::vector<int64_t> axes = node.integer_list("axes");
  if (axes.size() != values.size()) node.fail("axes do not fit scales or sizes");
  std::vector<T> all = kept;
  for (size_t i = 0; i < axes.size(); ++i) all[node.axis(axes[i], all.size())] = values[i];
  return all;
}

Values resize(const OnnxNode& node) {
  if (node.opset < 11) return upsample(node);
  Attributes a;
  set_mode(node, &a);
  set_coordinates(node, &a);
  if (node.integer("antialias", 0) != 0) throw Unsupported{"antialias"};
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch") throw Unsupported{"keep_aspect_ratio_policy"};
  for (const char* unused : {"cubic_coeff_a", "exclude_outside", "extrapolation_value"}) node.ignore(unused);
  const Shape shape = node.builder.shape(node.view(0));
  Target target;
  if (node.has(2)) target.scales = for_all_axes(node, node.floats(2), std::vector<float>(shape.size(), 1));
  // ONNX aligns the corners of a size that is not rounded, our operator those of the rounded one.
  const auto is_whole = [](float scale) { return scale == std::floor(scale); };
  if (a.coordinates == QN_COORDINATES_ALIGN_CORNERS &&
      !std::all_of(target.scales.begin(), target.scales.end(), is_whole)) {
    throw Unsupported{"align_corners with a scale that is no whole number"};
  }
  std::vector<Symbols::Number> kept, sizes;
  for (size_t d = 0; d < shape.size(); ++d) kept.push_back(node.dimension(0, d));
  if (node.symbolic_list("sizes", 3, 11, &sizes)) target.sizes = for_all_axes(node, sizes, kept);
  set_target(node, target, &a);
  return {node.result(node.builder.resize(node.name, node.view(0), a))};
}

}  // namespace

const OnnxRow* find_layer(const std::string& op_type) {
  static const OnnxTable kinds = {
      {"Abs", {abs, 1, 1}},
      {"Add", {add, 2, 2}},
      {"AveragePool", {average_pool, 1, 1}},
      {"BatchNormalization", {batch_normalization, 5, 5}},
      {"Clip", {clip, 1, 3}},
      {"Conv", {conv, 2, 3}},
      {"Div", {div, 2, 2}},
      {"Exp", {exp, 1, 1}},
      {"Gemm", {gemm, 2, 3}},
      {"GlobalAveragePool", {global_average_pool, 1, 1}},
      {"GlobalMaxPool", {global_max_pool, 1, 1}},
      {"HardSigmoid", {hard_sigmoid, 1, 1}},
      {"HardSwish", {hard_swish, 1, 1}},
      {"LRN", {lrn, 1, 1}},
      {"LeakyRelu", {leaky_relu, 1, 1}},
      {"MatMul", {mat_mul, 2, 2}},
      {"Max", {max, 1, many_inputs}},
      {"MaxPool", {max_pool, 1, 1}},
      {"Min", {min, 1, many_inputs}},
      {"Mul", {mul, 2, 2}},
      {"Neg", {neg, 1, 1}},
      {"PRelu", {prelu, 2, 2}},
      {"Pow", {pow, 2, 2}},
      {"Reciprocal", {reciprocal, 1, 1}},
      {"ReduceMax", {reduce_max, 1, 2}},
      {"ReduceMean", {reduce_mean, 1, 2}},
      {"Relu", {relu, 1, 1}},
      {"Resize", {resize, 1, 4}},
      {"Sigmoid", {sigmoid, 1, 1}},
      {"Softmax", {softmax, 1, 1}},
      {"Sqrt", {sqrt, 1, 1}},
      {"Sub", {sub, 2, 2}},
      {"Sum", {sum, 1, many_inputs}},
      {"Tanh", {tanh, 1, 1}},
      {"Upsample", {upsample, 1, 2}},
  };
  return find_in(kinds, op_type);
}

}  // namespace quern::onnx

// Imports ONNX operators that compute: normalisation, activations, arithmetic, products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "convert/common/fold.h"
#include "convert/common/layers.h"
#include "convert/onnx/node.h"
#include "graph/ir/rules.h"

namespace quern::onnx {
namespace {

// ---- normalisation ----------------------------------------------------------------------------

Values batch_normalization(const OnnxNode& node) {
  node.ignore("momentum");
  if (node.integer("training_mode", 0) != 0 || gives_statistics(node)) throw Unsupported{"training_mode"};
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

// Returns a bound of a clamp. The largest finite number is one: it keeps infinity from a softmax of masked elements.
float bound(const OnnxNode& node, float value) {
  if (std::isnan(value)) node.fail("a bound is not a number");
  return value;
}

Values clip(const OnnxNode& node) {
  float min = -infinity, max = infinity;
  if (node.opset < 11) {
    max = std::numeric_limits<float>::max();
    min = -max;
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
  return power_of(node, 1, 0, node.finite_or_general(node.scalar(1), "exponent"));
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

}  // namespace

bool gives_statistics(const OnnxNode& node) {
  bool gives = false;
  for (int i = 1; i < node.proto.output_size(); ++i) gives |= !node.proto.output(i).empty();
  return node.opset < 14 && gives;
}

const OnnxRow* find_layer(const std::string& op_type) {
  static const OnnxTable kinds = {
      {"Abs", {abs, 1, 1}},
      {"Add", {add, 2, 2}},
      {"BatchNormalization", {batch_normalization, 5, 5}},
      {"Clip", {clip, 1, 3}},
      {"Div", {div, 2, 2}},
      {"Exp", {exp, 1, 1}},
      {"Gemm", {gemm, 2, 3}},
      {"HardSigmoid", {hard_sigmoid, 1, 1}},
      {"HardSwish", {hard_swish, 1, 1}},
      {"LRN", {lrn, 1, 1}},
      {"LeakyRelu", {leaky_relu, 1, 1}},
      {"MatMul", {mat_mul, 2, 2}},
      {"Max", {max, 1, many_inputs}},
      {"Min", {min, 1, many_inputs}},
      {"Mul", {mul, 2, 2}},
      {"Neg", {neg, 1, 1}},
      {"PRelu", {prelu, 2, 2}},
      {"Pow", {pow, 2, 2}},
      {"Reciprocal", {reciprocal, 1, 1}},
      {"Relu", {relu, 1, 1}},
      {"Sigmoid", {sigmoid, 1, 1}},
      {"Softmax", {softmax, 1, 1}},
      {"Sqrt", {sqrt, 1, 1}},
      {"Sub", {sub, 2, 2}},
      {"Sum", {sum, 1, many_inputs}},
      {"Tanh", {tanh, 1, 1}},
  };
  for (const OnnxTable* table : {&kinds, &window_layers(), &resizing_layers()}) {
    if (const OnnxRow* row = find_in(*table, op_type)) return row;
  }
  return nullptr;
}

}  // namespace quern::onnx

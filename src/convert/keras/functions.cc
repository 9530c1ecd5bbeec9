// Imports Keras' activations and arithmetic.
#include <cmath>

#include "convert/keras/node.h"

namespace quern::keras {
namespace {

// ---- functions of one number ------------------------------------------------------------------

// `name` is that of the last node.
using Function = View (*)(const KerasNode& node, const std::string& name, const View& x);

View linear(const KerasNode&, const std::string&, const View& x) { return x; }
View relu(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.clamp(name, x, 0, infinity);
}
View relu6(const KerasNode& node, const std::string& name, const View& x) { return node.builder.clamp(name, x, 0, 6); }
View hard_tanh(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.clamp(name, x, -1, 1);
}
View leaky_relu(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.leaky_relu(name, x, 0.2f);
}
View sigmoid(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.unary(OpKind::sigmoid, name, x);
}
View tanh(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.unary(OpKind::tanh, name, x);
}
View exponential(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.unary(OpKind::exp, name, x);
}
View swish(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.binary(OpKind::mul, name, x, node.builder.unary(OpKind::sigmoid, name + "/sigmoid", x));
}
View hard_swish(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.unary(OpKind::hard_swish, name, x);
}

// A line between 0 and 1: x / 5 + 1/2 in Keras 2, x / 6 + 1/2 in Keras 3.
View hard_sigmoid(const KerasNode& node, const std::string& name, const View& x) {
  const float slope = node.is_keras_3 ? 1.0f / 6 : 0.2f;
  return node.builder.clamp(name, node.builder.power(name + "/line", x, slope, 0.5f, 1), 0, 1);
}

// scale * (x < 0 ? alpha * (exp(x) - 1) : x)
View elu_of(const KerasNode& node, const std::string& name, const View& x, float alpha, float scale) {
  Builder& builder = node.builder;
  const View power = builder.unary(OpKind::exp, name + "/exp", builder.clamp(name + "/negative", x, -infinity, 0));
  const View below = builder.power(name + "/below", power, scale * alpha, -scale * alpha, 1);
  View above = builder.clamp(name + "/positive", x, 0, infinity);
  if (scale != 1) above = builder.power(name + "/above", above, scale, 0, 1);
  return builder.binary(OpKind::add, name, above, below);
}
View elu(const KerasNode& node, const std::string& name, const View& x) { return elu_of(node, name, x, 1, 1); }
View selu(const KerasNode& node, const std::string& name, const View& x) {
  return elu_of(node, name, x, 1.67326324f, 1.05070098f);
}

// x / (1 + |x|)
View softsign(const KerasNode& node, const std::string& name, const View& x) {
  const View size = node.builder.leaky_relu(name + "/abs", x, -1);
  return node.builder.binary(OpKind::div, name, x, node.builder.power(name + "/divisor", size, 1, 1, 1));
}

View softmax(const KerasNode& node, const std::string& name, const View& x) {
  if (x.rank() < 2) throw Unsupported{"softmax of a tensor of rank " + std::to_string(x.rank())};
  return node.builder.softmax(name, x, x.rank() - 1);
}

Function find_function_named(const std::string& name) {
  static const std::map<std::string, Function> functions = {
      {"elu", elu},
      {"exponential", exponential},
      {"hard_sigmoid", hard_sigmoid},
      {"hard_silu", hard_swish},
      {"hard_swish", hard_swish},
      {"hard_tanh", hard_tanh},
      {"leaky_relu", leaky_relu},
      {"linear", linear},
      {"relu", relu},
      {"relu6", relu6},
      {"selu", selu},
      {"sigmoid", sigmoid},
      {"silu", swish},
      {"softmax", softmax},
      {"softsign", softsign},
      {"swish", swish},
      {"tanh", tanh},
  };
  const Function* function = find_in(functions, name);
  if (function == nullptr) throw Unsupported{"activation '" + name + "'"};
  return *function;
}

}  // namespace

View activated(const KerasNode& node, const std::string& name, const View& x, const std::string& function) {
  return find_function_named(function)(node, name, x);
}

View with_activation(const KerasNode& node, const View& y) {
  return activated(node, node.name + "/activation", y, node.text("activation", "linear"));
}

namespace {

// ---- layers of one input ----------------------------------------------------------------------

Values activation(const KerasNode& node) {
  return {activated(node, node.name, node.view(0), node.text("activation", "linear"))};
}

// Below the threshold: negative_slope * (x - threshold). With another threshold than 0, the function has a step.
Values relu_layer(const KerasNode& node) {
  const float slope = node.number("negative_slope", 0.0f), max = node.number("max_value", infinity);
  if (node.number("threshold", 0.0f) != 0) throw Unsupported{"a threshold"};
  if (max < 0) node.fail("'max_value' is negative");
  if (slope == 0) return {node.builder.clamp(node.name, node.view(0), 0, max)};
  if (max == infinity) return {node.builder.leaky_relu(node.name, node.view(0), slope)};
  if (slope < 0) throw Unsupported{"a negative slope and a maximum"};
  const View y = node.builder.leaky_relu(node.name + "/slope", node.view(0), slope);
  return {node.builder.clamp(node.name, y, -infinity, max)};
}

Values leaky_relu_layer(const KerasNode& node) {
  const char* const field = node.find("alpha") != nullptr ? "alpha" : "negative_slope";  // since Keras 3
  return {node.builder.leaky_relu(node.name, node.view(0), node.number(field))};
}

Values elu_layer(const KerasNode& node) {
  return {elu_of(node, node.name, node.view(0), node.number("alpha", 1.0f), 1)};
}

// Slopes have the shape of the input without its first dimension, with 1 for axes that share them.
Values prelu(const KerasNode& node) {
  Builder& builder = node.builder;
  const View& x = node.view(0);
  Shape shape = builder.shape(x);
  if (shape.empty()) throw Unsupported{"on a tensor of rank 0"};
  const std::vector<int64_t> shared = node.find("shared_axes") ? node.list("shared_axes") : std::vector<int64_t>{};
  for (const int64_t axis : shared) {
    if (axis == 0) node.fail("axis 0 is among the 'shared_axes'");
    shape[node.axis(axis, shape.size())] = 1;
  }
  shape.erase(shape.begin());
  const View slopes = node.weight("alpha", shape);
  size_t axis;
  if (builder.along_axis(x, slopes, &axis)) return {builder.prelu(node.name, x, node.numbers("alpha", shape), axis)};
  const View below = builder.clamp(node.name + "/negative", x, -infinity, 0);
  const View above = builder.clamp(node.name + "/positive", x, 0, infinity);
  return {
      builder.binary(OpKind::add, node.name, above, builder.binary(OpKind::mul, node.name + "/below", below, slopes))};
}

Values softmax_layer(const KerasNode& node) {
  const View& x = node.view(0);
  return {node.builder.softmax(node.name, x, node.axis(node.whole("axis", -1), x.rank()))};
}

Values rescaling(const KerasNode& node) {
  for (const char* field : {"scale", "offset"}) {
    const Json* value = node.find(field);
    if (value != nullptr && value->is_array()) throw Unsupported{std::string(field) + " of several numbers"};
  }
  return {node.builder.power(node.name, node.view(0), node.number("scale"), node.number("offset", 0.0f), 1)};
}

// Layers that do something only while a model is trained.
Values identity(const KerasNode& node) {
  node.ignore_all();
  return {node.value(0)};
}

// ---- layers of several inputs -----------------------------------------------------------------

// Tensors of different ranks would be aligned in one way by layers and in another by operators. A number has no rank.
void expect_equal_ranks(const KerasNode& node) {
  size_t rank = 0;
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (node.is_constant(i)) continue;
    const size_t own = node.view(i).rank();
    if (rank != 0 && own != rank) throw Unsupported{"of tensors of different ranks"};
    rank = own;
  }
}

std::string part_name(const KerasNode& node, size_t i) {
  return i + 1 == node.input_count() ? node.name : node.name + "/" + std::to_string(i);
}

View combined(const KerasNode& node, OpKind kind) {
  expect_equal_ranks(node);
  View total = node.view(0);
  for (size_t i = 1; i < node.input_count(); ++i) {
    total = node.builder.binary(kind, part_name(node, i), total, node.view(i));
  }
  return total;
}
Values add(const KerasNode& node) { return {combined(node, OpKind::add)}; }
Values subtract(const KerasNode& node) { return {combined(node, OpKind::sub)}; }
Values multiply(const KerasNode& node) { return {combined(node, OpKind::mul)}; }
Values divide(const KerasNode& node) { return {combined(node, OpKind::div)}; }

Values average(const KerasNode& node) {
  const float part = 1 / static_cast<float>(node.input_count());
  return {node.builder.power(node.name + "/part", combined(node, OpKind::add), part, 0, 1)};
}

// The largest of several tensors: they become the rows of an image, over which a pooling goes.
View largest(const KerasNode& node, float sign) {
  Builder& builder = node.builder;
  const Shape shape = builder.shape(node.view(0));
  std::vector<View> rows;
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (builder.shape(node.view(i)) != shape) throw Unsupported{"of tensors of different shapes"};
    const std::string name = node.name + "/" + std::to_string(i);
    const View x = sign == 1 ? node.view(i) : builder.power(name + "/negated", node.view(i), sign, 0, 1);
    rows.push_back(builder.reshape(name, x, {0, -1, 1, 1}));
  }
  std::vector<int64_t> back = {0};
  for (size_t d = 1; d < shape.size(); ++d) {
    node.fix(node.dimension(0, d).symbol);
    back.push_back(static_cast<int64_t>(shape[d]));
  }
  const View image = builder.concat(node.name + "/rows", rows, 2);
  const View most = builder.pool(OpKind::global_max_pool, node.name + "/largest", image, {});
  return builder.reshape(node.name, sign == 1 ? most : builder.power(node.name + "/sign", most, sign, 0, 1), back);
}
Values maximum(const KerasNode& node) { return {largest(node, 1)}; }
Values minimum(const KerasNode& node) { return {largest(node, -1)}; }

// TensorFlow's operators between layers of Keras 2.
Values operator_of_tensorflow(const KerasNode& node) {
  static const std::map<std::string, OpKind> operators = {
      {"__operators__.add", OpKind::add}, {"math.add", OpKind::add},       {"math.divide", OpKind::div},
      {"math.multiply", OpKind::mul},     {"math.subtract", OpKind::sub},  {"math.truediv", OpKind::div},
      {"nn.relu", OpKind::clamp},         {"nn.sigmoid", OpKind::sigmoid}, {"math.sigmoid", OpKind::sigmoid},
      {"math.tanh", OpKind::tanh},        {"nn.tanh", OpKind::tanh},
  };
  const std::string function = node.text("function", "");
  const OpKind* kind = find_in(operators, function);
  if (kind == nullptr) throw Unsupported{function};
  const bool unary = *kind == OpKind::clamp || *kind == OpKind::sigmoid || *kind == OpKind::tanh;
  node.expect_inputs(unary ? 1 : 2, unary ? 1 : 2);
  if (*kind == OpKind::clamp) return {relu(node, node.name, node.view(0))};
  if (unary) return {node.builder.unary(*kind, node.name, node.view(0))};
  return {combined(node, *kind)};
}

}  // namespace

const KerasRow* find_function(const std::string& type) {
  static const KerasTable kinds = {
      {"Activation", {activation, 1, 1}},
      {"ActivityRegularization", {identity, 1, 1}},
      {"Add", {add, 1, many_inputs}},
      {"AlphaDropout", {identity, 1, 1}},
      {"Average", {average, 1, many_inputs}},
      {"Divide", {divide, 2, 2}},
      {"Dropout", {identity, 1, 1}},
      {"ELU", {elu_layer, 1, 1}},
      {"GaussianDropout", {identity, 1, 1}},
      {"GaussianNoise", {identity, 1, 1}},
      {"LeakyReLU", {leaky_relu_layer, 1, 1}},
      {"Maximum", {maximum, 1, many_inputs}},
      {"Minimum", {minimum, 1, many_inputs}},
      {"Multiply", {multiply, 1, many_inputs}},
      {"PReLU", {prelu, 1, 1}},
      {"RandomBrightness", {identity, 1, 1}},
      {"RandomContrast", {identity, 1, 1}},
      {"RandomFlip", {identity, 1, 1}},
      {"RandomRotation", {identity, 1, 1}},
      {"RandomTranslation", {identity, 1, 1}},
      {"RandomZoom", {identity, 1, 1}},
      {"ReLU", {relu_layer, 1, 1}},
      {"Rescaling", {rescaling, 1, 1}},
      {"Softmax", {softmax_layer, 1, 1}},
      {"SpatialDropout1D", {identity, 1, 1}},
      {"SpatialDropout2D", {identity, 1, 1}},
      {"SpatialDropout3D", {identity, 1, 1}},
      {"Subtract", {subtract, 2, 2}},
      {"TFOpLambda", {operator_of_tensorflow, 1, 2}},
      {"TrueDivide", {divide, 2, 2}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

// Imports Keras' activations and arithmetic.
#include <algorithm>
#include <cmath>

#include "convert/common/kinds.h"
#include "convert/keras/masks.h"

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

View hard_sigmoid(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.clamp(name, node.builder.power(name + "/line", x, hard_sigmoid_slope(node), 0.5f, 1), 0, 1);
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

View of_kind(const KerasNode& node, const char* kind, const std::string& name, const View& x,
             Parameters parameters = {}) {
  return node.builder.custom(kind, name, {x}, std::move(parameters), {QN_F32})[0];
}
View celu(const KerasNode& node, const std::string& name, const View& x) { return of_kind(node, "celu", name, x); }
View gelu(const KerasNode& node, const std::string& name, const View& x) { return of_kind(node, "gelu", name, x); }
View mish(const KerasNode& node, const std::string& name, const View& x) { return of_kind(node, "mish", name, x); }
View softplus(const KerasNode& node, const std::string& name, const View& x) {
  return of_kind(node, "softplus", name, x);
}
View log_sigmoid(const KerasNode& node, const std::string& name, const View& x) {
  const View negative = node.builder.power(name + "/negative", x, -1, 0, 1);
  return node.builder.power(name, softplus(node, name + "/softplus", negative), -1, 0, 1);
}
View log_softmax(const KerasNode& node, const std::string& name, const View& x) {
  return of_kind(node, "log_softmax", name, x, Parameters().integer("axis", -1));
}

// 0 between -1/2 and 1/2; beyond, x or what remains of it.
View hard_shrink(const KerasNode& node, const std::string& name, const View& x) {
  return of_kind(node, "shrink", name, x, Parameters().number("bias", 0).number("lambd", 0.5f));
}
View soft_shrink(const KerasNode& node, const std::string& name, const View& x) {
  return of_kind(node, "shrink", name, x, Parameters().number("bias", 0.5f).number("lambd", 0.5f));
}
View tanh_shrink(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.binary(OpKind::sub, name, x, tanh(node, name + "/tanh", x));
}

// (x + 1)^2 / 4 between -1 and 1; 0 below, x above.
View sparse_plus(const KerasNode& node, const std::string& name, const View& x) {
  Builder& builder = node.builder;
  const View bend = builder.power(name + "/bend", builder.clamp(name + "/middle", x, -1, 1), 0.5f, 0.5f, 2);
  const View above = builder.power(name + "/above", builder.clamp(name + "/large", x, 1, infinity), 1, -1, 1);
  return builder.binary(OpKind::add, name, bend, above);
}
View sparse_sigmoid(const KerasNode& node, const std::string& name, const View& x) {
  return node.builder.clamp(name, node.builder.power(name + "/line", x, 0.5f, 0.5f, 1), 0, 1);
}
// (x + sqrt(x^2 + 4)) / 2
View squareplus(const KerasNode& node, const std::string& name, const View& x) {
  Builder& builder = node.builder;
  const View square = builder.power(name + "/square", x, 1, 0, 2);
  const View root = builder.power(name + "/root", square, 1, 4, 0.5f);
  return builder.power(name, builder.binary(OpKind::add, name + "/sum", x, root), 0.5f, 0, 1);
}
// The first half of the last dimension, times the sigmoid of the second half.
View glu(const KerasNode& node, const std::string& name, const View& x) {
  Builder& builder = node.builder;
  if (x.rank() < 2) throw Unsupported{"glu of a tensor of rank " + std::to_string(x.rank())};
  const size_t axis = x.rank() - 1, size = builder.shape(x)[axis];
  if (size % 2 != 0) node.fail("an odd number of channels is not two halves");
  builder.fix(builder.symbol(x, axis), node.name);
  const auto half = static_cast<int64_t>(size / 2);
  const View gate = builder.slice(name + "/gate", x, axis, half, -1);
  return builder.binary(OpKind::mul, name, builder.slice(name + "/half", x, axis, 0, half),
                        sigmoid(node, name + "/sigmoid", gate));
}

View softmax(const KerasNode& node, const std::string& name, const View& x) {
  if (x.rank() < 2) throw Unsupported{"softmax of a tensor of rank " + std::to_string(x.rank())};
  return node.builder.softmax(name, x, x.rank() - 1);
}

Function find_function_named(const std::string& name) {
  static const std::map<std::string, Function> functions = {
      {"celu", celu},
      {"elu", elu},
      {"exponential", exponential},
      {"gelu", gelu},
      {"glu", glu},
      {"hard_shrink", hard_shrink},
      {"hard_sigmoid", hard_sigmoid},
      {"hard_silu", hard_swish},
      {"hard_swish", hard_swish},
      {"hard_tanh", hard_tanh},
      {"leaky_relu", leaky_relu},
      {"linear", linear},
      {"log_sigmoid", log_sigmoid},
      {"log_softmax", log_softmax},
      {"mish", mish},
      {"relu", relu},
      {"relu6", relu6},
      {"selu", selu},
      {"sigmoid", sigmoid},
      {"silu", swish},
      {"soft_shrink", soft_shrink},
      {"softmax", softmax},
      {"softplus", softplus},
      {"softsign", softsign},
      {"sparse_plus", sparse_plus},
      {"sparse_sigmoid", sparse_sigmoid},
      {"squareplus", squareplus},
      {"swish", swish},
      {"tanh", tanh},
      {"tanh_shrink", tanh_shrink},
  };
  const Function* function = find_in(functions, name);
  if (function == nullptr) throw Unsupported{"activation '" + name + "'"};
  return *function;
}

}  // namespace

// x / 5 + 1/2 in Keras 2, x / 6 + 1/2 in Keras 3.
float hard_sigmoid_slope(const KerasNode& node) { return node.is_keras_3 ? 1.0f / 6 : 0.2f; }

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

// x above the threshold, clipped to 0 .. max; negative_slope * (x - threshold) at and below it.
View above_threshold(const KerasNode& node, float threshold, float slope, float max) {
  Builder& builder = node.builder;
  const bool clips = max != infinity, slopes = slope != 0;
  const View& x = node.view(0);
  View y = of_kind(node, "thresholded_relu", clips || slopes ? node.name + "/above" : node.name, x,
                   Parameters().number("alpha", threshold));
  if (clips) y = builder.clamp(slopes ? node.name + "/clipped" : node.name, y, 0, max);
  if (!slopes) return y;
  const View below = builder.clamp(node.name + "/below", x, -infinity, threshold);
  return builder.binary(OpKind::add, node.name, y,
                        builder.power(node.name + "/slope", below, slope, -slope * threshold, 1));
}

Values relu_layer(const KerasNode& node) {
  const float slope = node.number("negative_slope", 0.0f), max = node.number("max_value", infinity);
  const float threshold = node.number("threshold", 0.0f);
  if (threshold != 0) return {above_threshold(node, threshold, slope, max)};
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

Values thresholded_relu(const KerasNode& node) {
  return {above_threshold(node, node.number("theta", 1.0f), 0, infinity)};
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
  if (node.is_null("axis")) throw Unsupported{"over all elements"};
  const View& x = node.view(0);
  if (node.find("axis") != nullptr && node.list("axis").size() > 1) throw Unsupported{"over several axes"};
  const size_t axis = node.axis(node.whole("axis", -1), x.rank());
  const bool robust = node.flag("robust_masking", false);
  const Value* const mask = node.mask(0);
  if (mask == nullptr) return {node.builder.softmax(node.name, x, axis)};
  if (rank_of(node, *mask) > x.rank()) throw Unsupported{"a mask of rank " + std::to_string(rank_of(node, *mask))};
  constexpr float none = -1e9f;  // Keras 2 adds it, unless the masking is robust
  const View scores = node.is_keras_3 || robust ? kept(node, *mask, x, none) : lowered(node, *mask, x, none);
  const View y = node.builder.softmax(node.name, scores, axis);
  return {node.is_keras_3 ? kept(node, *mask, y, 0) : y};
}

// One number for all, or one for each index of the last dimension.
std::vector<float> numbers_of_channels(const KerasNode& node, const char* field, float otherwise) {
  const Json* value = node.find(field);
  if (value == nullptr) return {otherwise};
  if (!value->is_array()) return {node.number(*value, field)};
  std::vector<float> numbers;
  for (const Json& item : *value) numbers.push_back(node.number(item, field));
  const Shape shape = node.builder.shape(node.view(0));
  if (numbers.size() == 1) return numbers;
  if (shape.empty() || numbers.size() != shape.back()) node.fail(std::string("'") + field + "' does not fit the input");
  return numbers;
}

Values rescaling(const KerasNode& node) {
  if (node.find("scale") == nullptr) node.fail("'scale' is missing");
  std::vector<float> scale = numbers_of_channels(node, "scale", 1), offset = numbers_of_channels(node, "offset", 0);
  const View& x = node.view(0);
  if (scale.size() == 1 && offset.size() == 1) return {node.builder.power(node.name, x, scale[0], offset[0], 1)};
  const size_t count = std::max(scale.size(), offset.size());
  for (auto* list : {&scale, &offset}) {
    if (list->size() == 1) list->assign(count, list->front());
  }
  return {node.builder.scale(node.name, x, scale, offset, x.rank() - 1)};
}

// Layers that do something only while a model is trained.
Values identity(const KerasNode& node) {
  node.ignore_all();
  return {node.value(0)};
}

// ---- layers of several inputs -----------------------------------------------------------------

// The inputs as a layer or a function aligns them. Layers give tensors of lower rank dimensions behind the batch,
// functions give them dimensions before all others. A number has no rank.
std::vector<View> aligned(const KerasNode& node) {
  std::vector<View> views;
  size_t rank = 0;
  for (size_t i = 0; i < node.input_count(); ++i) {
    views.push_back(node.view(i));
    if (!std::holds_alternative<double>(node.call.inputs[i])) rank = std::max(rank, views.back().rank());
  }
  if (node.is_function()) return views;
  for (size_t i = 0; i < views.size(); ++i) {
    if (std::holds_alternative<double>(node.call.inputs[i])) continue;
    while (views[i].rank() < rank) {
      const std::string name = node.name + "/rank" + std::to_string(i);
      views[i] = node.builder.insert_dimension(name, views[i], std::min<size_t>(views[i].rank(), 1));
    }
  }
  return views;
}

std::string part_name(const KerasNode& node, size_t i) {
  return i + 1 == node.input_count() ? node.name : node.name + "/" + std::to_string(i);
}

View combined(const KerasNode& node, OpKind kind, const std::vector<View>& views) {
  View total = views[0];
  for (size_t i = 1; i < views.size(); ++i) total = node.builder.binary(kind, part_name(node, i), total, views[i]);
  return total;
}
View combined(const KerasNode& node, OpKind kind) {
  merge_masks(node);
  return combined(node, kind, aligned(node));
}
Values add(const KerasNode& node) { return {combined(node, OpKind::add)}; }
Values subtract(const KerasNode& node) { return {combined(node, OpKind::sub)}; }
Values divide(const KerasNode& node) { return {combined(node, OpKind::div)}; }

// The mask of an input whose elements count by it: in Keras 3, as long as the layer does not change the input's rank.
const Value* element_mask(const KerasNode& node, const std::vector<View>& views, size_t i) {
  const bool counts = node.is_keras_3 && !node.is_function() && views[i].rank() == node.view(i).rank();
  return counts ? node.own_mask(i) : nullptr;
}

// Steps that an input's mask leaves out count as 1, or as 0 if all inputs leave them out.
Values multiply(const KerasNode& node) {
  merge_masks(node);
  std::vector<View> views = aligned(node);
  Value any;
  bool all_masked = true;
  for (size_t i = 0; i < views.size(); ++i) {
    const Value* const mask = element_mask(node, views, i);
    all_masked = all_masked && mask != nullptr;
    if (mask == nullptr) continue;
    any = any ? either(node, any, *mask) : *mask;
    views[i] = kept_rows(node, *mask, views[i], 1);
  }
  const View product = combined(node, OpKind::mul, views);
  return {any && all_masked ? kept_rows(node, any, product, 0) : product};
}

// The function of the same name takes the mean along an axis, or of all elements.
Values average(const KerasNode& node) {
  if (node.is_null("axis") || node.find("axis") != nullptr) throw Unsupported{"of the elements of one tensor"};
  const float part = 1 / static_cast<float>(node.input_count());
  return {node.builder.power(node.name + "/part", combined(node, OpKind::add), part, 0, 1)};
}

// ---- layers of Keras' own applications ---------------------------------------------------------

// A number for each index of the last dimension.
Values layer_scale(const KerasNode& node) {
  node.ignore({"init_values"});
  const View& x = node.view(0);
  if (x.rank() == 0) throw Unsupported{"on a tensor of rank 0"};
  const size_t count = node.builder.shape(x)[x.rank() - 1];
  if (node.size("projection_dim") != count) node.fail("'projection_dim' does not fit the input");
  return {node.builder.scale(node.name, x, node.numbers(node.only_weight(), {count}), {}, x.rank() - 1)};
}

// Adds the second input, times a number.
Values scaled_sum(const KerasNode& node) {
  const View part = node.builder.power(node.name + "/part", node.view(1), node.number("scale"), 0, 1);
  return {combined(node, OpKind::add, {node.view(0), part})};
}

// ---- extremes and operators --------------------------------------------------------------------

// The largest of several tensors: they become the rows of an image, over which a pooling goes.
View largest(const KerasNode& node, float sign, const std::vector<View>& views) {
  Builder& builder = node.builder;
  const Shape shape = builder.shape(views[0]);
  std::vector<View> rows;
  for (size_t i = 0; i < views.size(); ++i) {
    const std::string name = node.name + "/" + std::to_string(i);
    const View x = sign == 1 ? views[i] : builder.power(name + "/negated", views[i], sign, 0, 1);
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

// One input after the other: where its mask leaves out steps, the result so far counts, and where that of the result so
// far leaves out steps, the input does.
Values extreme(const KerasNode& node, float sign) {
  merge_masks(node);
  const std::vector<View> views = aligned(node);
  const Shape shape = node.builder.shape(views[0]);
  bool same = shape.size() > 1, masked = false;
  for (size_t i = 0; i < views.size(); ++i) {
    same = same && node.builder.shape(views[i]) == shape && !node.builder.is_constant(views[i]);
    masked = masked || element_mask(node, views, i) != nullptr;
  }
  if (same && !masked) return {largest(node, sign, views)};
  View y = views[0];
  const Value* const first = element_mask(node, views, 0);
  Value counts = first == nullptr ? Value() : *first;
  for (size_t i = 1; i < views.size(); ++i) {
    View x = views[i];
    const Value* const mask = element_mask(node, views, i);
    if (mask != nullptr) x = chosen_rows(node, *mask, x, y);
    if (counts) y = chosen_rows(node, counts, y, x);
    counts = counts && mask != nullptr ? either(node, counts, *mask) : Value();
    y = make(node, sign == 1 ? "max" : "min", {y, x}).view;
  }
  return {y};
}
Values maximum(const KerasNode& node) { return extreme(node, 1); }
Values minimum(const KerasNode& node) { return extreme(node, -1); }

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
      {"Activation", {activation, 1, 1, MaskRule::pass}},
      {"ActivityRegularization", {identity, 1, 1, MaskRule::pass}},
      {"Add", {add, 1, many_inputs}},
      {"AlphaDropout", {identity, 1, 1, MaskRule::pass}},
      {"Average", {average, 1, many_inputs}},
      {"Custom>CustomScaleLayer", {scaled_sum, 2, 2}},  // as Keras 2 writes it
      {"CustomScaleLayer", {scaled_sum, 2, 2}},
      {"Divide", {divide, 2, 2}},
      {"Dropout", {identity, 1, 1, MaskRule::pass}},
      {"ELU", {elu_layer, 1, 1, MaskRule::pass}},
      {"GaussianDropout", {identity, 1, 1, MaskRule::pass}},
      {"GaussianNoise", {identity, 1, 1, MaskRule::pass}},
      {"Identity", {identity, 1, 1, MaskRule::pass_in_3}},
      {"LayerScale", {layer_scale, 1, 1}},
      {"LeakyReLU", {leaky_relu_layer, 1, 1, MaskRule::pass}},
      {"Maximum", {maximum, 1, many_inputs}},
      {"Minimum", {minimum, 1, many_inputs}},
      {"Multiply", {multiply, 1, many_inputs}},
      {"PReLU", {prelu, 1, 1, MaskRule::pass}},
      {"RandomBrightness", {identity, 1, 1}},
      {"RandomContrast", {identity, 1, 1}},
      {"RandomFlip", {identity, 1, 1}},
      {"RandomRotation", {identity, 1, 1}},
      {"RandomTranslation", {identity, 1, 1}},
      {"RandomZoom", {identity, 1, 1}},
      {"ReLU", {relu_layer, 1, 1, MaskRule::pass}},
      {"Rescaling", {rescaling, 1, 1, MaskRule::pass_in_3}},
      {"Softmax", {softmax_layer, 1, 1, MaskRule::pass}},
      {"SpatialDropout1D", {identity, 1, 1, MaskRule::pass}},
      {"SpatialDropout2D", {identity, 1, 1, MaskRule::pass}},
      {"SpatialDropout3D", {identity, 1, 1, MaskRule::pass}},
      {"StochasticDepth", {identity, 1, 1}},
      {"Subtract", {subtract, 2, 2}},
      {"TFOpLambda", {operator_of_tensorflow, 1, 2}},
      {"ThresholdedReLU", {thresholded_relu, 1, 1, MaskRule::pass}},
      {"TrueDivide", {divide, 2, 2}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

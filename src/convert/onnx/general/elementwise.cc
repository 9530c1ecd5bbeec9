// Functions of elements, of one tensor or several.
#include <initializer_list>
#include <string>
#include <utility>

#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

// ---- one tensor

struct Number {
  const char* attribute;  // and parameter
  float otherwise;
};
// Imports an operator all attributes of which are numbers.
Values with_numbers(const OnnxNode& node, const char* kind, std::initializer_list<Number> numbers) {
  Parameters parameters;
  for (const Number& x : numbers) {
    parameters.list.push_back({x.attribute, {}, {node.any_number(x.attribute, x.otherwise)}});
  }
  return of_kind(node, kind, std::move(parameters), {node.value(0).type});
}

Values celu(const OnnxNode& node) { return with_numbers(node, "celu", {{"alpha", 1}}); }
Values elu(const OnnxNode& node) { return with_numbers(node, "elu", {{"alpha", 1}}); }
Values hard_sigmoid(const OnnxNode& node) {
  return with_numbers(node, "hard_sigmoid", {{"alpha", 0.2f}, {"beta", 0.5f}});
}
Values leaky_relu(const OnnxNode& node) { return with_numbers(node, "leaky_relu", {{"alpha", 0.01f}}); }
Values selu(const OnnxNode& node) {
  if (node.opset < 6) return with_numbers(node, "selu", {{"alpha", 1.6732f}, {"gamma", 1.0507f}});
  return with_numbers(node, "selu", {{"alpha", 1.67326319f}, {"gamma", 1.05070102f}});
}
Values shrink(const OnnxNode& node) { return with_numbers(node, "shrink", {{"bias", 0}, {"lambd", 0.5f}}); }
Values swish(const OnnxNode& node) { return with_numbers(node, "swish", {{"alpha", 1}}); }
Values thresholded_relu(const OnnxNode& node) { return with_numbers(node, "thresholded_relu", {{"alpha", 1}}); }

Values gelu(const OnnxNode& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") node.fail("approximate is '" + approximate + "'");
  return of_kind(node, approximate == "tanh" ? "gelu_tanh" : "gelu", {}, {node.value(0).type});
}

Values is_inf(const OnnxNode& node) {
  return of_kind(node, "is_inf",
                 Parameters()
                     .integer("negative", node.integer("detect_negative", 1))
                     .integer("positive", node.integer("detect_positive", 1)),
                 {ElementType::boolean});
}
// Imports an operator whose result is bool.
template <Name kind>
Values test(const OnnxNode& node) {
  return of_kind(node, kind.text, {}, {ElementType::boolean});
}

Values dropout(const OnnxNode& node) {
  node.ignore("ratio");
  node.ignore("seed");
  if (node.opset < 10 && node.proto.output_size() > 1)
    throw Unsupported{"a mask of opset " + std::to_string(node.opset)};
  if (node.has(2) && (node.integers(2).values.size() != 1 || node.integers(2).values[0] != 0)) {
    throw Unsupported{"training_mode"};
  }
  return {node.value(0), node.custom("all_true", {node.operand(0)}, {}, {ElementType::boolean})[0]};
}

// ---- several tensors

Values bit_shift(const OnnxNode& node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") node.fail("direction is '" + direction + "'");
  return of_kind(node, "bit_shift", Parameters().integer("left", direction == "LEFT" ? 1 : 0), {node.value(0).type});
}

Values mod(const OnnxNode& node) {
  return of_kind(node, "mod", Parameters().integer("truncates", node.integer("fmod", 0)), {node.value(0).type});
}

Values where(const OnnxNode& node) { return of_kind(node, "where", {}, {node.value(1).type}); }

// Before opset 11 the bounds are attributes.
Values clip(const OnnxNode& node) {
  if (node.opset >= 11) return plain<"clip">(node);
  std::vector<View> inputs = {node.operand(0), {}, {}};
  const char* const names[] = {"min", "max"};
  for (size_t i = 0; i < 2; ++i) {
    if (!node.has_attribute(names[i])) continue;
    const float bound = node.any_number(names[i], 0);
    inputs[1 + i] = node.builder.constant({}, &bound);
  }
  return node.custom("clip", inputs, {}, {node.value(0).type});
}

}  // namespace

const OnnxTable& general_elementwise() {
  static const OnnxTable table = {
      {"Abs", {plain<"abs">, 1, 1}},
      {"Acos", {plain<"acos">, 1, 1}},
      {"Acosh", {plain<"acosh">, 1, 1}},
      {"Add", {plain<"any_add">, 2, 2}},
      {"And", {plain<"bitwise_and">, 2, 2}},
      {"Asin", {plain<"asin">, 1, 1}},
      {"Asinh", {plain<"asinh">, 1, 1}},
      {"Atan", {plain<"atan">, 1, 1}},
      {"Atanh", {plain<"atanh">, 1, 1}},
      {"BitShift", {bit_shift, 2, 2}},
      {"BitwiseAnd", {plain<"bitwise_and">, 2, 2}},
      {"BitwiseNot", {plain<"bitwise_not">, 1, 1}},
      {"BitwiseOr", {plain<"bitwise_or">, 2, 2}},
      {"BitwiseXor", {plain<"bitwise_xor">, 2, 2}},
      {"Ceil", {plain<"ceil">, 1, 1}},
      {"Celu", {celu, 1, 1}},
      {"Clip", {clip, 1, 3}},
      {"Cos", {plain<"cos">, 1, 1}},
      {"Cosh", {plain<"cosh">, 1, 1}},
      {"Div", {plain<"any_div">, 2, 2}},
      {"Dropout", {dropout, 1, 3}},
      {"Elu", {elu, 1, 1}},
      {"Equal", {test<"equal">, 2, 2}},
      {"Erf", {plain<"erf">, 1, 1}},
      {"Exp", {plain<"any_exp">, 1, 1}},
      {"Floor", {plain<"floor">, 1, 1}},
      {"Gelu", {gelu, 1, 1}},
      {"Greater", {test<"greater">, 2, 2}},
      {"GreaterOrEqual", {test<"greater_or_equal">, 2, 2}},
      {"HardSigmoid", {hard_sigmoid, 1, 1}},
      {"HardSwish", {plain<"any_hard_swish">, 1, 1}},
      {"IsInf", {is_inf, 1, 1}},
      {"IsNaN", {test<"is_nan">, 1, 1}},
      {"LeakyRelu", {leaky_relu, 1, 1}},
      {"Less", {test<"less">, 2, 2}},
      {"LessOrEqual", {test<"less_or_equal">, 2, 2}},
      {"Log", {plain<"log">, 1, 1}},
      {"Max", {plain<"max">, 1, many_inputs}},
      {"Mean", {plain<"mean">, 1, many_inputs}},
      {"Min", {plain<"min">, 1, many_inputs}},
      {"Mish", {plain<"mish">, 1, 1}},
      {"Mod", {mod, 2, 2}},
      {"Mul", {plain<"any_mul">, 2, 2}},
      {"Neg", {plain<"neg">, 1, 1}},
      {"Not", {plain<"not">, 1, 1}},
      {"Or", {plain<"bitwise_or">, 2, 2}},
      {"PRelu", {plain<"any_prelu">, 2, 2}},
      {"Pow", {plain<"pow">, 2, 2}},
      {"Reciprocal", {plain<"reciprocal">, 1, 1}},
      {"Relu", {plain<"relu">, 1, 1}},
      {"Round", {plain<"round">, 1, 1}},
      {"Selu", {selu, 1, 1}},
      {"Shrink", {shrink, 1, 1}},
      {"Sigmoid", {plain<"any_sigmoid">, 1, 1}},
      {"Sign", {plain<"sign">, 1, 1}},
      {"Sin", {plain<"sin">, 1, 1}},
      {"Sinh", {plain<"sinh">, 1, 1}},
      {"Softplus", {plain<"softplus">, 1, 1}},
      {"Softsign", {plain<"softsign">, 1, 1}},
      {"Sqrt", {plain<"sqrt">, 1, 1}},
      {"Sub", {plain<"any_sub">, 2, 2}},
      {"Sum", {plain<"sum">, 1, many_inputs}},
      {"Swish", {swish, 1, 1}},
      {"Tan", {plain<"tan">, 1, 1}},
      {"Tanh", {plain<"any_tanh">, 1, 1}},
      {"ThresholdedRelu", {thresholded_relu, 1, 1}},
      {"Where", {where, 3, 3}},
      {"Xor", {plain<"bitwise_xor">, 2, 2}},
  };
  return table;
}

}  // namespace quern::onnx

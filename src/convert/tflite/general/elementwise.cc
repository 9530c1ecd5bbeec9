// Functions of elements, of one tensor or several.
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

// Imports an operator whose result is bool.
template <Name kind>
Values test(const TfliteNode& node) {
  return {node.typed(make(node, kind.text, node.all(), {}, ElementType::boolean))};
}
Values not_equal(const TfliteNode& node) {
  return {node.typed(make(node, "not", {make(node, "equal", node.all(), {}, ElementType::boolean)}))};
}

template <Name kind, class Options>
Values arithmetic(const TfliteNode& node) {
  return {node.typed(make(node, kind.text, node.all()), 0, node.options<Options>().activation())};
}

Values floor_mod(const TfliteNode& node) { return {node.typed(convert::floor_mod(node, node.any(0), node.any(1)))}; }
Values floor_div(const TfliteNode& node) { return {node.typed(convert::floor_div(node, node.any(0), node.any(1)))}; }

Values square(const TfliteNode& node) { return {node.typed(make(node, "any_mul", {node.any(0), node.any(0)}))}; }
Values squared_difference(const TfliteNode& node) {
  const Value difference = make(node, "any_sub", node.all());
  return {node.typed(make(node, "any_mul", {difference, difference}))};
}
Values rsqrt(const TfliteNode& node) {
  return {node.typed(make(node, "reciprocal", {make(node, "sqrt", {node.any(0)})}))};
}

Values gelu(const TfliteNode& node) {
  const bool approximate = node.options<schema::GeluOptions>().approximate();
  return {node.typed(make(node, approximate ? "gelu_tanh" : "gelu", {node.any(0)}))};
}
Values elu(const TfliteNode& node) {
  return {node.typed(make(node, "elu", {node.any(0)}, Parameters().number("alpha", 1)))};
}

Values add_n(const TfliteNode& node) { return {node.typed(make(node, "sum", node.all()))}; }

Values select(const TfliteNode& node) { return {node.typed(selected(node, node.any(0), node.any(1), node.any(2)))}; }
Values select_v2(const TfliteNode& node) { return {node.typed(make(node, "where", node.all(), {}, node.any(1).type))}; }

Values cast(const TfliteNode& node) {
  if (!node.scales(0).scales.empty()) throw Unsupported{"of a quantized tensor"};
  return {cast_to(node, node.value(0), node.output_type(0))};
}
Values identity(const TfliteNode& node) { return {node.typed(node.any(0))}; }
Values zeros_like(const TfliteNode& node) {
  const Value x = node.any(0);
  return {node.typed(filled(node, shape_of(node, x), number_of(node, 0, x.type)))};
}

}  // namespace

const TfliteTable& general_elementwise() {
  static const TfliteTable table = {
      {"ABS", {plain<"abs">, 1, 1}},
      {"ADD", {arithmetic<"any_add", schema::AddOptions>, 2, 2}},
      {"ADD_N", {add_n, 1, many_inputs}},
      {"BITWISE_XOR", {plain<"bitwise_xor">, 2, 2}},
      {"CAST", {cast, 1, 1}},
      {"CEIL", {plain<"ceil">, 1, 1}},
      {"COS", {plain<"cos">, 1, 1}},
      {"DENSIFY", {identity, 1, 1}},  // constants are dense already
      {"DEQUANTIZE", {identity, 1, 1}},
      {"DIV", {arithmetic<"any_div", schema::DivOptions>, 2, 2}},
      {"ELU", {elu, 1, 1}},
      {"EQUAL", {test<"equal">, 2, 2}},
      {"EXP", {plain<"any_exp">, 1, 1}},
      {"FLOOR", {plain<"floor">, 1, 1}},
      {"FLOOR_DIV", {floor_div, 2, 2}},
      {"FLOOR_MOD", {floor_mod, 2, 2}},
      {"GELU", {gelu, 1, 1}},
      {"GREATER", {test<"greater">, 2, 2}},
      {"GREATER_EQUAL", {test<"greater_or_equal">, 2, 2}},
      {"HARD_SWISH", {plain<"any_hard_swish">, 1, 1}},
      {"LESS", {test<"less">, 2, 2}},
      {"LESS_EQUAL", {test<"less_or_equal">, 2, 2}},
      {"LOG", {plain<"log">, 1, 1}},
      {"LOGICAL_AND", {plain<"bitwise_and">, 2, 2}},
      {"LOGICAL_NOT", {plain<"not">, 1, 1}},
      {"LOGICAL_OR", {plain<"bitwise_or">, 2, 2}},
      {"LOGISTIC", {plain<"any_sigmoid">, 1, 1}},
      {"MAXIMUM", {plain<"max">, 2, 2}},
      {"MINIMUM", {plain<"min">, 2, 2}},
      {"MUL", {arithmetic<"any_mul", schema::MulOptions>, 2, 2}},
      {"NEG", {plain<"neg">, 1, 1}},
      {"NOT_EQUAL", {not_equal, 2, 2}},
      {"POW", {plain<"pow">, 2, 2}},
      {"PRELU", {plain<"any_prelu">, 2, 2}},
      {"RELU", {plain<"relu">, 1, 1}},
      {"ROUND", {plain<"round">, 1, 1}},
      {"RSQRT", {rsqrt, 1, 1}},
      {"SELECT", {select, 3, 3}},
      {"SELECT_V2", {select_v2, 3, 3}},
      {"SIGN", {plain<"sign">, 1, 1}},
      {"SIN", {plain<"sin">, 1, 1}},
      {"SQRT", {plain<"sqrt">, 1, 1}},
      {"SQUARE", {square, 1, 1}},
      {"SQUARED_DIFFERENCE", {squared_difference, 2, 2}},
      {"SUB", {arithmetic<"any_sub", schema::SubOptions>, 2, 2}},
      {"TANH", {plain<"any_tanh">, 1, 1}},
      {"ZEROS_LIKE", {zeros_like, 1, 1}},
  };
  return table;
}

}  // namespace quern::tflite

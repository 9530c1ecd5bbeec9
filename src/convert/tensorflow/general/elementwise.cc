// Functions of elements, of one tensor or several.
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

// Imports an operator whose result is bool.
template <Name kind>
Values test(const TfNode& node) {
  return {make(node, kind.text, all_inputs(node), {}, ElementType::boolean)};
}
Values equal(const TfNode& node) {
  node.ignore("incompatible_shape_error");
  return test<"equal">(node);
}
Values not_equal(const TfNode& node) { return {make(node, "not", equal(node))}; }

Values floor_mod_of(const TfNode& node) { return {floor_mod(node, node.value(0), node.value(1))}; }
Values floor_div_of(const TfNode& node) { return {floor_div(node, node.value(0), node.value(1))}; }
// Rounds towards 0.
Values truncated_div(const TfNode& node) {
  if (is_float(node.value(0).type)) throw Unsupported{"of floats"};
  return plain<"any_div">(node);
}

Values square(const TfNode& node) { return {make(node, "any_mul", {node.value(0), node.value(0)})}; }
Values squared_difference(const TfNode& node) {
  const Value difference = make(node, "any_sub", all_inputs(node));
  return {make(node, "any_mul", {difference, difference})};
}
Values rsqrt(const TfNode& node) { return {make(node, "reciprocal", {make(node, "sqrt", {node.value(0)})})}; }
Values leaky_relu(const TfNode& node) {
  return {make(node, "leaky_relu", {node.value(0)}, Parameters().number("alpha", node.number("alpha", 0.2f)))};
}
Values relu6(const TfNode& node) {
  const ElementType type = node.value(0).type;
  return {make(node, "clip", {node.value(0), number_of(node, 0, type), number_of(node, 6, type)})};
}
// a / b, or 0 where `zero` is 0
Values quotient_unless_zero(const TfNode& node, const Value& zero) {
  const Value none = number_of(node, 0, zero.type);
  const Value is_zero = make(node, "equal", {zero, none}, {}, ElementType::boolean);
  return {make(node, "where", {is_zero, none, make(node, "any_div", all_inputs(node))}, {}, zero.type)};
}
Values div_no_nan(const TfNode& node) { return quotient_unless_zero(node, node.value(1)); }
Values xdivy(const TfNode& node) { return quotient_unless_zero(node, node.value(0)); }

Values div_of(const TfNode& node) {
  return is_float(node.value(0).type) ? plain<"any_div">(node) : truncated_div(node);
}
Values truncated_mod(const TfNode& node) {
  return {make(node, "mod", all_inputs(node), Parameters().integer("truncates", 1))};
}
// The kind elu has e^x - 1 of negative numbers without loss. That of x is -(e^-x - 1) e^x.
Values expm1(const TfNode& node) {
  const Value x = node.value(0);
  const auto below = [&](const Value& of) { return make(node, "elu", {of}, Parameters().number("alpha", 1)); };
  const Value other = make(node, "neg", {below(make(node, "neg", {x}))});
  const Value above = make(node, "any_mul", {other, make(node, "any_exp", {x})});
  const Value negative = make(node, "less", {x, number_of(node, 0, x.type)}, {}, ElementType::boolean);
  return {make(node, "where", {negative, below(x), above}, {}, x.type)};
}
// Where 1 + x is rounded, the logarithm of what it becomes is corrected by how far x is from it.
Values log1p(const TfNode& node) {
  const Value x = node.value(0), one = number_of(node, 1, x.type);
  const Value sum = make(node, "any_add", {x, one}), rounded = make(node, "any_sub", {sum, one});
  const auto are_equal = [&](const Value& a, const Value& b) {
    return make(node, "equal", {a, b}, {}, ElementType::boolean);
  };
  const Value log = make(node, "log", {sum});
  const Value corrected = make(node, "any_mul", {log, make(node, "any_div", {x, rounded})});
  const Value small = make(node, "where", {are_equal(sum, one), x, corrected}, {}, x.type);
  return {make(node, "where", {are_equal(rounded, x), log, small}, {}, x.type)};
}
Values erfc(const TfNode& node) {
  return {make(node, "any_sub", {number_of(node, 1, node.value(0).type), make(node, "erf", {node.value(0)})})};
}
Values elu_of(const TfNode& node) { return {make(node, "elu", {node.value(0)}, Parameters().number("alpha", 1))}; }
Values selu_of(const TfNode& node) {
  return {make(node, "selu", {node.value(0)},
               Parameters().number("alpha", 1.6732632423543772f).number("gamma", 1.0507009873554805f))};
}
// The difference of a number and itself is NaN, which is not equal to itself, unless the number is finite.
Values is_finite(const TfNode& node) {
  const Value x = node.value(0), zero = make(node, "any_sub", {x, x});
  return {make(node, "equal", {zero, zero}, {}, ElementType::boolean)};
}
Values log_softmax(const TfNode& node) {
  return {make(node, "log_softmax", {node.value(0)}, Parameters().integer("axis", -1))};
}
Values clip(const TfNode& node) {
  return {make(node, "min", {make(node, "max", {node.value(0), node.value(1)}), node.value(2)})};
}
Values filled_like(const TfNode& node, float number) {
  const Value x = node.value(0);
  return {filled(node, convert::shape_of(node, x), number_of(node, number, x.type))};
}
Values zeros_like(const TfNode& node) { return filled_like(node, 0); }
Values ones_like(const TfNode& node) { return filled_like(node, 1); }

Values select(const TfNode& node) { return {selected(node, node.value(0), node.value(1), node.value(2))}; }
Values select_v2(const TfNode& node) { return {make(node, "where", all_inputs(node), {}, node.value(1).type)}; }

Values cast(const TfNode& node) {
  const std::optional<ElementType> type = element_type(node.type("DstT"));
  if (!type) throw Unsupported{"to type " + schema::DataType_Name(node.type("DstT"))};
  if (node.flag("Truncate", false)) throw Unsupported{"Truncate"};
  return {cast_to(node, node.value(0), *type)};
}

// The same bits as another type. Quantized types are those of integers here.
Values bitcast(const TfNode& node) {
  const std::optional<ElementType> type = element_type(node.type("type"));
  const ElementType from = node.value(0).type;
  if (type == from) return {node.value(0)};
  const auto is_same = [](ElementType t) { return t == ElementType::f32 || t == ElementType::s32; };
  if (!type || !is_same(*type) || !is_same(from)) throw Unsupported{"of types other than float and int32"};
  return {make(node, "bit_cast", {node.value(0)}, {}, *type)};
}

// Biases that a run computes, or of any type. They belong to the last dimension, or to the second of N, C, H, W.
Values bias_add(const TfNode& node) {
  if (rank_of(node, node.value(1)) != 1) node.fail("the bias does not fit");
  if (!node.channels_first() && !expected_shape(node.builder, node.value(0))) return plain<"any_add">(node);
  const size_t rank = rank_of(node, node.value(0));
  if (rank < 2) node.fail("the input has no channels");
  if (!node.channels_first()) return plain<"any_add">(node);
  std::vector<int64_t> shape(rank - 1, 1);
  shape[0] = -1;
  return {make(node, "any_add", {node.value(0), reshaped(node, node.value(1), shape)})};
}

Values softmax_of(const TfNode& node) {
  return {make(node, "any_softmax", {node.value(0)}, Parameters().integer("axis", -1))};
}

Values atan2(const TfNode& node) { return {convert::atan2(node, node.value(0), node.value(1))}; }

}  // namespace

const TfTable& general_elementwise() {
  static const TfTable table = {
      {"Abs", {plain<"abs">, 1, 1}},
      {"Acos", {plain<"acos">, 1, 1}},
      {"Acosh", {plain<"acosh">, 1, 1}},
      {"Add", {plain<"any_add">, 2, 2}},
      {"AddN", {plain<"sum">, 1, many_inputs}},
      {"AddV2", {plain<"any_add">, 2, 2}},
      {"Asin", {plain<"asin">, 1, 1}},
      {"Asinh", {plain<"asinh">, 1, 1}},
      {"Atan", {plain<"atan">, 1, 1}},
      {"Atan2", {atan2, 2, 2}},
      {"Atanh", {plain<"atanh">, 1, 1}},
      {"BiasAdd", {bias_add, 2, 2}},
      {"Bitcast", {bitcast, 1, 1}},
      {"BitwiseAnd", {plain<"bitwise_and">, 2, 2}},
      {"BitwiseOr", {plain<"bitwise_or">, 2, 2}},
      {"BitwiseXor", {plain<"bitwise_xor">, 2, 2}},
      {"Cast", {cast, 1, 1}},
      {"Ceil", {plain<"ceil">, 1, 1}},
      {"ClipByValue", {clip, 3, 3}},
      {"Cos", {plain<"cos">, 1, 1}},
      {"Cosh", {plain<"cosh">, 1, 1}},
      {"Div", {div_of, 2, 2}},
      {"DivNoNan", {div_no_nan, 2, 2}},
      {"Elu", {elu_of, 1, 1}},
      {"Equal", {equal, 2, 2}},
      {"Erf", {plain<"erf">, 1, 1}},
      {"Erfc", {erfc, 1, 1}},
      {"Exp", {plain<"any_exp">, 1, 1}},
      {"Expm1", {expm1, 1, 1}},
      {"Floor", {plain<"floor">, 1, 1}},
      {"FloorDiv", {floor_div_of, 2, 2}},
      {"FloorMod", {floor_mod_of, 2, 2}},
      {"Greater", {test<"greater">, 2, 2}},
      {"GreaterEqual", {test<"greater_or_equal">, 2, 2}},
      {"Inv", {plain<"reciprocal">, 1, 1}},
      {"Invert", {plain<"bitwise_not">, 1, 1}},
      {"IsFinite", {is_finite, 1, 1}},
      {"IsInf", {test<"is_inf">, 1, 1}},
      {"IsNan", {test<"is_nan">, 1, 1}},
      {"LeakyRelu", {leaky_relu, 1, 1}},
      {"Less", {test<"less">, 2, 2}},
      {"LessEqual", {test<"less_or_equal">, 2, 2}},
      {"Log", {plain<"log">, 1, 1}},
      {"Log1p", {log1p, 1, 1}},
      {"LogSoftmax", {log_softmax, 1, 1}},
      {"LogicalAnd", {plain<"bitwise_and">, 2, 2}},
      {"LogicalNot", {plain<"not">, 1, 1}},
      {"LogicalOr", {plain<"bitwise_or">, 2, 2}},
      {"Maximum", {plain<"max">, 2, 2}},
      {"Minimum", {plain<"min">, 2, 2}},
      {"Mod", {truncated_mod, 2, 2}},
      {"Mul", {plain<"any_mul">, 2, 2}},
      {"Neg", {plain<"neg">, 1, 1}},
      {"NotEqual", {not_equal, 2, 2}},
      {"OnesLike", {ones_like, 1, 1}},
      {"Pow", {plain<"pow">, 2, 2}},
      {"RealDiv", {plain<"any_div">, 2, 2}},
      {"Reciprocal", {plain<"reciprocal">, 1, 1}},
      {"Relu", {plain<"relu">, 1, 1}},
      {"Relu6", {relu6, 1, 1}},
      {"Rint", {plain<"round">, 1, 1}},
      {"Round", {plain<"round">, 1, 1}},
      {"Rsqrt", {rsqrt, 1, 1}},
      {"Select", {select, 3, 3}},
      {"SelectV2", {select_v2, 3, 3}},
      {"Selu", {selu_of, 1, 1}},
      {"Sigmoid", {plain<"any_sigmoid">, 1, 1}},
      {"Sign", {plain<"sign">, 1, 1}},
      {"Sin", {plain<"sin">, 1, 1}},
      {"Sinh", {plain<"sinh">, 1, 1}},
      {"Softmax", {softmax_of, 1, 1}},
      {"Softplus", {plain<"softplus">, 1, 1}},
      {"Softsign", {plain<"softsign">, 1, 1}},
      {"Sqrt", {plain<"sqrt">, 1, 1}},
      {"Square", {square, 1, 1}},
      {"SquaredDifference", {squared_difference, 2, 2}},
      {"Sub", {plain<"any_sub">, 2, 2}},
      {"Tan", {plain<"tan">, 1, 1}},
      {"Tanh", {plain<"any_tanh">, 1, 1}},
      {"TruncateDiv", {truncated_div, 2, 2}},
      {"TruncateMod", {truncated_mod, 2, 2}},
      {"Xdivy", {xdivy, 2, 2}},
      {"ZerosLike", {zeros_like, 1, 1}},
  };
  return table;
}

}  // namespace quern::tensorflow

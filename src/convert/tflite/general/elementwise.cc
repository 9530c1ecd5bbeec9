// Functions of elements, of one tensor or several.
#include <algorithm>
#include <optional>

#include "convert/common/fold.h"
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

Values floor_mod(const TfliteNode& node) {
  node.expect_plain(0);
  return {node.typed(convert::floor_mod(node, node.any(0), node.any(1)))};
}
// Computes at import what is known of shapes. Sizes that are open are left to a run; others are fixed.
std::optional<Value> folded(const TfliteNode& node, int64_t (*function)(int64_t a, int64_t b)) {
  if (!node.is_integer(0) || !node.is_integer(1)) return {};
  const Integers &a = node.symbolic(0), &b = node.symbolic(1);
  const Shape shape = broadcast_shape(node, a.shape, b.shape);
  const std::vector<size_t> at_a = broadcast_index(node, a.shape, shape), at_b = broadcast_index(node, b.shape, shape);
  const auto is_open = [&](Symbol symbol) { return symbol != no_symbol && node.builder.is_open(symbol); };
  Integers out{shape, {}, {}};
  for (size_t i = 0; i < at_a.size(); ++i) {
    const Symbols::Number x = a.at(at_a[i]), y = b.at(at_b[i]);
    const bool fits = x.value == static_cast<int32_t>(x.value) && y.value == static_cast<int32_t>(y.value);
    if (is_open(x.symbol) || is_open(y.symbol) || !fits) return {};
    out.add({function(x.value, y.value)});
  }
  for (const Integers* from : {&a, &b}) {
    for (const Symbol symbol : from->symbols) node.fix(symbol);
  }
  return integer_value(std::move(out), node.value(0).type);
}
Values maximum(const TfliteNode& node) {
  const auto known = folded(node, [](int64_t a, int64_t b) { return std::max(a, b); });
  return known ? Values{*known} : plain<"max">(node);
}
Values minimum(const TfliteNode& node) {
  const auto known = folded(node, [](int64_t a, int64_t b) { return std::min(a, b); });
  return known ? Values{*known} : plain<"min">(node);
}

// What divides by 0 is left to a run, which refuses it.
bool divides_by_zero(const TfliteNode& node) {
  const std::vector<int64_t> none, &by = node.is_integer(1) ? node.symbolic(1).values : none;
  return std::find(by.begin(), by.end(), 0) != by.end();
}
Values floor_div(const TfliteNode& node) {
  node.expect_plain(0);
  const auto quotient = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); };
  if (!divides_by_zero(node)) {
    if (const auto known = folded(node, quotient)) return {*known};
  }
  return {node.typed(convert::floor_div(node, node.any(0), node.any(1)))};
}

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

Values atan2(const TfliteNode& node) { return {node.typed(convert::atan2(node, node.any(0), node.any(1)))}; }

// Shifts of more bits than there are count as of all but one.
Values right_shift(const TfliteNode& node) {
  const Value x = node.any(0);
  const auto bits = static_cast<int64_t>(8 * element_size(x.type));
  std::vector<int64_t> powers;
  for (int64_t i = 0; i < bits && i < 32; ++i) powers.push_back(int64_t{1} << i);
  if (is_float(x.type) || bits > 32) throw Unsupported{"of this type"};
  const Value count = make(node, "max", {cast_to(node, node.any(1), ElementType::i64), integer_number(0)});
  const Value most = make(node, "min", {count, integer_number(bits - 1)});
  const Value power = make(node, "gather", {integer_list(powers), most}, Parameters().integer("axis", 0));
  const Value y = convert::floor_div(node, cast_to(node, x, ElementType::i64), power);
  return {node.typed(cast_to(node, y, x.type))};
}

// How many boundaries an element is not below.
Values bucketize(const TfliteNode& node) {
  const auto* const boundaries = node.options<schema::BucketizeOptions>().boundaries();
  if (boundaries == nullptr || boundaries->size() == 0) throw Unsupported{"without boundaries"};
  node.builder.charge(boundaries->size() * sizeof(float));
  const std::vector<float> list(boundaries->begin(), boundaries->end());
  const bool ascends =
      std::is_sorted(list.begin(), list.end(), [](float next, float before) { return !(before <= next); });
  if (!ascends) node.fail("the boundaries do not ascend");
  const Value limits = node.builder.constant({list.size()}, list.data());
  const Value x = with_axis(node, cast_to(node, node.any(0), ElementType::f32), -1);
  const Value above = make(node, "not", {make(node, "less", {x, limits}, {}, ElementType::boolean)});
  return {node.typed(make(node, "reduce_sum", {cast_to(node, above, ElementType::s32)},
                          Parameters().integers("axes", {-1}).integer("keep_dimensions", 0)))};
}

Values add_n(const TfliteNode& node) { return {node.typed(make(node, "sum", node.all()))}; }

Values select(const TfliteNode& node) { return {node.typed(selected(node, node.any(0), node.any(1), node.any(2)))}; }
Values select_v2(const TfliteNode& node) { return {node.typed(make(node, "where", node.all(), {}, node.any(1).type))}; }

Values cast(const TfliteNode& node) {
  node.expect_plain(0);
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
      {"ATAN2", {atan2, 2, 2}},
      {"BITWISE_XOR", {plain<"bitwise_xor">, 2, 2}},
      {"BUCKETIZE", {bucketize, 1, 1}},
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
      {"MAXIMUM", {maximum, 2, 2}},
      {"MINIMUM", {minimum, 2, 2}},
      {"MUL", {arithmetic<"any_mul", schema::MulOptions>, 2, 2}},
      {"NEG", {plain<"neg">, 1, 1}},
      {"NOT_EQUAL", {not_equal, 2, 2}},
      {"POW", {plain<"pow">, 2, 2}},
      {"PRELU", {plain<"any_prelu">, 2, 2}},
      {"RELU", {plain<"relu">, 1, 1}},
      {"RIGHT_SHIFT", {right_shift, 2, 2}},
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

// Imports what makes masks: layers, and the functions of Keras 3 by which files say how a mask is computed.
#include "convert/keras/masks.h"

#include "convert/common/elements.h"
#include "convert/common/kinds.h"

namespace quern::keras {

// ---- masks in general -------------------------------------------------------------------------

Value as_bools(const KerasNode& node, const Value& x) {
  if (x.type == ElementType::boolean) return x;
  return negated(node, make(node, "equal", {x, number_of(node, 0, x.type)}, {}, ElementType::boolean));
}

Value negated(const KerasNode& node, const Value& mask) { return make(node, "not", {mask}); }
Value both(const KerasNode& node, const Value& a, const Value& b) { return make(node, "bitwise_and", {a, b}); }
Value either(const KerasNode& node, const Value& a, const Value& b) { return make(node, "bitwise_or", {a, b}); }
Value all_true(const KerasNode& node, const Value& x) { return make(node, "all_true", {x}, {}, ElementType::boolean); }

namespace {
Value of_last(const KerasNode& node, const char* kind, const Value& mask) {
  return make(node, kind, {mask}, Parameters().integers("axes", {-1}).integer("keep_dimensions", 0));
}
}  // namespace

Value any_of_last(const KerasNode& node, const Value& mask) { return of_last(node, "reduce_max", mask); }
Value all_of_last(const KerasNode& node, const Value& mask) { return of_last(node, "reduce_min", mask); }

namespace {

View chosen(const KerasNode& node, const Value& mask, const Value& x, const Value& otherwise) {
  return make(node, "where", {as_bools(node, mask), x, otherwise}, {}, ElementType::f32).view;
}
Value real(const KerasNode& node, float number) { return number_of(node, number, ElementType::f32); }

// The mask with as many dimensions as x.
Value of_rows(const KerasNode& node, const Value& mask, const View& x) {
  Value rows = mask;
  for (size_t rank = rank_of(node, mask); rank < x.rank(); ++rank) {
    rows = with_axis(node, rows, static_cast<int64_t>(rank));
  }
  return rows;
}

}  // namespace

View kept(const KerasNode& node, const Value& mask, const View& x, float otherwise) {
  return chosen(node, mask, x, real(node, otherwise));
}
View kept_rows(const KerasNode& node, const Value& mask, const View& x, float otherwise) {
  return kept(node, of_rows(node, mask, x), x, otherwise);
}
View chosen_rows(const KerasNode& node, const Value& mask, const View& x, const View& otherwise) {
  return chosen(node, of_rows(node, mask, x), x, otherwise);
}
View lowered(const KerasNode& node, const Value& mask, const View& x, float by) {
  const View terms = chosen(node, mask, real(node, 0), real(node, by));
  return node.builder.binary(OpKind::add, node.name + "/mask", x, terms);
}

// Keras 3: what any input has, if all have masks. Keras 2: what all have that have masks.
void merge_masks(const KerasNode& node) {
  if (node.is_function()) return;
  Value merged;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const Value* const mask = node.mask(i);
    if (mask == nullptr && node.is_keras_3) return;
    if (mask == nullptr) continue;
    if (!merged) {
      merged = *mask;
    } else {
      merged = node.is_keras_3 ? either(node, merged, *mask) : both(node, merged, *mask);
    }
  }
  if (merged) node.set_mask(0, merged);
}

namespace {

// ---- layers -----------------------------------------------------------------------------------

// Leaves out steps of which all elements are one number.
Values masking(const KerasNode& node) {
  const View& x = node.view(0);
  if (x.rank() < 2) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  const Value number = number_of(node, node.number("mask_value", 0.0f), ElementType::f32);
  const Value differs = negated(node, make(node, "equal", {x, number}, {}, ElementType::boolean));
  const Value mask = any_of_last(node, differs);
  node.set_mask(0, mask);
  return {kept_rows(node, mask, x, 0)};
}

// A call of the network itself: see network.h.
Values with_given_mask(const KerasNode& node) {
  node.ignore_all();
  if (node.input_count() > 1) node.set_mask(0, node.value(1));
  return {node.value(0)};
}

// ---- functions --------------------------------------------------------------------------------

// Both inputs in one type: a number of the file takes the type of the tensor, integers become real beside real numbers.
Values in_one_type(const KerasNode& node) {
  Values values = {node.value(0), node.value(1)};
  if (values[0].type == values[1].type) return values;
  for (size_t i = 0; i < 2; ++i) {
    const bool is_number = std::holds_alternative<double>(node.call.inputs[i]);
    if (is_number) values[i] = cast_to(node, values[i], values[1 - i].type);
  }
  for (Value& value : values) {
    if (values[0].type != values[1].type) value = cast_to(node, value, ElementType::f32);
  }
  return values;
}

template <Name kind>
Values compare(const KerasNode& node) {
  return {make(node, kind.text, in_one_type(node), {}, ElementType::boolean)};
}
Values not_equal(const KerasNode& node) { return {negated(node, compare<"equal">(node)[0])}; }

template <Name kind>
Values combine(const KerasNode& node) {
  return {make(node, kind.text, {as_bools(node, node.value(0)), as_bools(node, node.value(1))})};
}
Values logical_not(const KerasNode& node) { return {negated(node, as_bools(node, node.value(0)))}; }

template <Name kind>
Values reduce(const KerasNode& node) {
  const std::vector<int64_t> axes = node.find("axis") != nullptr ? node.list("axis") : std::vector<int64_t>{};
  Parameters parameters =
      Parameters().integers("axes", axes).integer("keep_dimensions", node.flag("keepdims", false) ? 1 : 0);
  return {make(node, kind.text, {as_bools(node, node.value(0))}, std::move(parameters))};
}

Values expand_dims(const KerasNode& node) { return {with_axis(node, node.value(0), node.whole("axis"))}; }

// Bools as the type that a function's field `dtype` names, which is that of its result.
Value in_given_type(const KerasNode& node, const Value& bools) {
  const bool is_bool =
      node.find("dtype") == nullptr ? node.value(0).type == ElementType::boolean : node.text("dtype", "") == "bool";
  return is_bool ? bools : cast_to(node, bools, ElementType::f32);
}
Values ones_like(const KerasNode& node) { return {in_given_type(node, all_true(node, node.value(0)))}; }
Values zeros_like(const KerasNode& node) { return {in_given_type(node, negated(node, all_true(node, node.value(0))))}; }

// Keras gives it for a mask that is a tensor already.
Values convert_to_tensor(const KerasNode& node) {
  if (node.flag("sparse", false)) throw Unsupported{"sparse"};
  if (node.find("dtype") != nullptr && node.text("dtype", "") != "bool") throw Unsupported{"'dtype'"};
  return {node.find("dtype") != nullptr ? as_bools(node, node.value(0)) : node.value(0)};
}

}  // namespace

const KerasRow* find_mask(const std::string& type) {
  static const KerasTable kinds = {
      {mask_call, {with_given_mask, 1, 2}},
      {"All", {reduce<"reduce_min">, 1, 1}},
      {"Any", {reduce<"reduce_max">, 1, 1}},
      {"ConvertToTensor", {convert_to_tensor, 1, 1}},
      {"Equal", {compare<"equal">, 2, 2}},
      {"ExpandDims", {expand_dims, 1, 1}},
      {"Greater", {compare<"greater">, 2, 2}},
      {"GreaterEqual", {compare<"greater_or_equal">, 2, 2}},
      {"Less", {compare<"less">, 2, 2}},
      {"LessEqual", {compare<"less_or_equal">, 2, 2}},
      {"LogicalAnd", {combine<"bitwise_and">, 2, 2}},
      {"LogicalNot", {logical_not, 1, 1}},
      {"LogicalOr", {combine<"bitwise_or">, 2, 2}},
      {"Masking", {masking, 1, 1}},
      {"NotEqual", {not_equal, 2, 2}},
      {"OnesLike", {ones_like, 1, 1}},
      {"ZerosLike", {zeros_like, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

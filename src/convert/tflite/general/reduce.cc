// Reductions, and what works along an axis.
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

template <Name kind>
Values reduce(const TfliteNode& node) {
  const std::vector<int64_t>& axes = node.integers(1).values;
  Parameters parameters = Parameters()
                              .integer("keep_dimensions", node.options<schema::ReducerOptions>().keep_dims())
                              .integer("none_without_axes", 1)
                              .integers("axes", axes);
  return {node.typed(make(node, kind.text, {node.any(0)}, std::move(parameters)))};
}

// Imports ARG_MAX and ARG_MIN.
template <Name kind>
Values place(const TfliteNode& node) {
  Parameters parameters = Parameters().integer("axis", only_integer_of(node, 1)).integer("keep_dimensions", 0);
  return {node.typed(make(node, kind.text, {node.any(0)}, std::move(parameters), ElementType::i64))};
}

Values softmax(const TfliteNode& node) {
  const Value x = node.any(0), beta = number_of(node, node.options<schema::SoftmaxOptions>().beta(), x.type);
  return {node.typed(make(node, "any_softmax", {make(node, "any_mul", {x, beta})}, Parameters().integer("axis", -1)))};
}
Values log_softmax(const TfliteNode& node) {
  return {node.typed(make(node, "log_softmax", {node.any(0)}, Parameters().integer("axis", -1)))};
}

Values cumsum(const TfliteNode& node) {
  const auto& o = node.options<schema::CumsumOptions>();
  return {node.typed(make(node, "cumulative_sum", {node.any(0), node.any(1)},
                          Parameters().integer("exclusive", o.exclusive()).integer("reverse", o.reverse())))};
}

// Divides by the norm of the last dimension, which counts as 1e-6 at least.
Values l2_normalization(const TfliteNode& node) {
  const Value x = node.any(0), least = number_of(node, 1e-6f, x.type);
  const Value squares = make(node, "reduce_sum_square", {x}, Parameters().integers("axes", {-1}));
  const Value norm = make(node, "clip", {make(node, "sqrt", {squares}), least});
  return {node.typed(make(node, "any_div", {x, norm}), 0, node.options<schema::L2NormOptions>().activation())};
}

}  // namespace

const TfliteTable& general_reductions() {
  static const TfliteTable table = {
      {"ARG_MAX", {place<"arg_max">, 2, 2}},
      {"ARG_MIN", {place<"arg_min">, 2, 2}},
      {"CUMSUM", {cumsum, 2, 2}},
      {"L2_NORMALIZATION", {l2_normalization, 1, 1}},
      {"LOG_SOFTMAX", {log_softmax, 1, 1}},
      {"MEAN", {reduce<"reduce_mean">, 2, 2}},
      {"REDUCE_ALL", {reduce<"reduce_min">, 2, 2}},
      {"REDUCE_ANY", {reduce<"reduce_max">, 2, 2}},
      {"REDUCE_MAX", {reduce<"reduce_max">, 2, 2}},
      {"REDUCE_MIN", {reduce<"reduce_min">, 2, 2}},
      {"REDUCE_PROD", {reduce<"reduce_prod">, 2, 2}},
      {"SOFTMAX", {softmax, 1, 1}},
      {"SUM", {reduce<"reduce_sum">, 2, 2}},
  };
  return table;
}

}  // namespace quern::tflite

// Reductions and what else works along axes.
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

template <Name kind>
Values reduce(const TfNode& node) {
  return {make(node, kind.text, {node.value(0)},
               Parameters()
                   .integer("keep_dimensions", node.flag("keep_dims", false))
                   .integer("none_without_axes", 1)
                   .integers("axes", node.integers(1).values))};
}

template <Name kind>
Values place(const TfNode& node) {
  const int64_t axis = node.input_count() > 1 ? node.only_integer(1) : 0;
  const Value found = make(node, kind.text, {node.value(0)},
                           Parameters().integer("axis", axis).integer("keep_dimensions", 0), ElementType::i64);
  return {cast_to(node, found, node.index_type("output_type", ElementType::i64))};
}

template <Name kind>
Values cumulative(const TfNode& node) {
  return {make(node, kind.text, all_inputs(node),
               Parameters()
                   .integer("exclusive", node.flag("exclusive", false))
                   .integer("reverse", node.flag("reverse", false)))};
}

Values top_k(const TfNode& node) {
  node.ignore("Tk");
  node.ignore("sorted");  // sorted elements are right in any case
  const Value k = node.input_count() > 1 ? node.value(1) : integer_number(node.integer("k"));
  const Values found = make_all(node, "top_k", {node.value(0), reshaped(node, k, {1})},
                                Parameters().integer("axis", -1), {node.value(0).type, ElementType::i64});
  return {found[0], cast_to(node, found[1], node.index_type("index_type", ElementType::s32))};
}

}  // namespace

const TfTable& general_along() {
  static const TfTable table = {
      {"All", {reduce<"reduce_min">, 2, 2}},
      {"Any", {reduce<"reduce_max">, 2, 2}},
      {"ArgMax", {place<"arg_max">, 1, 2}},
      {"ArgMin", {place<"arg_min">, 1, 2}},
      {"Cumprod", {cumulative<"cumulative_product">, 2, 2}},
      {"Cumsum", {cumulative<"cumulative_sum">, 2, 2}},
      {"EuclideanNorm", {reduce<"reduce_l2">, 2, 2}},
      {"Max", {reduce<"reduce_max">, 2, 2}},
      {"Mean", {reduce<"reduce_mean">, 2, 2}},
      {"Min", {reduce<"reduce_min">, 2, 2}},
      {"Prod", {reduce<"reduce_prod">, 2, 2}},
      {"Sum", {reduce<"reduce_sum">, 2, 2}},
      {"TopK", {top_k, 1, 1}},
      {"TopKV2", {top_k, 2, 2}},
  };
  return table;
}

}  // namespace quern::tensorflow

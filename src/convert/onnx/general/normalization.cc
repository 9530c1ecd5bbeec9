// Normalizations.
#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

Parameters with_epsilon(const OnnxNode& node) { return Parameters().number("epsilon", node.number("epsilon", 1e-5f)); }

// Statistics are computed as double, whatever precision the attribute asks for.
Parameters with_stash_type(const OnnxNode& node) {
  if (node.integer("stash_type", 1) != 1) throw Unsupported{"statistics of other than f32"};
  return with_epsilon(node);
}

// Normalizes by the statistics of the input, and moves those that the model keeps towards them.
Values batch_in_training(const OnnxNode& node) {
  const Value x = node.value(0);
  std::vector<int64_t> axes = {0};
  for (size_t d = 2; d < rank_of(node, x); ++d) axes.push_back(static_cast<int64_t>(d));
  const auto mean_of = [&](const Value& of, bool keeps) {
    return make(node, "reduce_mean", {of}, Parameters().integers("axes", axes).integer("keep_dimensions", keeps));
  };
  const Value difference = make(node, "any_sub", {x, mean_of(x, true)});
  const Value mean = mean_of(x, false), variance = mean_of(make(node, "any_mul", {difference, difference}), false);
  const float momentum = node.number("momentum", 0.9f);
  const auto moved = [&](const Value& kept, const Value& now) {
    const Value old = make(node, "any_mul", {kept, number_of(node, momentum, kept.type)});
    return make(node, "any_add", {old, make(node, "any_mul", {now, number_of(node, 1 - momentum, kept.type)})});
  };
  const Value y =
      make(node, "batch_norm_computed", {x, node.value(1), node.value(2), mean, variance}, with_epsilon(node));
  return {y, moved(node.value(3), mean), moved(node.value(4), variance)};
}

Values batch(const OnnxNode& node) {
  if (node.integer("spatial", 1) == 0) throw Unsupported{"spatial: 0"};
  if (gives_statistics(node)) throw Unsupported{"in training"};
  if (node.integer("training_mode", 0) != 0) return batch_in_training(node);
  node.ignore("momentum");
  return of_kind(node, "batch_norm_computed", with_epsilon(node), {node.value(0).type});
}

Values instance(const OnnxNode& node) { return of_kind(node, "group_norm", with_epsilon(node), {node.value(0).type}); }

Values group(const OnnxNode& node) {
  if (!node.has_attribute("num_groups")) node.fail("num_groups is missing");
  return of_kind(node, "group_norm",
                 with_stash_type(node)
                     .integer("groups", node.integer("num_groups", 1))
                     .integer("scale_groups", node.opset < 21 ? 1 : 0),
                 {node.value(0).type});
}

Values layer(const OnnxNode& node) {
  return of_kind(node, "layer_norm", with_stash_type(node).integer("axis", node.integer("axis", -1)),
                 {node.value(0).type, ElementType::f32, ElementType::f32});
}

Values rms(const OnnxNode& node) {
  return of_kind(node, "rms_norm", with_stash_type(node).integer("axis", node.integer("axis", -1)),
                 {node.value(0).type});
}

Values mean_variance(const OnnxNode& node) {
  std::vector<int64_t> axes = {0, 2, 3};
  if (node.has_attribute("axes")) axes = node.integer_list("axes");
  return of_kind(node, "mean_variance_norm", Parameters().integers("axes", axes), {node.value(0).type});
}

Values lp(const OnnxNode& node) {
  return of_kind(node, "lp_norm",
                 Parameters().integer("p", node.integer("p", 2)).integer("axis", node.integer("axis", -1)),
                 {node.value(0).type});
}

Values global_lp_pool(const OnnxNode& node) {
  return of_kind(node, "global_lp_pool", Parameters().integer("p", node.integer("p", 2)), {node.value(0).type});
}

}  // namespace

const OnnxTable& general_normalization() {
  static const OnnxTable table = {
      {"BatchNormalization", {batch, 5, 5}},
      {"GlobalLpPool", {global_lp_pool, 1, 1}},
      {"GroupNormalization", {group, 3, 3}},
      {"InstanceNormalization", {instance, 3, 3}},
      {"LayerNormalization", {layer, 2, 3}},
      {"LpNormalization", {lp, 1, 1}},
      {"MeanVarianceNormalization", {mean_variance, 1, 1}},
      {"RMSNormalization", {rms, 2, 2}},
  };
  return table;
}

}  // namespace quern::onnx

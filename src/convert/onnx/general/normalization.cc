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

Values batch(const OnnxNode& node) {
  node.ignore("momentum");
  if (node.integer("training_mode", 0) != 0) throw Unsupported{"training_mode"};
  if (node.integer("spatial", 1) == 0) throw Unsupported{"spatial: 0"};
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

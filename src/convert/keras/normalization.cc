// Imports Keras' layers that normalize by statistics of the input itself.
#include <algorithm>

#include "convert/keras/node.h"

namespace quern::keras {
namespace {

// The field `axis`: one number or several, in ascending order, each once.
std::vector<size_t> axes_of(const KerasNode& node) {
  std::vector<int64_t> list = node.find("axis") != nullptr ? node.list("axis") : std::vector<int64_t>{-1};
  std::vector<size_t> axes;
  for (const int64_t axis : list) axes.push_back(node.axis(axis, node.view(0).rank()));
  if (axes.empty()) node.fail("'axis' is empty");
  if (!std::is_sorted(axes.begin(), axes.end()) || std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    throw Unsupported{"axes in another order"};
  }
  return axes;
}

// The input with some of its dimensions last, in a row.
struct Moved {
  View x;
  Order order;   // dimension i of x is the input's dimension order[i]
  size_t first;  // of the dimensions that are last
  Shape shape;   // of these
};

Moved with_last(const KerasNode& node, const std::vector<size_t>& axes) {
  const Shape shape = node.builder.shape(node.view(0));
  Moved moved = {{}, {}, shape.size() - axes.size(), {}};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) moved.order.push_back(static_cast<uint32_t>(d));
  }
  for (const size_t axis : axes) {
    moved.order.push_back(static_cast<uint32_t>(axis));
    moved.shape.push_back(shape[axis]);
    if (axis == 0) throw Unsupported{"over the first dimension"};
  }
  moved.x = node.builder.permute(node.view(0), moved.order);
  return moved;
}

View moved_back(const KerasNode& node, const View& y, const Order& order) {
  Order back(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) back[order[i]] = i;
  return node.builder.permute(y, back);
}

// The weights that the layer has if `flag` is set, or as many of one number.
View weight_or(const KerasNode& node, const char* flag, const char* role, const Shape& shape, float otherwise) {
  if (node.flag(flag, true)) return node.weight(role, shape);
  size_t count = 1;
  for (const size_t d : shape) count *= d;
  node.builder.charge(count * sizeof(float));
  return node.builder.constant(shape, std::vector<float>(count, otherwise).data());
}

Values layer_normalization(const KerasNode& node) {
  if (node.flag("rms_scaling", false)) throw Unsupported{"rms_scaling"};
  const Moved moved = with_last(node, axes_of(node));
  const View scale = weight_or(node, "scale", "gamma", moved.shape, 1);
  const View shift = weight_or(node, "center", "beta", moved.shape, 0);
  Parameters parameters =
      Parameters().integer("axis", static_cast<int64_t>(moved.first)).number("epsilon", node.number("epsilon", 1e-3f));
  const std::vector<ElementType> types(3, ElementType::f32);
  const Values y = node.custom("layer_norm", {moved.x, scale, shift}, std::move(parameters), types);
  return {moved_back(node, y[0].view, moved.order)};
}

// Keras aligns the scales at the right, whichever the axes are.
Values rms_normalization(const KerasNode& node) {
  const Moved moved = with_last(node, axes_of(node));
  if (moved.order != source_order(moved.order.size())) throw Unsupported{"along axes that are not the last ones"};
  const View scale = node.weight("scale", moved.shape);
  Parameters parameters =
      Parameters().integer("axis", static_cast<int64_t>(moved.first)).number("epsilon", node.number("epsilon", 1e-6f));
  const Values y = node.custom("rms_norm", {moved.x, scale}, std::move(parameters), {ElementType::f32});
  return {moved_back(node, y[0].view, moved.order)};
}

// Each group of neighbouring channels of each image. -1 groups: each channel is one.
Values group_normalization(const KerasNode& node) {
  const std::vector<size_t> axes = axes_of(node);
  if (axes.size() != 1 || axes[0] == 0) throw Unsupported{"along several axes, or the first one"};
  const Moved moved = with_last(node, axes);
  const size_t rank = moved.order.size(), channels = moved.shape[0];
  Order channels_second = {0, static_cast<uint32_t>(rank - 1)};
  for (uint32_t d = 1; d + 1 < rank; ++d) channels_second.push_back(d);
  const int64_t groups = node.whole("groups", 32);
  if (groups != -1 && (groups < 1 || channels % static_cast<size_t>(groups) != 0)) {
    node.fail("'groups' does not divide the " + std::to_string(channels) + " channels");
  }
  const View scale = weight_or(node, "scale", "gamma", {channels}, 1);
  const View shift = weight_or(node, "center", "beta", {channels}, 0);
  Parameters parameters = Parameters()
                              .integer("groups", groups == -1 ? static_cast<int64_t>(channels) : groups)
                              .number("epsilon", node.number("epsilon", 1e-3f));
  const View x = node.builder.permute(moved.x, channels_second);
  const Values y = node.custom("group_norm", {x, scale, shift}, std::move(parameters), {ElementType::f32});
  return {moved_back(node, moved_back(node, y[0].view, channels_second), moved.order)};
}

// x / sqrt(sum of squares)
Values unit_normalization(const KerasNode& node) {
  return {unit_length(node, node.name, node.view(0), axes_of(node), 1e-12f)};
}

}  // namespace

View unit_length(const KerasNode& node, const std::string& name, const View& x, const std::vector<size_t>& axes,
                 float least) {
  Builder& builder = node.builder;
  Parameters parameters = Parameters().integers("axes", {axes.begin(), axes.end()}).integer("keep_dimensions", 1);
  const View sums = builder.custom("reduce_sum_square", name + "/squares", {x}, std::move(parameters), {QN_F32})[0];
  const View square = builder.clamp(name + "/square", sums, node.is_keras_3 ? least * least : 1e-12f, infinity);
  return builder.binary(OpKind::mul, name, x, builder.power(name + "/factor", square, 1, 0, -0.5f));
}

const KerasRow* find_normalization(const std::string& type) {
  static const KerasTable kinds = {
      {"GroupNormalization", {group_normalization, 1, 1, MaskRule::pass}},
      {"LayerNormalization", {layer_normalization, 1, 1, MaskRule::pass}},
      {"RMSNormalization", {rms_normalization, 1, 1}},
      {"UnitNormalization", {unit_normalization, 1, 1, MaskRule::pass}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

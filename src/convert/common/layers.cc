#include "convert/common/layers.h"

#include <algorithm>

namespace quern::convert {
namespace {

// Returns a constant as the quantized integers that the file holds, if one constant has them, or else as floats.
const View& as_stored(const Value& constant) {
  return constant.quantized.size() == 1 ? constant.quantized[0] : constant.view;
}

// Repeats the elements of each group along a dimension: of a and b, where groups are one element, a a b b.
View repeated(Builder& builder, const std::string& name, const View& x, size_t axis, size_t groups, size_t times) {
  if (groups == 1) return builder.concat(name, std::vector<View>(times, x), axis);
  // A dimension is inserted, so that there is one for the groups and one for what is in a group. For reshaping, -2 - d
  // copies the size of dimension d.
  const auto count = static_cast<int64_t>(groups), in_group = static_cast<int64_t>(builder.shape(x)[axis] / groups);
  std::vector<int64_t> divided, merged;
  for (size_t d = 0; d < x.rank(); ++d) {
    const auto at = static_cast<int64_t>(d);
    divided.push_back(d == axis ? count : -2 - at);
    if (d == axis) divided.push_back(in_group);
    merged.push_back(d == axis ? count * in_group * static_cast<int64_t>(times) : d < axis ? -2 - at : -3 - at);
  }
  const View parts = builder.reshape(name + "/groups", x, divided);
  const View all = builder.concat(name + "/repeated", std::vector<View>(times, parts), axis + 1);
  return builder.reshape(name, all, merged);
}

}  // namespace

Factors factors(const SourceNode& node, const View& x, size_t axis, size_t groups, const Value& weights,
                size_t weights_axis) {
  const size_t times = weights.quantized.size();
  if (times <= 1 || !node.builder.is_dequantized(x)) return {x, as_stored(weights)};
  return {repeated(node.builder, node.name + "/input", x, axis, groups, times),
          node.builder.join_constants(weights.quantized, weights_axis)};
}

View bias_for(const View& weights, const Value& constant_weights, const Value& bias) {
  return weights.tensor == constant_weights.view.tensor ? bias.view : as_stored(bias);
}

View reduced_image(const SourceNode& node, OpKind kind, const View& x, const std::vector<int64_t>& axes, bool keep) {
  const size_t rank = x.rank();
  Order reduced, rest;
  for (const int64_t axis : axes) reduced.push_back(static_cast<uint32_t>(node.axis(axis, rank)));
  std::sort(reduced.begin(), reduced.end());
  for (uint32_t d = 0; d < rank; ++d) {
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) rest.push_back(d);
  }
  if (rank != 4 || reduced.size() != 2 || rest.size() != 2) throw Unsupported{"over other than two of four axes"};
  const Order order = {rest[0], rest[1], reduced[0], reduced[1]};
  const View pooled = node.builder.pool(kind, node.name, node.builder.permute(x, order), {});
  if (!keep) return node.builder.reshape(node.name + "/squeeze", pooled, {0, 0});
  Order back(4);
  for (uint32_t i = 0; i < 4; ++i) back[order[i]] = i;
  return node.builder.permute(pooled, back);
}

}  // namespace quern::convert

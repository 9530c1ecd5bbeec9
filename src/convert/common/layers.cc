#include "convert/common/layers.h"

#include <algorithm>
#include <cmath>

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
          node.builder.join_constants(weights.quantized, weights_axis, weights_axis)};
}

Factors convolution_factors(const SourceNode& node, const View& x, const Value& weights, Attributes* a) {
  constexpr size_t height = 2, width = 3;
  Builder& builder = node.builder;
  const size_t times = weights.quantized.size();
  const bool alone = a->groups > 1 && a->groups == builder.shape(x)[1];
  if (times <= 1 || !alone || a->dilation.h != 1 || !builder.is_dequantized(x)) {
    return factors(node, x, 1, a->groups, weights, 1);
  }
  // Padding of mode SAME is divided evenly, unless it is odd: then twice as much would be divided in another way.
  if (a->same_padding != SamePadding::no && (a->stride.h > 1 || a->kernel.h % 2 == 0)) {
    for (const size_t d : {height, width}) node.fix(builder.symbol(x, d));
    a->same_padding = SamePadding::no;
  }
  const std::string name = node.name + "/input";
  const View rows = builder.insert_dimension(name + "/rows", x, width);
  const View repeated_rows = builder.concat(name + "/repeated", std::vector<View>(times, rows), width);
  a->kernel.h *= times;
  a->stride.h *= times;
  a->padding.top *= times;
  a->padding.bottom *= times;
  return {builder.merge_dimensions(name, repeated_rows, height),
          builder.join_constants(weights.quantized, width, height)};
}

View bias_for(const View& weights, const Value& constant_weights, const Value& bias) {
  return weights.tensor == constant_weights.view.tensor ? bias.view : as_stored(bias);
}

void pad_same(const Builder& builder, const View& x, Attributes* a) {
  const Shape shape = builder.shape(x);
  a->same_padding = SamePadding::odd_pixel_last;
  same_padding(a->same_padding, shape[2], a->kernel.h, a->stride.h, a->dilation.h, &a->padding.top, &a->padding.bottom);
  same_padding(a->same_padding, shape[3], a->kernel.w, a->stride.w, a->dilation.w, &a->padding.left, &a->padding.right);
}

View normalized(const SourceNode& node, const View& x, size_t axis, const Normalization& n) {
  const size_t channels = axis < x.rank() ? node.builder.shape(x)[axis] : 0;
  for (const auto* list : {&n.gamma, &n.beta, &n.mean, &n.variance}) {
    if (list->size() != channels) node.fail("parameters do not fit the " + std::to_string(channels) + " channels");
  }
  std::vector<float> scale(channels), bias(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double s = n.gamma[c] / std::sqrt(n.variance[c] + n.epsilon);
    scale[c] = static_cast<float>(s);
    bias[c] = static_cast<float>(n.beta[c] - n.mean[c] * s);
  }
  return node.builder.scale(node.name, x, scale, bias, axis);
}

View sum_of(const SourceNode& node, const std::vector<View>& terms) {
  View total = terms.at(0);
  for (size_t i = 1; i < terms.size(); ++i) {
    const std::string name = i + 1 == terms.size() ? node.name : node.name + "/" + std::to_string(i);
    total = node.builder.binary(OpKind::add, name, total, terms[i]);
  }
  return total;
}

namespace {

constexpr int64_t max_factor = 1 << 10;  // as a float, it is exact

// How many times a dimension of the image is as large after resizing, whatever its size; 0: that is not known.
int64_t factor_of(const SourceNode& node, const Integers& size, size_t d) {
  const Symbols::Number from = node.dimension(0, 1 + d), to = size.at(d);
  if (to.symbol == no_symbol || from.value == 0 || to.value % from.value != 0) return 0;
  const int64_t factor = to.value / from.value;
  return node.builder.symbols().product(from, {factor}) == to.symbol ? factor : 0;
}

}  // namespace

Attributes resize_attributes(const SourceNode& node, qn_resize_kind mode, bool align_corners, bool half_pixel_centers,
                             size_t size_input) {
  const std::vector<int64_t>& size = node.symbolic(size_input).values;
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) node.fail("the size is not two positive numbers");
  if (align_corners && half_pixel_centers) node.fail("both align_corners and half_pixel_centers");
  Attributes a;
  a.mode = mode;
  a.coordinates = align_corners        ? QN_COORDINATES_ALIGN_CORNERS
                  : half_pixel_centers ? QN_COORDINATES_HALF_PIXEL
                                       : QN_COORDINATES_ASYMMETRIC;
  a.rounding = align_corners || (mode == QN_RESIZE_NEAREST && half_pixel_centers) ? QN_ROUND_HALF_UP : QN_ROUND_FLOOR;
  const int64_t height = factor_of(node, node.symbolic(size_input), 0);
  const int64_t width = factor_of(node, node.symbolic(size_input), 1);
  if (height != 0 && width != 0 && std::max(height, width) <= max_factor) {
    a.alpha = static_cast<float>(height);
    a.beta = static_cast<float>(width);
    return a;
  }
  node.integers(size_input);  // fixes them
  a.values = {size[0], size[1]};
  return a;
}

namespace {

View reduced_image(const SourceNode& node, OpKind kind, const View& x, const Order& order, bool keep) {
  const View pooled = node.builder.pool(kind, node.name, node.builder.permute(x, order), {});
  if (!keep) return node.builder.reshape(node.name + "/squeeze", pooled, {0, 0});
  Order back(4);
  for (uint32_t i = 0; i < 4; ++i) back[order[i]] = i;
  return node.builder.permute(pooled, back);
}

// Reduces the dimensions from `begin` to `end`. They become the height of an image, those after them its channels, and
// those before them are many images. Only the first dimension may change then.
View reduced_neighbours(const SourceNode& node, OpKind kind, const View& x, size_t begin, size_t end, bool keep) {
  Builder& builder = node.builder;
  const Shape shape = builder.shape(x);
  int64_t height = 1, channels = 1;
  std::vector<int64_t> result;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto size = static_cast<int64_t>(shape[d]);
    const bool is_reduced = d >= begin && d < end;
    if (d > 0 || is_reduced) {
      if (builder.is_open(builder.symbol(x, d))) throw Unsupported{"beside an open size"};
      node.fix(builder.symbol(x, d));
    }
    if (is_reduced) height *= size;
    if (d >= end) channels *= size;
    if (!is_reduced) result.push_back(d == 0 ? -1 : size);
    if (is_reduced && keep) result.push_back(1);
  }
  const View images = builder.reshape(node.name + "/image", x, {-1, height, 1, channels});
  const View pooled = builder.pool(kind, node.name, builder.permute(images, {0, 3, 1, 2}), {});
  return builder.reshape(node.name + "/shape", builder.permute(pooled, {0, 2, 3, 1}), result);
}

}  // namespace

View reduced(const SourceNode& node, OpKind kind, const View& x, const std::vector<int64_t>& axes, bool keep) {
  const size_t rank = x.rank();
  Order order, picked;
  for (const int64_t axis : axes) picked.push_back(static_cast<uint32_t>(node.axis(axis, rank)));
  std::sort(picked.begin(), picked.end());
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  for (uint32_t d = 0; d < rank; ++d) {
    if (std::find(picked.begin(), picked.end(), d) == picked.end()) order.push_back(d);
  }
  const bool leaves_two = order.size() == 2;
  order.insert(order.end(), picked.begin(), picked.end());
  if (rank == 4 && leaves_two) return reduced_image(node, kind, x, order, keep);
  if (picked.empty()) throw Unsupported{"over no axes"};
  const size_t begin = picked.front(), end = picked.back() + size_t{1};
  if (end - begin != picked.size()) throw Unsupported{"over axes that are apart"};
  return reduced_neighbours(node, kind, x, begin, end, keep);
}

}  // namespace quern::convert

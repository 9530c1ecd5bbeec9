// Imports Keras' layers that move elements.
#include <algorithm>

#include "convert/common/elements.h"
#include "convert/common/kinds.h"
#include "convert/keras/masks.h"

namespace quern::keras {
namespace {

// The channels come last before the other dimensions become one.
Values flatten(const KerasNode& node) {
  View x = node.view(0);
  if (x.rank() < 2) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  if (node.has_channels_first()) x = node.builder.permute(x, axis_last(x.rank(), 1));
  return {node.builder.reshape(node.name, x, {0, -1})};
}

Values reshape(const KerasNode& node) {
  std::vector<int64_t> shape = node.list("target_shape");
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < -1 || d == 0; })) {
    node.fail("'target_shape' is out of range");
  }
  shape.insert(shape.begin(), 0);
  return {convert::reshape(node, 0, shape)};
}

// `dims` counts from 1 on, without the first dimension.
Values permute(const KerasNode& node) {
  std::vector<int64_t> order = node.list("dims");
  order.insert(order.begin(), 0);
  return {convert::transpose(node, 0, order)};
}

Values repeat_vector(const KerasNode& node) {
  const size_t times = node.size("n");
  if (times > many_inputs) throw Unsupported{"more than " + std::to_string(many_inputs) + " times"};
  if (node.view(0).rank() != 2)
    node.fail("expected an input of one dimension beside the batch, got rank " + std::to_string(node.view(0).rank()));
  const View x = node.builder.reshape(node.name + "/row", node.view(0), {0, 1, copy_dimension(1, 2)});
  return {node.builder.concat(node.name, std::vector<View>(times, x), 1)};
}

// ---- borders ----------------------------------------------------------------------------------

// How many pixels are added or taken: before and after the height and the width.
struct Border {
  std::vector<int64_t> before = {0, 0, 0, 0}, after = {0, 0, 0, 0};  // of an image N, C, H, W
};

// The field is one number for all, one for each dimension, or a pair for each; for sequences, one number or a pair.
Border border(const KerasNode& node, const char* field, size_t spatial) {
  const Json* value = node.find(field);
  if (value == nullptr) node.fail(std::string("'") + field + "' is missing");
  const auto number = [&](const Json& json) {
    const int64_t pixels = integer_of(json, "layer '" + node.name + "': '" + field + "'");
    if (pixels < 0 || pixels > static_cast<int64_t>(max_extent)) {
      node.fail(std::string("'") + field + "' is out of range");
    }
    return pixels;
  };
  const auto bad_form = [&] { node.fail(std::string("'") + field + "' has an unknown form"); };
  if (value->is_array() && value->size() != 2) bad_form();
  Border border;
  for (size_t d = 0; d < spatial; ++d) {
    const Json& own = spatial == 2 && value->is_array() ? (*value)[d] : *value;
    if (own.is_array() && own.size() != 2) bad_form();
    const size_t at = 4 - spatial + d;
    border.before[at] = number(own.is_array() ? own[0] : own);
    border.after[at] = number(own.is_array() ? own[1] : own);
  }
  return border;
}

Values zero_padding(const KerasNode& node, size_t spatial) {
  const Border b = border(node, "padding", spatial);
  const View y = node.builder.pad(node.name, node.image(spatial), b.before, b.after, 0);
  return {node.from_image(y, spatial)};
}
Values zero_padding_1d(const KerasNode& node) { return zero_padding(node, 1); }
Values zero_padding_2d(const KerasNode& node) { return zero_padding(node, 2); }

Values cropping(const KerasNode& node, size_t spatial) {
  const Border b = border(node, "cropping", spatial);
  const View x = node.image(spatial);
  const Shape shape = node.builder.shape(x);
  std::vector<int64_t> end;
  for (size_t d = 0; d < 4; ++d) {
    if (b.before[d] + b.after[d] >= static_cast<int64_t>(shape[d])) node.fail("nothing is left of the input");
    end.push_back(-1 - b.after[d]);  // from behind
  }
  return {node.from_image(node.builder.slice(node.name, x, b.before, end), spatial)};
}
Values cropping_1d(const KerasNode& node) { return cropping(node, 1); }
Values cropping_2d(const KerasNode& node) { return cropping(node, 2); }

// Takes the middle of an image.
Values center_crop(const KerasNode& node) {
  const View x = node.image(2);
  const Shape shape = node.builder.shape(x);
  const size_t size[] = {node.size("height"), node.size("width")};
  std::vector<int64_t> begin(4, 0), end(4, -1);
  for (size_t d = 0; d < 2; ++d) {
    if (size[d] > shape[2 + d]) throw Unsupported{"of an image that is smaller"};
    node.builder.fix(node.builder.symbol(x, 2 + d), node.name);
    begin[2 + d] = static_cast<int64_t>((shape[2 + d] - size[d]) / 2);
    end[2 + d] = begin[2 + d] + static_cast<int64_t>(size[d]);
  }
  return {node.from_image(node.builder.slice(node.name, x, begin, end), 2)};
}

// ---- joining ----------------------------------------------------------------------------------

// The mask of an input with a bool for each element, or one for each row of Keras 2.
Value part_mask(const KerasNode& node, size_t i) {
  const Value& x = node.value(i);
  const Value* const mask = node.mask(i);
  if (mask == nullptr) return all_true(node, x);
  const size_t rank = rank_of(node, x), own = rank_of(node, *mask);
  if (own == rank) return *mask;
  if (own + 1 != rank) throw Unsupported{"a mask of rank " + std::to_string(own)};
  const Value rows = with_axis(node, *mask, -1);
  return node.is_keras_3 ? either(node, rows, negated(node, all_true(node, x))) : rows;
}

// Steps count if any element of them does, in Keras 2 if all do.
void join_masks(const KerasNode& node, int64_t axis) {
  Values masks;
  bool any = false;
  for (size_t i = 0; i < node.input_count(); ++i) any = any || node.mask(i) != nullptr;
  if (!any || node.is_function()) return;
  for (size_t i = 0; i < node.input_count(); ++i) masks.push_back(part_mask(node, i));
  const Value joint = joined(node, masks, axis);
  node.set_mask(0, node.is_keras_3 ? any_of_last(node, joint) : all_of_last(node, joint));
}

// The parts of a mask may be bools beside real numbers.
Values concatenate(const KerasNode& node) {
  const size_t axis = node.axis(node.whole("axis", -1), rank_of(node, node.value(0)));
  Values parts;
  bool all_real = true, all_bool = true;
  for (size_t i = 0; i < node.input_count(); ++i) {
    parts.push_back(node.value(i));
    all_real = all_real && is_float(parts.back().type);
    all_bool = all_bool && parts.back().type == ElementType::boolean;
  }
  if (all_real) {
    join_masks(node, static_cast<int64_t>(axis));
    return {convert::concat(node, axis)};
  }
  for (Value& part : parts) part = all_bool ? part : cast_to(node, part, ElementType::f32);
  return {joined(node, parts, static_cast<int64_t>(axis))};
}

}  // namespace

const KerasRow* find_shape(const std::string& type) {
  static const KerasTable kinds = {
      {"CenterCrop", {center_crop, 1, 1}},
      {"Concatenate", {concatenate, 1, many_inputs}},
      {"Cropping1D", {cropping_1d, 1, 1}},
      {"Cropping2D", {cropping_2d, 1, 1}},
      {"Flatten", {flatten, 1, 1}},
      {"Permute", {permute, 1, 1}},
      {"RepeatVector", {repeat_vector, 1, 1}},
      {"Reshape", {reshape, 1, 1}},
      {"ZeroPadding1D", {zero_padding_1d, 1, 1}},
      {"ZeroPadding2D", {zero_padding_2d, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

// Imports TensorFlow Lite's operators that move or select elements: shapes, slices, constants.
#include <algorithm>

#include "convert/common/elements.h"
#include "convert/common/fold.h"
#include "convert/tflite/node.h"

namespace quern::tflite {
namespace {

// ---- shapes and types -------------------------------------------------------------------------

Values shape_of(const TfliteNode& node) { return {convert::shape_of(node, 0, 0, node.dims(0).size())}; }
Values range(const TfliteNode& node) { return {convert::range(node)}; }

// ---- the same elements in another shape -------------------------------------------------------

Values reshape(const TfliteNode& node) {
  if (node.has(1)) return {reshape_to(node, 0, 1, true)};
  const auto* shape = node.options<schema::ReshapeOptions>().new_shape();
  if (shape == nullptr) node.fail("the shape is missing");
  return {convert::reshape(node, 0, std::vector<int64_t>(shape->begin(), shape->end()))};
}

Values squeeze(const TfliteNode& node) {
  const auto* dims = node.options<schema::SqueezeOptions>().squeeze_dims();
  if (dims == nullptr || dims->size() == 0) return {convert::squeeze(node, 0, std::nullopt)};
  return {convert::squeeze(node, 0, std::vector<int64_t>(dims->begin(), dims->end()))};
}

int64_t only_integer(const TfliteNode& node, size_t input) {
  const std::vector<int64_t>& values = node.integers(input).values;
  if (values.size() != 1) node.fail("input " + std::to_string(input) + " is not one number");
  return values[0];
}

Values expand_dims(const TfliteNode& node) { return {unsqueeze(node, 0, {only_integer(node, 1)})}; }
Values transpose(const TfliteNode& node) { return {convert::transpose(node, 0, node.integers(1).values)}; }

// ---- parts ------------------------------------------------------------------------------------

Values slice(const TfliteNode& node) {
  const Integers &begin = node.integers(1), &size = node.integers(2);
  const Shape shape = node.dims(0);
  if (begin.values.size() != shape.size() || size.values.size() != shape.size()) node.fail("the part does not fit");
  std::vector<Part> parts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t from = begin.values[d], count = size.values[d], all = static_cast<int64_t>(shape[d]);
    if (from < 0 || from > all || count < -1 || (count > 0 && count > all - from)) node.fail("the part does not fit");
    if (from == 0 && (count == -1 || count == all)) continue;
    parts.push_back({d, {from}, {count == -1 ? INT64_MAX : from + count}, 1});
  }
  if (parts.empty()) return {node.value(0)};
  return {convert::slice(node, 0, parts)};
}

// Takes part of each dimension, and drops the dimensions of which one index is taken.
Values strided_slice(const TfliteNode& node) {
  const auto& o = node.options<schema::StridedSliceOptions>();
  if (o.ellipsis_mask() != 0 || o.new_axis_mask() != 0 || o.offset()) throw Unsupported{"masks or an offset"};
  const std::vector<int64_t>&begin = node.integers(1).values, &end = node.integers(2).values,
        &steps = node.integers(3).values;
  const Shape shape = node.dims(0);
  if (begin.size() > shape.size() || end.size() != begin.size() || steps.size() != begin.size()) {
    node.fail("begin, end and strides do not fit the input");
  }
  std::vector<Part> parts;
  std::vector<int64_t> dropped;
  for (size_t d = 0; d < begin.size(); ++d) {
    const auto masked = [d](int32_t mask) { return (mask >> d & 1) != 0; };
    const bool one = masked(o.shrink_axis_mask());
    if (steps[d] == 0) node.fail("a stride is zero");
    if (one) {
      dropped.push_back(static_cast<int64_t>(d));
      const int64_t at = masked(o.begin_mask()) ? 0 : begin[d];
      parts.push_back({d, {at}, {at == -1 ? INT64_MAX : at + 1}, 1});
      continue;
    }
    const bool back = steps[d] < 0;
    const int64_t first = masked(o.begin_mask()) ? (back ? INT64_MAX : 0) : begin[d];
    const int64_t last = masked(o.end_mask()) ? (back ? INT64_MIN : INT64_MAX) : end[d];
    if (steps[d] != 1 || first != 0 || last < static_cast<int64_t>(shape[d]))
      parts.push_back({d, {first}, {last}, steps[d]});
  }
  const Value part = parts.empty() ? node.value(0) : convert::slice(node, 0, parts);
  if (dropped.empty()) return {part};
  const std::string name = node.name + "/squeeze";
  return {convert::squeeze(node.with({&part}, name), 0, dropped)};
}

Values split_into(const TfliteNode& node, size_t input, int64_t axis, std::vector<int64_t> sizes) {
  return convert::split(node, input, node.axis(axis, node.dims(input).size()), sizes);
}

Values split(const TfliteNode& node) {
  const int64_t count = node.options<schema::SplitOptions>().num_splits(), axis = only_integer(node, 0);
  const auto size = static_cast<int64_t>(node.dims(1)[node.axis(axis, node.dims(1).size())]);
  if (count < 1 || size % count != 0) node.fail("the dimension does not divide into equal parts");
  return split_into(node, 1, axis, std::vector<int64_t>(static_cast<size_t>(count), size / count));
}

// One size may be -1: what is left.
Values split_v(const TfliteNode& node) {
  const int64_t axis = only_integer(node, 2);
  std::vector<int64_t> sizes = node.integers(1).values;
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    *open = static_cast<int64_t>(node.dims(0)[node.axis(axis, node.dims(0).size())]);
    for (auto size = sizes.begin(); size != sizes.end(); ++size) {
      if (size == open) continue;
      if (*size < 0 || *size > *open) node.fail("the sizes do not fit the dimension");
      *open -= *size;
    }
  }
  return split_into(node, 0, axis, sizes);
}

Values unpack(const TfliteNode& node) {
  const auto& o = node.options<schema::UnpackOptions>();
  const Shape shape = node.dims(0);
  const size_t axis = node.axis(o.axis(), shape.size());
  Values values = convert::split(node, 0, axis, std::vector<int64_t>(shape[axis], 1));
  for (size_t i = 0; i < values.size(); ++i) {
    const Value part = values[i];
    const std::string name = node.name + "/" + std::to_string(i);
    values[i] = convert::squeeze(node.with({&part}, name), 0, std::vector{static_cast<int64_t>(axis)});
  }
  return values;
}

Values gather(const TfliteNode& node) {
  const auto& o = node.options<schema::GatherOptions>();
  if (o.batch_dims() != 0) throw Unsupported{"batch_dims"};
  return {convert::gather(node, 0, 1, node.axis(o.axis(), node.dims(0).size()))};
}

// ---- joining, padding -------------------------------------------------------------------------

Values concatenation(const TfliteNode& node) {
  const auto& o = node.options<schema::ConcatenationOptions>();
  if (node.is_integer(0) && node.scales(0).scales.empty()) return {concat_integers(node)};
  std::vector<View> views;
  for (size_t i = 0; i < node.input_count(); ++i) views.push_back(node.real_view(i));
  const size_t axis = node.axis(o.axis(), views[0].rank());
  return {node.result(node.builder.concat(node.name, views, axis), o.activation())};
}

// Joins tensors along a new dimension.
Values pack(const TfliteNode& node) {
  const auto& o = node.options<schema::PackOptions>();
  std::vector<Value> values;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const std::string name = node.name + "/" + std::to_string(i);
    values.push_back(unsqueeze(node.with({&node.value(i)}, name), 0, {o.axis()}));
  }
  std::vector<const Value*> inputs;
  for (const Value& value : values) inputs.push_back(&value);
  const SourceNode joined = node.with(inputs, node.name);
  if (joined.is_integer(0)) return {concat_integers(joined)};
  return {convert::concat(joined, node.axis(o.axis(), joined.any_view(0).rank()))};
}

Values pad_with(const TfliteNode& node, float value) {
  const View x = node.real_view(0);
  const std::vector<int64_t>& pads = node.integers(1).values;
  if (pads.size() != 2 * x.rank()) node.fail("pads do not fit the input");
  std::vector<int64_t> before, after;
  for (size_t d = 0; d < x.rank(); ++d) {
    before.push_back(pads[2 * d]);
    after.push_back(pads[2 * d + 1]);
  }
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0 || p > INT32_MAX; })) {
    node.fail("pads are out of range");
  }
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return {node.value(0)};
  return {node.result(node.builder.pad(node.name, x, before, after, value))};
}
Values pad(const TfliteNode& node) { return pad_with(node, 0); }
Values pad_v2(const TfliteNode& node) {
  const std::vector<float> value = node.real_numbers(2);
  if (value.size() != 1) node.fail("the value is not one number");
  return pad_with(node, node.finite(value[0], "value"));
}

}  // namespace

const TfliteRow* find_shape(const std::string& type) {
  static const TfliteTable kinds = {
      {"CONCATENATION", {concatenation, 1, many_inputs}},
      {"EXPAND_DIMS", {expand_dims, 2, 2}},
      {"GATHER", {gather, 2, 2}},
      {"PACK", {pack, 1, many_inputs}},
      {"PAD", {pad, 2, 2}},
      {"PADV2", {pad_v2, 3, 3}},
      {"RANGE", {range, 3, 3}},
      {"RESHAPE", {reshape, 1, 2}},
      {"SHAPE", {shape_of, 1, 1}},
      {"SLICE", {slice, 3, 3}},
      {"SPLIT", {split, 2, 2}},
      {"SPLIT_V", {split_v, 3, 3}},
      {"SQUEEZE", {squeeze, 1, 1}},
      {"STRIDED_SLICE", {strided_slice, 4, 4}},
      {"TRANSPOSE", {transpose, 2, 2}},
      {"UNPACK", {unpack, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::tflite

// Imports TensorFlow Lite's operators that move or select elements: shapes, slices, constants.
#include <limits>
#include <numeric>

#include "convert/common/elements.h"
#include "convert/common/fold.h"
#include "convert/tflite/node.h"

namespace quern::tflite {
namespace {

// ---- shapes and types -------------------------------------------------------------------------

Values shape_of(const TfliteNode& node) {
  Value shape = convert::shape_of(node, 0, 0, node.dims(0).size());
  shape.type = node.output_type(0);
  return {shape};
}
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
  return {slice_sizes(node, 0, node.integers(1).values, node.integers(2).values)};
}

// The ends of a strided slice. One that is the whole of an open dimension follows it: it lies as far behind as can be.
std::vector<int64_t> ends_of(const TfliteNode& node) {
  const auto& o = node.options<schema::StridedSliceOptions>();
  if (o.ellipsis_mask() != 0 || o.new_axis_mask() != 0 || node.is_integer(0)) return node.integers(2).values;
  const Integers& ends = node.symbolic(2);
  std::vector<int64_t> values = ends.values;
  const std::vector<int64_t>& steps = node.integers(3).values;
  for (size_t d = 0; d < values.size(); ++d) {
    const bool is_dimension = d < node.dims(0).size() && d < steps.size() && steps[d] > 0;
    if (ends.symbols[d] != no_symbol && is_dimension && node.dimension(0, d).symbol == ends.symbols[d]) {
      values[d] = std::numeric_limits<int32_t>::max();
    } else {
      node.fix(ends.symbols[d]);
    }
  }
  return values;
}

// Takes part of each dimension, and drops the dimensions of which one index is taken.
Values strided_slice(const TfliteNode& node) {
  const auto& o = node.options<schema::StridedSliceOptions>();
  if (o.offset()) throw Unsupported{"an offset"};
  Brackets b{node.integers(1).values, ends_of(node), node.integers(3).values};
  const size_t items = std::min(b.begin.size(), size_t{32});  // slice_brackets() refuses more
  // Where one index is taken, TensorFlow Lite heeds this mask.
  for (size_t d = 0; d < items; ++d) {
    if ((o.begin_mask() & o.shrink_axis_mask()) >> d & 1) b.begin[d] = 0;
  }
  b.begin_mask = o.begin_mask();
  b.end_mask = o.end_mask();
  b.ellipsis_mask = o.ellipsis_mask();
  b.new_axis_mask = o.new_axis_mask();
  b.one_mask = o.shrink_axis_mask();
  return {slice_brackets(node, 0, b)};
}

// Parts of a list of known integers, such as a shape. They may be empty.
Values split_integers(const TfliteNode& node, size_t input, const std::vector<int64_t>& sizes) {
  Values parts;
  size_t begin = 0;
  const size_t count = node.dims(input)[0];
  for (const int64_t size : sizes) {
    if (size < 0 || static_cast<size_t>(size) > count - begin) node.fail("split does not fit the dimension");
    std::vector<size_t> places(static_cast<size_t>(size));
    std::iota(places.begin(), places.end(), begin);
    begin += places.size();
    parts.push_back(take(node, input, {places.size()}, places));
  }
  if (begin != count) node.fail("split does not cover the dimension");
  return parts;
}

Values split_into(const TfliteNode& node, size_t input, int64_t axis, std::vector<int64_t> sizes) {
  if (node.is_integer(input) && node.dims(input).size() == 1) return split_integers(node, input, sizes);
  return convert::split(node, input, node.axis(axis, node.dims(input).size()), sizes);
}

Values split(const TfliteNode& node) {
  const int64_t count = node.options<schema::SplitOptions>().num_splits(), axis = only_integer(node, 0);
  const auto size = static_cast<int64_t>(node.dims(1)[node.axis(axis, node.dims(1).size())]);
  if (count < 1 || size % count != 0) node.fail("the dimension does not divide into equal parts");
  if (static_cast<size_t>(count) != node.output_count()) node.fail("does not have as many outputs as parts");
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

Values unpack(const TfliteNode& node) { return unstack(node, 0, node.options<schema::UnpackOptions>().axis()); }

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

// How many elements a tensor has, of its shape.
Values reduce_prod(const TfliteNode& node) {
  if (!node.is_integer(0) || node.symbolic(0).shape.size() != 1) throw Unsupported{"of other than a shape"};
  const std::vector<int64_t>& axes = node.integers(1).values;
  if (axes.size() != 1 || node.axis(axes[0], 1) != 0) throw Unsupported{"over other axes"};
  return {product_of(node, 0, node.options<schema::ReducerOptions>().keep_dims())};
}

Values pack(const TfliteNode& node) { return {stack(node, node.options<schema::PackOptions>().axis())}; }

Values pad_with(const TfliteNode& node, float value) {
  const View x = node.real_view(0), y = convert::pad(node, x, node.integers(1).values, value);
  return {y.tensor == x.tensor ? node.value(0) : node.result(y)};
}
Values pad(const TfliteNode& node) { return pad_with(node, 0); }
Values pad_v2(const TfliteNode& node) {
  const std::vector<float> value = node.real_numbers(2);
  if (value.size() != 1) node.fail("the value is not one number");
  return pad_with(node, node.finite_or_general(value[0], "value"));
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
      {"REDUCE_PROD", {reduce_prod, 2, 2}},
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

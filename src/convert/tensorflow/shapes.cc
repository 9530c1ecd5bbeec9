// Imports TensorFlow's operators that move or select elements: shapes, slices, constants.
#include <algorithm>

#include "convert/common/elements.h"
#include "convert/common/fold.h"
#include "convert/common/kinds.h"
#include "convert/common/quantized.h"
#include "convert/tensorflow/node.h"

namespace quern::tensorflow {
namespace {

// ---- what passes on its input -----------------------------------------------------------------

Values identity(const TfNode& node) { return {node.value(0)}; }

Values identity_n(const TfNode& node) {
  Values values;
  for (size_t i = 0; i < node.input_count(); ++i) values.push_back(node.value(i));
  return values;
}

// A shape that the source promises.
Values ensure_shape(const TfNode& node) {
  node.ignore("shape");
  return {node.value(0)};
}

// Has its default, unless it is made an input.
Values placeholder_with_default(const TfNode& node) {
  node.ignore("shape");
  return {node.value(0)};
}

// Passes a tensor into a loop. One that does not change there is the same in each round.
Values enter(const TfNode& node) {
  if (!node.flag("is_constant", false)) throw Unsupported{"a variable of a loop"};
  for (const char* unused : {"frame_name", "parallel_iterations"}) node.ignore(unused);
  return {node.value(0)};
}

// Passes its input to one of two branches. Here the tensors of either branch have the values that they have when it is
// taken; Merge, which chooses between them, is not supported but as a part of what raise.h finds.
Values switched(const TfNode& node) { return {node.value(0), node.value(0)}; }

// ---- shapes and types -------------------------------------------------------------------------

Values shape_of(const TfNode& node) {
  Value shape = convert::shape_of(node, 0, 0, node.dims(0).size());
  shape.type = node.index_type("out_type", ElementType::s32);
  return {shape};
}
Values range(const TfNode& node) { return {convert::range(node)}; }

Values fill(const TfNode& node) {
  node.expect_closed(0);
  const std::vector<int64_t>& shape = node.integers(0).values;
  const Array one = node.is_integer(1) ? make_array<int64_t>(ElementType::i64, {}, {node.only_integer(1)})
                                       : make_array<float>(ElementType::f32, {}, {node.scalar(1)});
  const Array all = filled(node, one, shape);
  node.builder.charge(all.bytes.size());
  Value value = constant_value(node.builder, all);
  value.type = node.value(1).type;
  return {value};
}

Values cast(const TfNode& node) {
  const std::optional<ElementType> to = element_type(node.type("DstT"));
  if (!to) throw Unsupported{"to " + schema::DataType_Name(node.type("DstT"))};
  if (node.flag("Truncate", false)) throw Unsupported{"Truncate"};
  const bool computed_bytes = is_byte(node.value(0).type) && !node.is_constant(0);
  if (!computed_bytes || !is_float(*to)) return {convert::cast(node, 0, *to)};
  Value value = dequantized(node, 0, {{1}, {}, 0});
  value.type = *to;
  return {value};
}

// The product of all integers of a list, such as a shape.
Values prod(const TfNode& node) {
  if (node.symbolic(0).shape.size() != 1 || node.axis(node.only_integer(1), 1) != 0) throw Unsupported{"of a matrix"};
  return {product_of(node, 0, node.flag("keep_dims", false))};
}

// ---- the same elements in another shape -------------------------------------------------------

Values reshape(const TfNode& node) { return {reshape_to(node, 0, 1, true)}; }

Values squeeze(const TfNode& node) {
  const std::vector<int64_t> dims = node.integer_list("squeeze_dims");
  return {convert::squeeze(node, 0, dims.empty() ? std::nullopt : std::optional(dims))};
}

Values expand_dims(const TfNode& node) { return {unsqueeze(node, 0, {node.only_integer(1)})}; }
Values transpose(const TfNode& node) { return {convert::transpose(node, 0, node.integers(1).values)}; }

// ---- parts ------------------------------------------------------------------------------------

Values slice(const TfNode& node) { return {slice_sizes(node, 0, node.integers(1).values, node.integers(2).values)}; }

Values strided_slice(const TfNode& node) {
  for (const size_t bounds : {1, 2}) node.expect_closed(bounds);
  Brackets b{node.integers(1).values, node.integers(2).values, node.integers(3).values};
  b.begin_mask = node.integer("begin_mask", 0);
  b.end_mask = node.integer("end_mask", 0);
  b.ellipsis_mask = node.integer("ellipsis_mask", 0);
  b.new_axis_mask = node.integer("new_axis_mask", 0);
  b.one_mask = node.integer("shrink_axis_mask", 0);
  return {slice_brackets(node, 0, b)};
}

// Few bytes of the file can ask for many parts.
void charge_parts(const TfNode& node, int64_t count) {
  if (count > 256) throw Unsupported{"more than 256 parts"};
  node.builder.charge(static_cast<size_t>(std::max<int64_t>(count, 0)) * 4096);
}

Values split(const TfNode& node) {
  const int64_t count = node.integer("num_split");
  charge_parts(node, count);
  const size_t axis = node.axis(node.only_integer(0), node.dims(1).size());
  const auto size = static_cast<int64_t>(node.dims(1)[axis]);
  if (count < 1 || count > size || size % count != 0) node.fail("the dimension does not divide into equal parts");
  return convert::split(node, 1, axis, std::vector<int64_t>(static_cast<size_t>(count), size / count));
}

// One of the sizes may be -1: the rest.
Values split_v(const TfNode& node) {
  charge_parts(node, node.integer("num_split"));
  const size_t axis = node.axis(node.only_integer(2), node.dims(0).size());
  std::vector<int64_t> sizes = node.integers(1).values;
  if (node.integer("num_split") != static_cast<int64_t>(sizes.size())) node.fail("num_split does not fit the sizes");
  auto rest = static_cast<int64_t>(node.dims(0)[axis]);
  for (const int64_t size : sizes) {
    if (size < -1 || size > rest) node.fail("split does not fit the dimension");
    if (size > 0) rest -= size;
  }
  if (const auto open = std::find(sizes.begin(), sizes.end(), -1); open != sizes.end()) *open = rest;
  return convert::split(node, 0, axis, sizes);
}

Values unpack(const TfNode& node) {
  charge_parts(node, node.integer("num"));
  const int64_t axis = node.integer("axis", 0);
  const size_t d = node.axis(axis, node.dims(0).size());
  if (node.integer("num") != static_cast<int64_t>(node.dims(0)[d])) node.fail("num does not fit the input");
  return unstack(node, 0, axis);
}

Values gather(const TfNode& node) { return {convert::gather(node, 0, 1, node.axis(0, node.dims(0).size()))}; }
Values gather_v2(const TfNode& node) {
  if (node.integer("batch_dims", 0) != 0) throw Unsupported{"batch_dims"};
  return {convert::gather(node, 0, 1, node.axis(node.only_integer(2), node.dims(0).size()))};
}

// ---- joining, repeating, padding --------------------------------------------------------------

// Joins the inputs from `first` on, `count` of them.
Values concat(const TfNode& node, size_t first, size_t count, int64_t axis) {
  std::vector<const Value*> inputs;
  for (size_t i = first; i < first + count; ++i) inputs.push_back(&node.value(i));
  const SourceNode parts = node.with(inputs, node.name);
  const size_t d = node.axis(axis, parts.dims(0).size());
  return {parts.is_integer(0) ? concat_integers(parts) : convert::concat(parts, d)};
}
Values concat(const TfNode& node) { return concat(node, 1, node.input_count() - 1, node.only_integer(0)); }
Values concat_v2(const TfNode& node) {
  const size_t last = node.input_count() - 1;
  return concat(node, 0, last, node.only_integer(last));
}

Values pack(const TfNode& node) { return {stack(node, node.integer("axis", 0))}; }

Values tile(const TfNode& node) {
  node.expect_closed(1);
  const std::vector<int64_t>& times = node.integers(1).values;
  View x = node.view(0);
  if (times.size() != x.rank()) node.fail("multiples do not fit the input");
  for (size_t d = 0; d < times.size(); ++d) {
    if (times[d] < 1) node.fail("a multiple is not positive");
    charge_parts(node, times[d]);
    if (times[d] == 1) continue;
    const std::vector<View> parts(static_cast<size_t>(times[d]), x);
    x = node.builder.concat(node.name + "/" + std::to_string(d), parts, d);
  }
  return {node.result(x)};
}

Values pad(const TfNode& node) { return {node.result(convert::pad(node, node.view(0), node.integers(1).values, 0))}; }
Values pad_v2(const TfNode& node) {
  const float value = node.finite_or_general(node.scalar(2), "value");
  return {node.result(convert::pad(node, node.view(0), node.integers(1).values, value))};
}

// The indices of a dimension, mirrored at its ends. `skip`: how often the ends themselves are left out.
std::vector<int64_t> mirrored(int64_t size, int64_t before, int64_t after, int64_t skip) {
  std::vector<int64_t> indices;
  for (int64_t i = before; i-- > 0;) indices.push_back(i + skip);
  for (int64_t i = 0; i < size; ++i) indices.push_back(i);
  for (int64_t i = 0; i < after; ++i) indices.push_back(size - 1 - skip - i);
  return indices;
}

// Picks the elements of each dimension in turn.
Values mirror_pad(const TfNode& node) {
  const std::string mode = node.text("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") node.fail("mode is '" + mode + "'");
  const int64_t skip = mode == "REFLECT" ? 1 : 0;
  const std::vector<int64_t>& pads = node.integers(1).values;
  Value x = node.value(0);
  const Shape shape = node.dims(0);
  if (pads.size() != 2 * shape.size()) node.fail("pads do not fit the input");
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto size = static_cast<int64_t>(shape[d]);
    const int64_t before = pads[2 * d], after = pads[2 * d + 1];
    if (before < 0 || after < 0 || before > size - skip || after > size - skip) node.fail("pads are out of range");
    if (before == 0 && after == 0) continue;
    charge_parts(node, before + after);
    node.builder.charge((shape[d] + 256) * sizeof(int64_t));
    node.fix(node.dimension(0, d).symbol);
    const std::vector<int64_t> indices = mirrored(size, before, after, skip);
    const Value picks = integer_value({{indices.size()}, indices, {}});
    const std::string name = node.name + "/" + std::to_string(d);
    x = convert::gather(node.with({&x, &picks}, name), 0, 1, d);
  }
  return {x};
}

}  // namespace

const TfRow* find_shape(const std::string& op) {
  static const TfTable kinds = {
      {"Cast", {cast, 1, 1}},
      {"CheckNumerics", {identity, 1, 1}},
      {"Concat", {concat, 2, many_inputs}},
      {"ConcatV2", {concat_v2, 2, many_inputs}},
      {"EnsureShape", {ensure_shape, 1, 1}},
      {"Enter", {enter, 1, 1}},
      {"ExpandDims", {expand_dims, 2, 2}},
      {"Fill", {fill, 2, 2}},
      {"Gather", {gather, 2, 2}},
      {"GatherV2", {gather_v2, 3, 3}},
      {"Identity", {identity, 1, 1}},
      {"IdentityN", {identity_n, 1, many_inputs}},
      {"MirrorPad", {mirror_pad, 2, 2}},
      {"Pack", {pack, 1, many_inputs}},
      {"Pad", {pad, 2, 2}},
      {"PadV2", {pad_v2, 3, 3}},
      {"PreventGradient", {identity, 1, 1}},
      {"PlaceholderWithDefault", {placeholder_with_default, 1, 1}},
      {"Prod", {prod, 2, 2}},
      {"Range", {range, 3, 3}},
      {"Reshape", {reshape, 2, 2}},
      {"Shape", {shape_of, 1, 1}},
      {"Slice", {slice, 3, 3}},
      {"Snapshot", {identity, 1, 1}},
      {"Split", {split, 2, 2}},
      {"SplitV", {split_v, 3, 3}},
      {"Squeeze", {squeeze, 1, 1}},
      {"StopGradient", {identity, 1, 1}},
      {"StridedSlice", {strided_slice, 4, 4}},
      {"Switch", {switched, 1, 1}},
      {"Tile", {tile, 2, 2}},
      {"Transpose", {transpose, 2, 2}},
      {"Unpack", {unpack, 1, 1}},
  };
  return find_in(kinds, op);
}

}  // namespace quern::tensorflow

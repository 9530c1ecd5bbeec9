// Operators that cut, join, pad and repeat tensors, or change their shapes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "convert/common/elements.h"
#include "convert/common/images.h"
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

// ---- shapes -----------------------------------------------------------------------------------

Values reshape(const TfliteNode& node) {
  Value shape = node.any(1);
  if (!shape) {
    const auto* const sizes = node.options<schema::ReshapeOptions>().new_shape();
    if (sizes == nullptr) node.fail("the shape is missing");
    shape = integer_list({sizes->begin(), sizes->end()});
  }
  return {node.typed(make(node, "reshape_to", {node.any(0), shape}, Parameters().integer("allow_zero", 1)))};
}

Values squeeze(const TfliteNode& node) {
  const auto* const axes = node.options<schema::SqueezeOptions>().squeeze_dims();
  Values inputs = {node.any(0)};
  if (axes != nullptr && axes->size() > 0) inputs.push_back(integer_list({axes->begin(), axes->end()}));
  return {node.typed(make(node, "squeeze", inputs))};
}

Values expand_dims(const TfliteNode& node) {
  return {node.typed(with_axis(node, node.any(0), only_integer_of(node, 1)))};
}
Values transpose(const TfliteNode& node) { return {node.typed(permuted(node, node.any(0), node.integers(1).values))}; }
Values shape(const TfliteNode& node) { return {node.typed(shape_of(node, node.any(0)))}; }
Values rank(const TfliteNode& node) {
  return {integer_number(static_cast<int64_t>(rank_of(node, node.any(0))), node.output_type(0))};
}
Values fill(const TfliteNode& node) { return {node.typed(filled(node, node.any(0), node.any(1)))}; }
Values range(const TfliteNode& node) { return {node.typed(range_of(node, node.any(0), node.any(1), node.any(2)))}; }
Values broadcast_args(const TfliteNode& node) {
  const Value number = number_of(node, 0, ElementType::f32);
  const Value one = filled(node, node.any(0), number), other = filled(node, node.any(1), number);
  return {node.typed(shape_of(node, make(node, "any_add", {one, other})))};
}

// ---- parts ------------------------------------------------------------------------------------

// Where begin or size is computed, as loops do that replace a row of a tensor. A size of -1 takes all that follow.
Value sliced_in_run(const TfliteNode& node) {
  const Value begin = cast_to(node, node.any(1), ElementType::i64), size = cast_to(node, node.any(2), ElementType::i64);
  const Value takes_all = make(node, "less", {size, integer_number(0)}, {}, ElementType::boolean);
  const Value last = integer_number(std::numeric_limits<int64_t>::max());
  const Value end = make(node, "where", {takes_all, last, make(node, "any_add", {begin, size})}, {}, ElementType::i64);
  std::vector<int64_t> axes(rank_of(node, node.any(0)));
  std::iota(axes.begin(), axes.end(), 0);
  return make(node, "slice_by", {node.any(0), begin, end, integer_list(axes)});
}

Values slice(const TfliteNode& node) {
  if (!node.is_integer(1) || !node.is_integer(2)) return {node.typed(sliced_in_run(node))};
  return {node.typed(sliced_sizes(node, node.any(0), node.integers(1).values, node.integers(2).values))};
}

Values strided_slice(const TfliteNode& node) {
  const auto& o = node.options<schema::StridedSliceOptions>();
  if (o.offset() || o.ellipsis_mask() != 0 || o.new_axis_mask() != 0) throw Unsupported{"of this form"};
  std::vector<int64_t> begin = node.integers(1).values, end = node.integers(2).values, axes, dropped;
  const std::vector<int64_t>& step = node.integers(3).values;
  if (begin.size() != end.size() || begin.size() != step.size() || begin.size() > 31) node.fail("lists do not fit");
  for (size_t d = 0; d < begin.size(); ++d) {
    axes.push_back(static_cast<int64_t>(d));
    const bool one = (o.shrink_axis_mask() >> d & 1) != 0, up = step[d] > 0;
    if ((o.begin_mask() >> d & 1) != 0) begin[d] = up || one ? 0 : std::numeric_limits<int64_t>::max();
    if ((o.end_mask() >> d & 1) != 0) end[d] = std::numeric_limits<int64_t>::max() * (up ? 1 : -1);
    if (!one) continue;
    if (!up) throw Unsupported{"one index with a negative step"};
    end[d] = end_of_one(begin[d]);
    dropped.push_back(static_cast<int64_t>(d));
  }
  Value y = sliced(node, node.any(0), begin, end, axes, step);
  if (!dropped.empty()) y = make(node, "squeeze", {y, integer_list(dropped)});
  return {node.typed(y)};
}

Values parts_of(const TfliteNode& node, const Value& x, const Values& sizes, int64_t axis) {
  const size_t count = node.output_count();
  Values inputs = {x};
  inputs.insert(inputs.end(), sizes.begin(), sizes.end());
  Parameters parameters =
      Parameters().integer("axis", axis).integer("parts", static_cast<int64_t>(count)).integer("even", 1);
  Values parts = make_all(node, "split_to", inputs, std::move(parameters), std::vector<ElementType>(count, x.type));
  for (size_t i = 0; i < count; ++i) parts[i] = node.typed(parts[i], i);
  return parts;
}
Values split(const TfliteNode& node) { return parts_of(node, node.any(1), {}, only_integer_of(node, 0)); }
Values split_v(const TfliteNode& node) {
  for (const int64_t size : node.integers(1).values) {
    if (size < 0) throw Unsupported{"a size that is inferred"};
  }
  return parts_of(node, node.any(0), {node.any(1)}, only_integer_of(node, 2));
}

Values unpack(const TfliteNode& node) {
  const int64_t axis = node.options<schema::UnpackOptions>().axis();
  const Value x = node.any(0);
  Values parts;
  for (size_t i = 0; i < node.output_count(); ++i) {
    const Value index = integer_number(static_cast<int64_t>(i));
    parts.push_back(node.typed(make(node, "gather", {x, index}, Parameters().integer("axis", axis)), i));
  }
  return parts;
}

Values reverse_v2(const TfliteNode& node) { return {node.typed(reversed(node, node.any(0), node.integers(1).values))}; }
Values reverse_sequence(const TfliteNode& node) {
  const auto& o = node.options<schema::ReverseSequenceOptions>();
  const Value x = node.any(0);
  const int64_t batch = o.batch_dim(), time = o.seq_dim();
  if (!((batch == 0 && time == 1) || (batch == 1 && time == 0))) throw Unsupported{"along these dimensions"};
  return {node.typed(make(node, "reverse_sequence", {x, node.any(1)},
                          Parameters().integer("batch_axis", batch).integer("time_axis", time)))};
}

// ---- joining, padding, repeating --------------------------------------------------------------

Values concatenation(const TfliteNode& node) {
  const auto& o = node.options<schema::ConcatenationOptions>();
  return {node.typed(joined(node, node.all(), o.axis()), 0, o.activation())};
}
Values pack(const TfliteNode& node) {
  const int64_t axis = node.options<schema::PackOptions>().axis();
  Values parts = node.all();
  for (Value& part : parts) part = with_axis(node, part, axis);
  return {node.typed(joined(node, parts, axis))};
}

Values pad(const TfliteNode& node) {
  return {node.typed(padded(node, node.any(0), 1, PadMode::constant, node.any(2)))};
}
Values mirror_pad(const TfliteNode& node) {
  const bool symmetric = node.options<schema::MirrorPadOptions>().mode() == schema::MirrorPadMode::symmetric;
  return {node.typed(padded(node, node.any(0), 1, symmetric ? PadMode::symmetric : PadMode::reflect))};
}

// ---- diagonals --------------------------------------------------------------------------------

// Whether elements of matrices lie on the diagonal.
Value diagonal(const TfliteNode& node, size_t rows, size_t columns) {
  if (columns != 0 && rows > (size_t{1} << 24) / columns) throw Unsupported{"a matrix of this size"};
  node.builder.charge(rows * columns * sizeof(int64_t));
  Integers mask = {{rows, columns}, std::vector<int64_t>(rows * columns), {}};
  for (size_t i = 0; i < std::min(rows, columns); ++i) mask.values[i * columns + i] = 1;
  return integer_value(std::move(mask), ElementType::boolean);
}

Values matrix_diag(const TfliteNode& node) {
  node.expect_plain(0);
  const Value x = node.any(0);
  const Shape shape = shape_at_import(node, x);
  if (shape.empty()) node.fail("the input is a scalar");
  node.fix(node.dimension(0, shape.size() - 1).symbol);
  const Value zero = number_of(node, 0, x.type), mask = diagonal(node, shape.back(), shape.back());
  return {node.typed(make(node, "where", {mask, with_axis(node, x, -1), zero}, {}, x.type))};
}

Values matrix_set_diag(const TfliteNode& node) {
  const Value x = node.any(0);
  const Shape shape = shape_at_import(node, x);
  const size_t rank = shape.size();
  if (rank < 2) node.fail("expected an input of rank 2 or more, got rank " + std::to_string(rank));
  node.fix(node.dimension(0, rank - 2).symbol);
  node.fix(node.dimension(0, rank - 1).symbol);
  const size_t rows = shape[rank - 2], columns = shape[rank - 1];
  const Value numbers = with_axis(node, node.any(1), rows <= columns ? -1 : -2);
  return {node.typed(make(node, "where", {diagonal(node, rows, columns), numbers, x}, {}, x.type))};
}

// ---- blocks -----------------------------------------------------------------------------------

Values space_to_depth(const TfliteNode& node) {
  const int64_t block = node.options<schema::SpaceToDepthOptions>().block_size();
  return {node.typed(of_channels_last(node, "space_to_depth", node.any(0), Parameters().integer("block", block)))};
}
Values depth_to_space(const TfliteNode& node) {
  const int64_t block = node.options<schema::DepthToSpaceOptions>().block_size();
  return {node.typed(of_channels_last(node, "depth_to_space", node.any(0), Parameters().integer("block", block)))};
}

Values space_to_batch_nd(const TfliteNode& node) {
  return {node.typed(space_to_batch(node, node.any(0), node.integers(1).values, node.integers(2).values))};
}
Values batch_to_space_nd(const TfliteNode& node) {
  return {node.typed(batch_to_space(node, node.any(0), node.integers(1).values, node.integers(2).values))};
}

}  // namespace

const TfliteTable& general_moving() {
  static const TfliteTable table = {
      {"BATCH_TO_SPACE_ND", {batch_to_space_nd, 3, 3}},
      {"BROADCAST_ARGS", {broadcast_args, 2, 2}},
      {"BROADCAST_TO", {plain<"expand">, 2, 2}},
      {"CONCATENATION", {concatenation, 1, many_inputs}},
      {"DEPTH_TO_SPACE", {depth_to_space, 1, 1}},
      {"EXPAND_DIMS", {expand_dims, 2, 2}},
      {"FILL", {fill, 2, 2}},
      {"MATRIX_DIAG", {matrix_diag, 1, 1}},
      {"MATRIX_SET_DIAG", {matrix_set_diag, 2, 2}},
      {"MIRROR_PAD", {mirror_pad, 2, 2}},
      {"PACK", {pack, 1, many_inputs}},
      {"PAD", {pad, 2, 2}},
      {"PADV2", {pad, 3, 3}},
      {"RANGE", {range, 3, 3}},
      {"RANK", {rank, 1, 1}},
      {"RESHAPE", {reshape, 1, 2}},
      {"REVERSE_SEQUENCE", {reverse_sequence, 2, 2}},
      {"REVERSE_V2", {reverse_v2, 2, 2}},
      {"SHAPE", {shape, 1, 1}},
      {"SLICE", {slice, 3, 3}},
      {"SPACE_TO_BATCH_ND", {space_to_batch_nd, 3, 3}},
      {"SPACE_TO_DEPTH", {space_to_depth, 1, 1}},
      {"SPLIT", {split, 2, 2}},
      {"SPLIT_V", {split_v, 3, 3}},
      {"SQUEEZE", {squeeze, 1, 1}},
      {"STRIDED_SLICE", {strided_slice, 4, 4}},
      {"TILE", {plain<"tile">, 2, 2}},
      {"TRANSPOSE", {transpose, 2, 2}},
      {"UNPACK", {unpack, 1, 1}},
  };
  return table;
}

}  // namespace quern::tflite

// Operators that cut, join, pad and repeat tensors, or change their shapes.
#include <limits>

#include "convert/common/images.h"
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

Values shape_of(const TfNode& node) {
  return {cast_to(node, convert::shape_of(node, node.value(0)), node.index_type("out_type", ElementType::s32))};
}
Values size_of(const TfNode& node) {
  const Value size = make(node, "size_of", {node.value(0)}, {}, ElementType::i64);
  return {cast_to(node, size, node.index_type("out_type", ElementType::s32))};
}
Values rank(const TfNode& node) {
  return {integer_number(static_cast<int64_t>(rank_of(node, node.value(0))), ElementType::s32)};
}
Values reshape(const TfNode& node) {
  return {make(node, "reshape_to", all_inputs(node), Parameters().integer("allow_zero", 1))};
}
Values transpose(const TfNode& node) { return {permuted(node, node.value(0), node.integers(1).values)}; }
Values expand_dims(const TfNode& node) { return {with_axis(node, node.value(0), node.only_integer(1))}; }
Values squeeze(const TfNode& node) {
  Values inputs = {node.value(0)};
  if (const std::vector<int64_t> axes = node.integer_list("squeeze_dims"); !axes.empty()) {
    inputs.push_back(integer_list(axes));
  }
  return {make(node, "squeeze", inputs)};
}
Values fill(const TfNode& node) { return {filled(node, node.value(0), node.value(1))}; }
Values range(const TfNode& node) { return {range_of(node, node.value(0), node.value(1), node.value(2))}; }
Values concat(const TfNode& node) {
  const size_t last = node.input_count() - 1;
  Values parts = all_inputs(node);
  parts.pop_back();
  return {joined(node, parts, node.only_integer(last))};
}
Values pack(const TfNode& node) {
  const int64_t axis = node.integer("axis", 0);
  Values parts = all_inputs(node);
  for (Value& part : parts) part = with_axis(node, part, axis);
  return {joined(node, parts, axis)};
}
Values unpack(const TfNode& node) {
  const int64_t axis = node.integer("axis", 0), count = node.integer("num");
  if (count < 0 || count > int64_t{many_inputs}) throw Unsupported{"into so many parts"};
  Values parts;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(make(node, "gather", {node.value(0), integer_number(i)}, Parameters().integer("axis", axis)));
  }
  return parts;
}
Values split(const TfNode& node) {
  const int64_t parts = node.integer("num_split");
  if (parts < 1 || parts > int64_t{many_inputs}) throw Unsupported{"into so many parts"};
  const std::vector<ElementType> types(static_cast<size_t>(parts), node.value(1).type);
  return make_all(node, "split_to", {node.value(1)},
                  Parameters().integer("axis", node.only_integer(0)).integer("parts", parts).integer("even", 1), types);
}
Values slice(const TfNode& node) {
  return {sliced_sizes(node, node.value(0), node.integers(1).values, node.integers(2).values)};
}
Values reverse_v2(const TfNode& node) { return {reversed(node, node.value(0), node.integers(1).values)}; }
Values pad(const TfNode& node) {
  return {padded(node, node.value(0), 1, PadMode::constant, node.has(2) ? node.value(2) : Value())};
}
Values mirror_pad(const TfNode& node) {
  const std::string mode = node.text("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") node.fail("mode is '" + mode + "'");
  return {padded(node, node.value(0), 1, mode == "REFLECT" ? PadMode::reflect : PadMode::symmetric)};
}

// ---- brackets ---------------------------------------------------------------------------------

// One item of x[1, ..., a:b:c, None], and the dimension to which it applies.
struct Item {
  enum Kind { part, one, new_axis, rest } kind;
  size_t axis;
};

// `all`: the items are numbered by bits of masks.
std::vector<Item> items_of(const TfNode& node, size_t all) {
  const int64_t rest = node.integer("ellipsis_mask", 0), fresh = node.integer("new_axis_mask", 0),
                one = node.integer("shrink_axis_mask", 0);
  std::vector<Item> items;
  size_t used = 0;  // dimensions that items name
  for (size_t i = 0; i < all; ++i) {
    const auto has = [i](int64_t mask) { return (mask >> i & 1) != 0; };
    const Item::Kind kind = has(rest) ? Item::rest : has(fresh) ? Item::new_axis : has(one) ? Item::one : Item::part;
    items.push_back({kind, 0});
    used += kind == Item::part || kind == Item::one ? 1 : 0;
  }
  size_t axis = 0;
  for (Item& item : items) {
    item.axis = axis;
    if (item.kind == Item::part || item.kind == Item::one) ++axis;
    if (item.kind != Item::rest) continue;
    const size_t rank = rank_of(node, node.value(0));
    if (used > rank) node.fail("more items than dimensions");
    if (axis + rank - used > rank) node.fail("two ellipses");
    axis += rank - used;
  }
  return items;
}

// Begins and ends may be computed, or follow open sizes. They are taken from their lists one by one.
Values strided_slice_of(const TfNode& node) {
  const std::vector<int64_t>& steps = node.integers(3).values;
  if (steps.size() > 16) node.fail("too many items");
  const std::vector<Item> items = items_of(node, steps.size());
  const auto at = [&](size_t list, size_t i) {
    if (node.is_integer(list)) {
      const Symbols::Number number = node.symbolic(list).at(i);
      return integer_value({{1}, {number.value}, {number.symbol}});
    }
    return make(node, "gather", {node.value(list), integer_list({static_cast<int64_t>(i)})});
  };
  for (const size_t list : {1, 2}) {
    if (shape_at_import(node, node.value(list)) != Shape{steps.size()}) node.fail("lists of items differ in length");
  }
  const int64_t no_begin = node.integer("begin_mask", 0), no_end = node.integer("end_mask", 0);
  constexpr int64_t far = std::numeric_limits<int64_t>::max();
  Value x = node.value(0);
  for (size_t i = items.size(); i-- > 0;) {  // so that dimensions keep their numbers
    const auto axis = static_cast<int64_t>(items[i].axis);
    if (items[i].kind == Item::one) {
      x = make(node, "gather", {x, reshaped(node, at(1, i), {})}, Parameters().integer("axis", axis));
    } else if (items[i].kind == Item::part) {
      if (steps[i] == 0) node.fail("a step is 0");
      const bool up = steps[i] > 0, from_end = (no_begin >> i & 1) != 0, to_end = (no_end >> i & 1) != 0;
      if (from_end && to_end && steps[i] == 1) continue;
      const Value begin = from_end ? integer_list({up ? 0 : far}) : cast_to(node, at(1, i), ElementType::i64);
      const Value end = to_end ? integer_list({up ? far : -far}) : cast_to(node, at(2, i), ElementType::i64);
      x = make(node, "slice_by", {x, begin, end, integer_list({axis}), integer_list({steps[i]})});
    }
  }
  std::vector<int64_t> fresh;
  int64_t dropped = 0;
  for (const Item& item : items) {
    if (item.kind == Item::one) ++dropped;
    if (item.kind != Item::new_axis) continue;
    fresh.push_back(static_cast<int64_t>(item.axis + fresh.size()) - dropped);
  }
  return {fresh.empty() ? x : make(node, "unsqueeze", {x, integer_list(fresh)})};
}

template <Name kind>
Values blocks(const TfNode& node) {
  const Parameters parameters = Parameters().integer("block", node.integer("block_size"));
  if (node.channels_first()) return {make(node, kind.text, {node.value(0)}, Parameters(parameters))};
  return {of_channels_last(node, kind.text, node.value(0), Parameters(parameters))};
}
Values space_to_batch_nd(const TfNode& node) {
  return {space_to_batch(node, node.value(0), node.integers(1).values, node.integers(2).values)};
}
Values batch_to_space_nd(const TfNode& node) {
  return {batch_to_space(node, node.value(0), node.integers(1).values, node.integers(2).values)};
}

Values shape_n(const TfNode& node) {
  Values shapes;
  for (const Value& x : all_inputs(node)) {
    shapes.push_back(cast_to(node, convert::shape_of(node, x), node.index_type("out_type", ElementType::s32)));
  }
  return shapes;
}

Values reverse_sequence(const TfNode& node) {
  const int64_t time = node.integer("seq_dim"), batch = node.integer("batch_dim", 0);
  if (!((batch == 0 && time == 1) || (batch == 1 && time == 0))) throw Unsupported{"along these dimensions"};
  return {make(node, "reverse_sequence", all_inputs(node),
               Parameters().integer("batch_axis", batch).integer("time_axis", time))};
}

// Keeps a band of each matrix: diagonals from `lower` below the main one to `upper` above it; -1 keeps all on that side.
Values band_part(const TfNode& node) {
  node.ignore("Tindex");
  const int64_t lower = node.only_integer(1), upper = node.only_integer(2);
  Value x = node.value(0);
  if (lower >= 0) x = make(node, "trilu", {x, integer_number(-lower)}, Parameters().integer("upper", 1));
  if (upper >= 0) x = make(node, "trilu", {x, integer_number(upper)}, Parameters().integer("upper", 0));
  return {x};
}

// One of the sizes may be -1: the rest.
Values split_sizes(const TfNode& node) {
  const int64_t parts = node.integer("num_split"), axis = node.only_integer(2);
  std::vector<int64_t> sizes = node.integers(1).values;
  if (parts < 1 || parts > int64_t{many_inputs} || static_cast<size_t>(parts) != sizes.size()) {
    node.fail("num_split does not fit the sizes");
  }
  for (const int64_t size : sizes) {
    if (size < 0) throw Unsupported{"a size that is inferred"};
  }
  const std::vector<ElementType> types(sizes.size(), node.value(0).type);
  return make_all(node, "split_to", {node.value(0), integer_list(sizes)},
                  Parameters().integer("axis", axis).integer("parts", parts).integer("even", 1), types);
}

}  // namespace

const TfTable& general_moving() {
  static const TfTable table = {
      {"BatchToSpaceND", {batch_to_space_nd, 3, 3}},
      {"BroadcastTo", {plain<"expand">, 2, 2}},
      {"ConcatV2", {concat, 2, many_inputs}},
      {"DepthToSpace", {blocks<"depth_to_space">, 1, 1}},
      {"ExpandDims", {expand_dims, 2, 2}},
      {"Fill", {fill, 2, 2}},
      {"MatrixBandPart", {band_part, 3, 3}},
      {"MirrorPad", {mirror_pad, 2, 2}},
      {"Pack", {pack, 1, many_inputs}},
      {"Pad", {pad, 2, 2}},
      {"PadV2", {pad, 3, 3}},
      {"Range", {range, 3, 3}},
      {"Rank", {rank, 1, 1}},
      {"Reshape", {reshape, 2, 2}},
      {"ReverseSequence", {reverse_sequence, 2, 2}},
      {"ReverseV2", {reverse_v2, 2, 2}},
      {"Shape", {shape_of, 1, 1}},
      {"ShapeN", {shape_n, 1, many_inputs}},
      {"Size", {size_of, 1, 1}},
      {"Slice", {slice, 3, 3}},
      {"SpaceToBatchND", {space_to_batch_nd, 3, 3}},
      {"SpaceToDepth", {blocks<"space_to_depth">, 1, 1}},
      {"Split", {split, 2, 2}},
      {"SplitV", {split_sizes, 3, 3}},
      {"Squeeze", {squeeze, 1, 1}},
      {"StridedSlice", {strided_slice_of, 4, 4}},
      {"Tile", {plain<"tile">, 2, 2}},
      {"Transpose", {transpose, 2, 2}},
      {"Unpack", {unpack, 1, 1}},
  };
  return table;
}

}  // namespace quern::tensorflow

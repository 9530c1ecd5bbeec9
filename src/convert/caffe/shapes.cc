// Imports Caffe layers that move or select elements.
#include "convert/caffe/layer.h"

namespace quern::caffe {
namespace {

Values concat(const Layer& layer) {
  const schema::ConcatParameter& p = layer.param.concat_param();
  const int64_t axis = p.has_concat_dim() ? int64_t{p.concat_dim()} : p.axis();
  std::vector<View> bottoms;
  for (size_t i = 0; i < layer.input_count(); ++i) bottoms.push_back(layer.view(i));
  return {layer.builder.concat(layer.name, bottoms, layer.axis(axis, layer.x().rank()))};
}

Values flatten(const Layer& layer) {
  const schema::FlattenParameter& p = layer.param.flatten_param();
  const Shape shape = layer.shape();
  const size_t first = layer.axis(p.axis(), shape.size()), last = layer.axis(p.end_axis(), shape.size());
  if (last < first) layer.fail("end_axis lies before axis");
  if (first == last) return {layer.x()};
  std::vector<int64_t> values(first, 0);
  values.push_back(-1);
  for (size_t i = last + 1; i < shape.size(); ++i) values.push_back(copy_dimension(i, values.size()));
  return {layer.builder.reshape(layer.name, layer.x(), values)};
}

// Replaces dimensions axis .. axis + num_axes - 1 by `shape`. A 0 in `shape` copies the dimension that it replaces.
Values reshape(const Layer& layer) {
  const schema::ReshapeParameter& p = layer.param.reshape_param();
  const auto rank = static_cast<int64_t>(layer.x().rank());
  const int64_t first = p.axis() < 0 ? p.axis() + rank + 1 : p.axis();
  const int64_t last = p.num_axes() < 0 ? rank : first + p.num_axes();
  if (first < 0 || first > rank || last > rank) layer.fail("axis and num_axes are outside the input");
  std::vector<int64_t> values(static_cast<size_t>(first), 0);
  for (const int64_t d : p.shape().dim()) {
    if (d < -1) layer.fail("shape has a negative dimension");
    values.push_back(d);
  }
  for (int64_t i = last; i < rank; ++i) values.push_back(copy_dimension(static_cast<size_t>(i), values.size()));
  return {layer.builder.reshape(layer.name, layer.x(), values)};
}

Values permute(const Layer& layer) {
  const size_t rank = layer.x().rank();
  Order order;
  std::vector<char> seen(rank, 0);
  const auto take = [&](size_t d) {
    if (d >= rank || seen[d]) layer.fail("order is not a permutation");
    seen[d] = 1;
    order.push_back(static_cast<uint32_t>(d));
  };
  for (const uint32_t d : layer.param.permute_param().order()) take(d);
  for (size_t d = 0; d < rank; ++d) {
    if (!seen[d]) take(d);
  }
  return {layer.builder.permute(layer.x(), order)};
}

// Reorders channels: takes them as a matrix of `group` rows and transposes it.
Values shuffle_channel(const Layer& layer) {
  const auto group = static_cast<int64_t>(layer.param.shuffle_channel_param().group());
  const auto channels = static_cast<int64_t>(layer.channels());
  if (layer.x().rank() != 4) throw Unsupported{"on a blob of rank " + std::to_string(layer.x().rank())};
  if (group == 0 || channels % group != 0) layer.fail("group does not divide the channels");
  Builder& builder = layer.builder;
  const View last = builder.permute(layer.x(), {0, 2, 3, 1});
  const View split = builder.reshape(layer.name + "/split", last, {0, 0, 0, group, channels / group});
  const View joined = builder.reshape(layer.name, builder.permute(split, {0, 1, 2, 4, 3}), {0, 0, 0, channels});
  return {builder.permute(joined, {0, 3, 1, 2})};
}

Values slice(const Layer& layer) {
  const schema::SliceParameter& p = layer.param.slice_param();
  const Shape shape = layer.shape();
  const size_t axis = layer.axis(p.has_slice_dim() ? int64_t{p.slice_dim()} : p.axis(), shape.size());
  const auto tops = static_cast<size_t>(layer.param.top_size()), size = shape[axis];
  std::vector<size_t> points(p.slice_point().begin(), p.slice_point().end());
  if (points.empty()) {
    if (tops == 0 || size % tops != 0) layer.fail("the dimension does not divide into equal slices");
    layer.fix(layer.builder.symbol(layer.x(), axis));
    for (size_t i = 1; i < tops; ++i) points.push_back(i * (size / tops));
  }
  if (points.size() + 1 != tops) layer.fail("slice_point does not fit the number of tops");
  Values values;
  size_t begin = 0;
  for (size_t i = 0; i < tops; ++i) {
    const size_t end = i < points.size() ? points[i] : size;
    if (end <= begin || end > size) layer.fail("slice_point is not ascending within the dimension");
    const int64_t last = i < points.size() ? static_cast<int64_t>(end) : -1;
    const std::string name = layer.name + "/" + std::to_string(i);
    values.push_back(layer.builder.slice(name, layer.x(), axis, static_cast<int64_t>(begin), last));
    begin = end;
  }
  return values;
}

// Takes the part of the first bottom that has the size of the second one, from `axis` on.
Values crop(const Layer& layer) {
  const schema::CropParameter& p = layer.param.crop_param();
  const Shape shape = layer.shape(), wanted = layer.dims(1);
  const size_t rank = shape.size(), axis = layer.axis(p.axis(), rank);
  const auto offsets = static_cast<size_t>(p.offset_size());
  if (wanted.size() != rank) layer.fail("the inputs have different ranks");
  if (offsets > 1 && offsets != rank - axis) layer.fail("offset does not fit the dimensions");
  std::vector<int64_t> begin(rank, 0), end(rank, -1);
  for (size_t d = axis; d < rank; ++d) {
    const size_t from = offsets == 0 ? 0 : p.offset(static_cast<int>(offsets == 1 ? 0 : d - axis));
    if (wanted[d] > shape[d] || from > shape[d] - wanted[d]) layer.fail("the part lies outside of the input");
    begin[d] = static_cast<int64_t>(from);
    end[d] = static_cast<int64_t>(from + wanted[d]);
    layer.fix(layer.builder.symbol(layer.view(1), d));
  }
  return {layer.builder.slice(layer.name, layer.x(), begin, end)};
}

Values tile(const Layer& layer) {
  const schema::TileParameter& p = layer.param.tile_param();
  const size_t axis = layer.axis(p.axis(), layer.x().rank());
  if (p.tiles() < 1) layer.fail("tiles is not positive");
  if (p.tiles() > 256) throw Unsupported{"more than 256 tiles"};
  return {layer.builder.concat(layer.name, std::vector<View>(static_cast<size_t>(p.tiles()), layer.x()), axis)};
}

Values same(const Layer& layer) { return Values(static_cast<size_t>(layer.param.top_size()), layer.x()); }

}  // namespace

const LayerRow* find_shape(const std::string& type) {
  static const LayerTable rows = {
      {"Concat", {concat, 1, many_inputs}},
      {"Crop", {crop, 2, 2}},
      {"Dropout", {same, 1, 1}},
      {"Flatten", {flatten, 1, 1}},
      {"Permute", {permute, 1, 1}},
      {"Reshape", {reshape, 1, 1}},
      {"ShuffleChannel", {shuffle_channel, 1, 1}},
      {"Slice", {slice, 1, 1}},
      {"Split", {same, 1, 1}},
      {"Tile", {tile, 1, 1}},
  };
  return find_in(rows, type);
}

}  // namespace quern::caffe

// Imports ONNX operators that move or select elements: shapes, slices, constants.
#include <algorithm>
#include <cmath>

#include "convert/common/elements.h"
#include "convert/common/fold.h"
#include "convert/onnx/node.h"
#include "convert/onnx/tensor.h"

namespace quern::onnx {
namespace {

// ---- constants --------------------------------------------------------------------------------

Values constant(const OnnxNode& node) {
  Array array;
  if (const schema::TensorProto* tensor = node.tensor("value")) {
    array = read_tensor(*tensor, node.folder);
  } else if (const schema::SparseTensorProto* sparse = node.sparse_tensor("sparse_value")) {
    array = read_tensor(*sparse, node.folder, [&](size_t bytes) { node.builder.charge(bytes); });
  } else if (node.has_attribute("value_float")) {
    array = make_array<float>(ElementType::f32, {}, {node.any_number("value_float", 0)});
  } else if (node.has_attribute("value_int")) {
    array = make_array<int64_t>(ElementType::i64, {}, {node.integer("value_int", 0)});
  } else if (node.has_attribute("value_floats")) {
    const std::vector<float> list = node.number_list("value_floats");
    array = make_array(ElementType::f32, {list.size()}, list);
  } else if (node.has_attribute("value_ints")) {
    const std::vector<int64_t> list = node.integer_list("value_ints");
    array = make_array(ElementType::i64, {list.size()}, list);
  } else {
    throw Unsupported{"a value that is neither numbers nor a tensor"};
  }
  return {constant_value(node.builder, array)};
}

Values constant_of_shape(const OnnxNode& node) {
  Array one = make_array<float>(ElementType::f32, {}, {0});
  if (const schema::TensorProto* tensor = node.tensor("value")) one = read_tensor(*tensor, node.folder);
  if (one.elements() != 1) node.fail("value is not one number");
  node.expect_closed(0);
  return {constant_value(node.builder, filled(node, one, node.integers(0).values))};
}

Values range(const OnnxNode& node) { return {convert::range(node)}; }

Values shape_of(const OnnxNode& node) {
  const auto rank = static_cast<int64_t>(node.dims(0).size());
  const auto place = [rank](int64_t i) {
    return static_cast<size_t>(std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank));
  };
  const size_t first = place(node.integer("start", 0)), last = place(node.integer("end", rank));
  return {convert::shape_of(node, 0, first, last)};
}

Values size_of(const OnnxNode& node) { return {convert::size_of(node, 0)}; }

// ---- types and comparisons --------------------------------------------------------------------

Values cast(const OnnxNode& node) {
  const auto number = static_cast<int32_t>(node.integer("to", 0));
  node.ignore("saturate");
  const std::optional<ElementType> to = element_type(number);
  if (!to) throw Unsupported{"to type " + type_name(number)};
  return {convert::cast(node, 0, *to)};
}

Values floor(const OnnxNode& node) {
  return {mapped(node, 0, [](float x) { return std::floor(x); })};
}
Values ceil(const OnnxNode& node) {
  return {mapped(node, 0, [](float x) { return std::ceil(x); })};
}
Values equal(const OnnxNode& node) { return {convert::equal(node)}; }
Values where(const OnnxNode& node) { return {convert::where(node)}; }

Values reduce_prod(const OnnxNode& node) {
  const size_t rank = node.symbolic(0).shape.size();
  if (rank > 1) throw Unsupported{"of a tensor of rank " + std::to_string(rank)};
  node.ignore("axes");
  return {product_of(node, 0, node.integer("keepdims", 1) != 0)};
}

// ---- the same elements in another shape -------------------------------------------------------

Values identity(const OnnxNode& node) { return {node.value(0)}; }

Values dropout(const OnnxNode& node) {
  node.ignore("ratio");
  node.ignore("seed");
  if (node.has(2) && (node.integers(2).values.size() != 1 || node.integers(2).values[0] != 0)) {
    throw Unsupported{"training_mode"};
  }
  return {node.value(0)};
}

Values transpose(const OnnxNode& node) {
  std::vector<int64_t> permutation = node.integer_list("perm");
  if (!node.has_attribute("perm")) {
    for (size_t i = node.dims(0).size(); i-- > 0;) permutation.push_back(static_cast<int64_t>(i));
  }
  return {convert::transpose(node, 0, permutation)};
}

Values reshape(const OnnxNode& node) { return {reshape_to(node, 0, 1, node.integer("allowzero", 0) != 0)}; }

// A reshape of ours infers a dimension beside one of 0 as 1.
void expect_elements(const OnnxNode& node) {
  const Shape x = node.dims(0);
  if (std::count(x.begin(), x.end(), 0) > 0) throw Unsupported{"a tensor without elements"};
}

Values flatten(const OnnxNode& node) {
  expect_elements(node);
  return {convert::flatten(node, 0, node.integer("axis", 1))};
}

Values squeeze(const OnnxNode& node) {
  std::vector<int64_t> axes;
  const bool given = node.list("axes", 1, 13, &axes);
  return {convert::squeeze(node, 0, given ? std::optional(axes) : std::nullopt)};
}

Values unsqueeze(const OnnxNode& node) {
  std::vector<int64_t> axes;
  if (!node.list("axes", 1, 13, &axes)) node.fail("axes are missing");
  return {convert::unsqueeze(node, 0, axes)};
}

// ---- parts ------------------------------------------------------------------------------------

std::vector<Part> parts_of(const OnnxNode& node, size_t rank) {
  std::vector<Symbols::Number> starts, ends;
  std::vector<int64_t> axes, steps;
  if (!node.symbolic_list("starts", 1, 10, &starts) || !node.symbolic_list("ends", 2, 10, &ends)) {
    node.fail("starts or ends are missing");
  }
  if (!node.list("axes", 3, 10, &axes)) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (!node.has(4) || node.opset < 10) {
    steps.assign(starts.size(), 1);
  } else {
    steps = node.integers(4).values;
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    node.fail("starts, ends, axes and steps differ in length");
  }
  std::vector<Part> parts;
  std::vector<char> cut(rank, 0);
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t axis = node.axis(axes[i], rank);
    if (cut[axis]++) node.fail("an axis is given twice");
    if (steps[i] == 0) node.fail("step is zero");
    parts.push_back({axis, starts[i], ends[i], steps[i]});
  }
  return parts;
}

Values slice(const OnnxNode& node) { return {convert::slice(node, 0, parts_of(node, node.dims(0).size()))}; }

Values split(const OnnxNode& node) {
  const Shape shape = node.dims(0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const auto size = static_cast<int64_t>(shape[axis]), count = int64_t{node.proto.output_size()};
  std::vector<int64_t> sizes;
  if (!node.list("split", 1, node.has(1) ? 1 : 13, &sizes)) {  // opset 1 may have the input, too
    if (node.integer("num_outputs", count) != count || count == 0) node.fail("bad number of outputs");
    if (count > size) throw Unsupported{"empty parts"};
    if (node.builder.is_open(node.dimension(0, axis).symbol)) throw Unsupported{"into equal parts of an open size"};
    const int64_t each = (size + count - 1) / count;
    if (node.opset < 18 && size % count != 0) node.fail("the dimension does not divide into equal parts");
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  if (static_cast<int64_t>(sizes.size()) != count) node.fail("split does not fit the outputs");
  return convert::split(node, 0, axis, sizes);
}

Values gather(const OnnxNode& node) {
  return {convert::gather(node, 0, 1, node.axis(node.integer("axis", 0), node.dims(0).size()))};
}

// ---- joining, padding -------------------------------------------------------------------------

Values concat(const OnnxNode& node) {
  if (node.is_integer(0)) {
    node.ignore("axis");  // a vector has only one
    return {concat_integers(node)};
  }
  return {convert::concat(node, node.axis(node.integer("axis", 1), node.any_view(0).rank()))};
}

Values pad(const OnnxNode& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant") throw Unsupported{mode};
  const size_t rank = node.view(0).rank();
  std::vector<int64_t> pads;
  if (node.is_integer(1)) node.expect_closed(1);
  if (!node.list("pads", 1, 11, &pads)) node.fail("pads are missing");
  float value = node.opset < 11 ? node.number("value", 0) : node.has(2) ? node.scalar(2) : 0;
  if (!std::isfinite(value)) throw Unsupported{"with a value that is not finite"};
  std::vector<size_t> axes;
  if (node.has(3)) {
    for (const int64_t axis : node.integers(3).values) axes.push_back(node.axis(axis, rank));
  } else {
    for (size_t d = 0; d < rank; ++d) axes.push_back(d);
  }
  if (pads.size() != 2 * axes.size()) node.fail("pads do not fit the input");
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    before[axes[i]] = pads[i];
    after[axes[i]] = pads[axes.size() + i];
  }
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; })) throw Unsupported{"negative pads"};
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return {node.value(0)};
  return {node.result(node.builder.pad(node.name, node.view(0), before, after, value))};
}

Values expand(const OnnxNode& node) { return {convert::expand(node, 0, 1)}; }

// Turns channels into pixels: b * b channels of one pixel become one channel of b x b pixels.
Values depth_to_space(const OnnxNode& node) {
  const int64_t b = node.integer("blocksize", 0);
  const std::string mode = node.text("mode", "DCR");
  expect_elements(node);
  const Shape shape = node.builder.shape(node.view(0));
  if (shape.size() != 4 || (mode != "DCR" && mode != "CRD")) throw Unsupported{mode};
  if (b <= 0 || b > 1024 || shape[1] % static_cast<size_t>(b * b) != 0)
    node.fail("blocksize does not fit the channels");
  const int64_t depth = static_cast<int64_t>(shape[1]) / (b * b);
  Builder& builder = node.builder;
  node.fix(builder.symbol(node.view(0), 1));
  const bool blocks_first = mode == "DCR";
  const View pixels = builder.permute(node.view(0), {0, 2, 3, 1});
  const std::vector<int64_t> split =
      blocks_first ? std::vector<int64_t>{0, 0, 0, b, b, depth} : std::vector<int64_t>{0, 0, 0, depth, b, b};
  const View parts = builder.reshape(node.name + "/split", pixels, split);
  const Order order = blocks_first ? Order{0, 1, 3, 2, 4, 5} : Order{0, 1, 4, 2, 5, 3};
  // The parts are N, H, b, W, b, depth. One reshape joins H and b to the height, a second one W and b to the width.
  const std::vector<int64_t> rows = {0, -1, copy_dimension(3, 2), copy_dimension(4, 3), copy_dimension(5, 4)};
  const View high = builder.reshape(node.name + "/rows", builder.permute(parts, order), rows);
  const View joined = builder.reshape(node.name, high, {0, 0, -1, copy_dimension(4, 3)});
  return {node.result(builder.permute(joined, {0, 3, 1, 2}))};
}

}  // namespace

const OnnxRow* find_shape(const std::string& op_type) {
  static const OnnxTable kinds = {
      {"Cast", {cast, 1, 1}},
      {"Ceil", {ceil, 1, 1}},
      {"Concat", {concat, 1, many_inputs}},
      {"Constant", {constant, 0, 0}},
      {"ConstantOfShape", {constant_of_shape, 1, 1}},
      {"DepthToSpace", {depth_to_space, 1, 1}},
      {"Dropout", {dropout, 1, 3}},
      {"Equal", {equal, 2, 2}},
      {"Expand", {expand, 2, 2}},
      {"Flatten", {flatten, 1, 1}},
      {"Floor", {floor, 1, 1}},
      {"Gather", {gather, 2, 2}},
      {"Identity", {identity, 1, 1}},
      {"Pad", {pad, 1, 4}},
      {"Range", {range, 3, 3}},
      {"ReduceProd", {reduce_prod, 1, 2}},
      {"Reshape", {reshape, 2, 2}},
      {"Shape", {shape_of, 1, 1}},
      {"Size", {size_of, 1, 1}},
      {"Slice", {slice, 1, 5}},
      {"Split", {split, 1, 2}},
      {"Squeeze", {squeeze, 1, 2}},
      {"Transpose", {transpose, 1, 1}},
      {"Unsqueeze", {unsqueeze, 1, 2}},
      {"Where", {where, 3, 3}},
  };
  return find_in(kinds, op_type);
}

}  // namespace quern::onnx

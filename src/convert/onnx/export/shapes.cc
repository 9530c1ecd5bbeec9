// Elementwise kinds of graph/ir/op.inc, and those that change shapes.
#include <algorithm>
#include <optional>

#include "convert/onnx/export/rows.h"

namespace quern::onnx {
namespace {

// ---- elementwise ------------------------------------------------------------------------------

void write_unary(GraphWriter& to, const Node& node, const ExportRow& row) {
  to.need_opset(row.opset);
  const int x = node.inputs[0];
  const Order order = to.following(node);
  std::string value = to.in_order(x, order);
  if (row.op != nullptr) value = to.add(row.op, node_name(node), {value});
  to.define(node, value, order);
}

void write_binary(GraphWriter& to, const Node& node, const ExportRow& row) {
  const int a = node.inputs[0], b = node.inputs[1];
  const size_t rank_a = to.tensor(a).shape.size(), rank_b = to.tensor(b).shape.size();
  const Order order = rank_a == rank_b ? to.following(node) : source_order(std::max(rank_a, rank_b));
  const std::string left = rank_a == rank_b ? to.in_order(a, order) : to.plain(a);
  const std::string right = rank_a == rank_b ? to.in_order(b, order) : to.plain(b);
  to.define(node, to.add(row.op, node_name(node), {left, right}), order);
}

void write_power(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Attributes& a = node.attributes;
  const Order order = to.following(node);
  std::string value = to.in_order(node.inputs[0], order);
  if (a.alpha != 1) value = to.add("Mul", node_name(node, "scale"), {value, to.number(a.alpha)});
  if (a.beta != 0) value = to.add("Add", node_name(node, "shift"), {value, to.number(a.beta)});
  if (a.gamma != 1) value = to.add("Pow", node_name(node), {value, to.number(a.gamma)});
  to.define(node, value, order);
}

// Adds a constant with one number per channel. Channels are our last dimension. The shape is such that the constant
// broadcasts to a tensor in `order`.
std::string per_channel(GraphWriter& to, int index, const Order& order) {
  const size_t channels = to.tensor(index).shape[0];
  Shape shape(order.size() - position(order, order.size() - 1), 1);
  shape[0] = channels;
  return to.floats(shape, constant_floats(to.graph(), index));
}

void write_prelu(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order order = to.following(node);
  const std::string slope = per_channel(to, node.inputs[1], order);
  to.define(node, to.add("PRelu", node_name(node), {to.in_order(node.inputs[0], order), slope}), order);
}

void write_scale(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order order = to.following(node);
  std::string value = to.in_order(node.inputs[0], order);
  value = to.add("Mul", node_name(node), {value, per_channel(to, node.inputs[1], order)});
  if (has(node, 2)) {
    value = to.add("Add", node_name(node, "bias"), {value, per_channel(to, node.inputs[2], order)});
  }
  to.define(node, value, order);
}

// ---- matrices, axes and shapes ----------------------------------------------------------------

int64_t axis_in(const Node& node, const Order& order) {
  return static_cast<int64_t>(position(order, static_cast<size_t>(node.attributes.axis)));
}

void write_softmax(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order order = to.following(node);
  schema::NodeProto* softmax = to.add_op("Softmax", node_name(node), {to.in_order(node.inputs[0], order)});
  set_integer(softmax, "axis", axis_in(node, order));
  to.define(node, softmax->output(0), order);
}

void write_concat(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order order = to.following(node);
  std::vector<std::string> inputs;
  for (const int input : node.inputs) inputs.push_back(to.in_order(input, order));
  schema::NodeProto* concat = to.add_op("Concat", node_name(node), inputs);
  set_integer(concat, "axis", axis_in(node, order));
  to.define(node, concat->output(0), order);
}

// Takes the first or second half of `values`, each with one number per dimension of our tensor, and reorders it.
Vector<int64_t> half(const Vector<int64_t>& values, bool second, const Order& order) {
  Vector<int64_t> result;
  for (const uint32_t d : order) result.push_back(values[second ? order.size() + d : d]);
  return result;
}

// Returns the real number that an element of a tensor stands for.
float real_value(const GraphWriter& to, int index, float element) {
  const Quantization& q = to.tensor(index).quantization;
  if (!to.is_quantized(index)) return element;
  return (element - (q.zero_points.empty() ? 0 : static_cast<float>(q.zero_points[0]))) * q.scales[0];
}

void write_pad(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order order = to.following(node);
  Vector<int64_t> pads = half(node.attributes.values, false, order);
  const Vector<int64_t> after = half(node.attributes.values, true, order);
  pads.insert(pads.end(), after.begin(), after.end());
  const int x = node.inputs[0];
  const qn_type type = to.is_quantized(x) ? QN_F32 : to.tensor(x).type;
  const std::string value = to.number(type, real_value(to, x, node.attributes.alpha));
  to.define(node, to.add("Pad", node_name(node), {to.in_order(x, order), to.integers(pads), value}), order);
}

// Names only the dimensions that are cut, because some converters cannot read a slice of several dimensions.
void write_slice(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order order = to.following(node);
  const Vector<int64_t>& values = node.attributes.values;
  Vector<int64_t> axes, begins, ends;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t begin = values[order[i]], end = values[order.size() + order[i]];
    if (begin == 0 && end == -1) continue;
    axes.push_back(static_cast<int64_t>(i));
    begins.push_back(begin < 0 ? begin + 1 : begin);  // ours has one number more below 0: the size itself
    ends.push_back(end == -1 ? std::numeric_limits<int64_t>::max() : end < 0 ? end + 1 : end);
  }
  std::string value = to.in_order(node.inputs[0], order);
  if (!axes.empty()) {
    value = to.add("Slice", node_name(node), {value, to.integers(begins), to.integers(ends), to.integers(axes)});
  }
  to.define(node, value, order);
}

// Counts the leading dimensions that are equal in both shapes. The last dimension of a shape never counts.
size_t kept_dimensions(const Shape& from, const Shape& to) {
  size_t kept = 0;
  while (kept + 1 < std::min(from.size(), to.size()) && from[kept] == to[kept]) ++kept;
  return kept;
}

std::string computed_shape(GraphWriter& to, const Node& node, const std::string& x, const Vector<int64_t>& shape) {
  const std::string from = to.add("Shape", node_name(node, "shape"), {x});
  std::vector<std::string> parts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t copied = copied_dimension(shape[d], d);
    parts.push_back(to.integers({copied < 0 ? shape[d] : copied}));
    if (copied < 0) continue;
    const std::string name = node_name(node, ("dimension" + std::to_string(d)).c_str());
    parts.back() = to.add("Gather", name, {from, parts.back()});
  }
  schema::NodeProto* concat = to.add_op("Concat", node_name(node, "to"), parts);
  set_integer(concat, "axis", 0);
  return concat->output(0);
}

// The order: the batch, then the dimensions from `inner` on, then those between. With N, H, W, C and `inner` 3 that is
// N, C, H, W.
Order pixels_last(size_t rank, size_t inner) {
  Order order = source_order(rank);
  std::rotate(order.begin() + 1, order.begin() + static_cast<ptrdiff_t>(inner), order.end());
  return order;
}

// The new shape of a reshape, as our numbers for it, of a value in order `before` that shall be in order `after`.
Vector<int64_t> reordered_shape(const GraphWriter& to, const Node& node, const Order& before, const Order& after) {
  Vector<int64_t> shape;
  for (const uint32_t d : after) {
    const int64_t wanted = node.attributes.values[d], copied = copied_dimension(wanted, d);
    if (!to.model.open) {
      shape.push_back(static_cast<int64_t>(to.tensor(node.outputs[0]).shape[d]));
    } else if (copied < 0) {
      shape.push_back(wanted);
    } else {
      const size_t from = position(before, static_cast<size_t>(copied));
      shape.push_back(from == shape.size() ? 0 : -2 - static_cast<int64_t>(from));
    }
  }
  return shape;
}

// Adds a Reshape to a shape in which a 0 is no number for a dimension that is copied.
std::string reshaped_as_is(GraphWriter& to, const Node& node, const std::string& x, const std::string& shape) {
  to.need_opset(14);
  schema::NodeProto* reshaped = to.add_op("Reshape", node_name(node), {x, shape});
  set_integer(reshaped, "allowzero", 1);
  return reshaped->output(0);
}

// Our reshape can copy a dimension to another place; ONNX has no number for that. If there is one such dimension among
// plain numbers, it can be inferred (-1). Beside a dimension that is copied it cannot, because that may be 0 in a run:
// further nodes compute the new shape from the shape of x.
std::string reshaped(GraphWriter& to, const Node& node, const std::string& x, Vector<int64_t> shape) {
  const auto is_moved = [](int64_t d) { return d < -1; };
  const auto moved = std::count_if(shape.begin(), shape.end(), is_moved);
  const bool infers = std::count(shape.begin(), shape.end(), -1) > 0;
  const bool copies = to.model.open && std::count(shape.begin(), shape.end(), 0) > 0;
  if (moved == 1 && !infers && !copies) {
    std::replace_if(shape.begin(), shape.end(), is_moved, int64_t{-1});
  } else if (moved > 0) {
    const std::string computed = computed_shape(to, node, x, shape);
    if (to.model.open && !infers) return reshaped_as_is(to, node, x, computed);
    return to.add("Reshape", node_name(node), {x, computed});
  }
  return to.add("Reshape", node_name(node), {x, to.integers(shape)});
}

// The axes of a reshape that only drops dimensions of 1 from x, and adds such to the result.
struct Ones {
  Vector<int64_t> dropped, added;
};
std::optional<Ones> ones_of(const Shape& from, const Vector<int64_t>& shape) {
  Ones ones;
  int64_t next = 0;  // dimension of x
  const auto drop_before = [&](int64_t end) {
    for (; next < end; ++next) ones.dropped.push_back(next);
  };
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t copied = copied_dimension(shape[d], d);
    if (copied < 0 ? shape[d] != 1 : copied < next) return {};
    if (copied < 0) {
      ones.added.push_back(static_cast<int64_t>(d));
    } else {
      drop_before(copied);
      ++next;
    }
  }
  drop_before(static_cast<int64_t>(from.size()));
  for (const int64_t d : ones.dropped) {
    if (from[at(d)] != 1) return {};
  }
  return ones;
}

std::string with_ones(GraphWriter& to, const Node& node, std::string x, const Ones& ones) {
  if (!ones.dropped.empty()) x = to.add("Squeeze", node_name(node, "squeeze"), {x, to.integers(ones.dropped)});
  if (!ones.added.empty()) x = to.add("Unsqueeze", node_name(node), {x, to.integers(ones.added)});
  return x;
}

// A reshape that only splits or joins channels works directly on a channels-first value, without transposes.
void write_reshape(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const int x = node.inputs[0];
  const Tensor &from = to.tensor(x), &result = to.tensor(node.outputs[0]);
  const size_t kept = kept_dimensions(from.shape, result.shape);
  const bool pixels_are_last = kept > 0 && !to.is_constant(x) && to.order_of(x).back() < kept;
  const bool sized = !from.sized_by_run && !result.sized_by_run;
  if (sized && !pixels_are_last) {
    const auto ones = ones_of(from.shape, node.attributes.values);
    if (ones) return to.define(node, with_ones(to, node, to.plain(x), *ones), source_order(result.shape.size()));
  }
  Order before = source_order(from.shape.size()), after = source_order(result.shape.size());
  Vector<int64_t> shape = node.attributes.values;
  if (pixels_are_last) {
    before = pixels_last(from.shape.size(), kept);
    after = pixels_last(result.shape.size(), kept);
    shape = reordered_shape(to, node, before, after);
  }
  const std::string value = to.in_order(x, before);
  if (sized && !to.model.open && std::count(result.shape.begin(), result.shape.end(), 0) > 0) {
    shape.clear();
    for (const uint32_t d : after) shape.push_back(static_cast<int64_t>(result.shape[d]));
    return to.define(node, reshaped_as_is(to, node, value, to.integers(shape)), after);
  }
  to.define(node, reshaped(to, node, value, shape), after);
}

void write_transpose(GraphWriter& to, const Node& node, const ExportRow& /*row*/) {
  const Order permutation(node.attributes.values.begin(), node.attributes.values.end());
  const Order order = to.following(node);
  to.define_stored(node.outputs[0], to.stored(node.inputs[0], order), permuted(order, permutation));
}

}  // namespace

const ExportTable& exported_shapes() {
  static const ExportTable table = {
      {"add", {write_binary, "Add"}},
      {"clamp", {write_unary}},
      {"concat", ordered({write_concat})},
      {"dequantize", {write_unary}},  // in_order() and define() convert
      {"div", {write_binary, "Div"}},
      {"exp", {write_unary, "Exp"}},
      {"hard_swish", {write_unary, "HardSwish", 14}},
      {"mul", {write_binary, "Mul"}},
      {"pad", ordered({write_pad})},
      {"power", {write_power}},
      {"prelu", ordered({write_prelu})},
      {"quantize", {write_unary}},
      {"requantize", {write_unary}},
      {"reshape", {write_reshape}},
      {"scale", ordered({write_scale})},
      {"sigmoid", {write_unary, "Sigmoid"}},
      {"slice", ordered({write_slice})},
      {"softmax", ordered({write_softmax})},
      {"sub", {write_binary, "Sub"}},
      {"tanh", {write_unary, "Tanh"}},
      {"transpose", ordered({write_transpose})},
  };
  return table;
}

}  // namespace quern::onnx

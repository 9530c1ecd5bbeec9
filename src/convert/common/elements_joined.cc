// Tensors that are joined, padded or repeated.
#include "convert/common/elements.h"

#include <algorithm>

#include "convert/common/fold.h"

namespace quern::convert {

Value concat_integers(const SourceNode& node) {
  Integers out;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const Integers& in = node.symbolic(i);
    if (in.shape.size() != 1) throw Unsupported{"of integers of rank " + std::to_string(in.shape.size())};
    out.values.insert(out.values.end(), in.values.begin(), in.values.end());
    out.symbols.insert(out.symbols.end(), in.symbols.begin(), in.symbols.end());
    if (out.values.size() > fold_limit) throw Unsupported{"too large"};
  }
  out.shape = {out.values.size()};
  return integer_value(std::move(out), node.value(0).type);
}

namespace {
Value concat_floats(const SourceNode& node) {
  std::vector<float> joined;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const std::vector<float> part = node.floats(i);
    joined.insert(joined.end(), part.begin(), part.end());
    if (joined.size() > fold_limit) throw Unsupported{"too large"};
  }
  return node.result(node.builder.constant({joined.size()}, joined.data()));
}
}  // namespace

Value concat(const SourceNode& node, size_t axis) {
  std::vector<View> views;
  bool vectors = true;  // whether all inputs are constant vectors
  bool alike = true;
  for (size_t i = 0; i < node.input_count(); ++i) {
    views.push_back(node.any_view(i));
    vectors &= node.is_constant(i) && views.back().rank() == 1;
    alike &= node.builder.are_alike(views[0], views.back());
  }
  // Bytes with several scales, or some with and some without, are joined as the numbers that they are in the source.
  for (size_t i = 0; !alike && i < views.size(); ++i) {
    const std::string name = node.name + "/number" + std::to_string(i);
    views[i] = node.builder.custom("bit_cast", name, {node.operand(i)}, {}, {operand_type(node.value(i).type)})[0];
  }
  return vectors ? concat_floats(node) : node.result(node.builder.concat(node.name, views, axis));
}

Value stack(const SourceNode& node, int64_t axis) {
  std::vector<Value> values;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const std::string name = node.name + "/" + std::to_string(i);
    values.push_back(unsqueeze(node.with({&node.value(i)}, name), 0, {axis}));
  }
  std::vector<const Value*> inputs;
  for (const Value& value : values) inputs.push_back(&value);
  const SourceNode joined = node.with(inputs, node.name);
  if (joined.is_integer(0)) return concat_integers(joined);
  return concat(joined, node.axis(axis, joined.any_view(0).rank()));
}

Values unstack(const SourceNode& node, size_t input, int64_t axis) {
  const Shape shape = node.dims(input);
  const size_t d = node.axis(axis, shape.size());
  if (shape[d] > 256) throw Unsupported{"into more than 256 parts"};
  Values values = split(node, input, d, std::vector<int64_t>(shape[d], 1));
  for (size_t i = 0; i < values.size(); ++i) {
    const Value part = values[i];
    const std::string name = node.name + "/" + std::to_string(i);
    values[i] = squeeze(node.with({&part}, name), 0, std::vector{static_cast<int64_t>(d)});
  }
  return values;
}

View pad(const SourceNode& node, const View& x, const std::vector<int64_t>& pads, float value) {
  if (pads.size() != 2 * x.rank()) node.fail("pads do not fit the input");
  std::vector<int64_t> before, after;
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < 0 || pads[i] > INT32_MAX) node.fail("pads are out of range");
    (i % 2 == 0 ? before : after).push_back(pads[i]);
  }
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return x;
  return node.builder.pad(node.name, x, before, after, value);
}

Value expand(const SourceNode& node, size_t input, size_t shape_input) {
  const Shape from = node.dims(input);
  Shape to;
  const Integers& wanted = node.symbolic(shape_input);
  for (const int64_t d : wanted.values) {
    if (d < 0) node.fail("a dimension is negative");
    if (d == 0) throw Unsupported{"to a dimension of zero"};
    to.push_back(static_cast<size_t>(d));
  }
  const Shape shape = broadcast_shape(node, from, to);
  if (shape != from && !node.is_constant(input)) throw Unsupported{"of a computed tensor"};
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t before = shape.size() - to.size(), offset = shape.size() - from.size();
    const Symbol symbol = before + i < offset ? no_symbol : node.dimension(input, before + i - offset).symbol;
    const bool follows =
        shape == from && (wanted.symbols[i] == symbol || (wanted.symbols[i] == no_symbol && to[i] == 1));
    if (follows) continue;
    if (node.builder.is_open(symbol) || node.builder.is_open(wanted.symbols[i])) throw Unsupported{"to an open size"};
    node.fix(symbol);
    node.fix(wanted.symbols[i]);
  }
  if (shape == from) return node.value(input);
  return take(node, input, shape, broadcast_index(node, from, shape));
}

}  // namespace quern::convert

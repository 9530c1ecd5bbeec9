// The same elements in another shape or order.
#include "convert/common/elements.h"

#include <algorithm>

#include "base/math.h"
#include "convert/common/fold.h"

namespace quern::convert {

namespace {

// Returns the shape with the inferred dimension in place of -1. `to` may have one -1, and no values that copy.
Shape resolved(const SourceNode& node, const Shape& from, const std::vector<int64_t>& to) {
  size_t count = 1, known = 1;
  for (const size_t d : from) count *= d;
  for (const int64_t d : to) {
    if (d < -1 || (d > 0 && !checked_mul(known, static_cast<size_t>(d), &known))) node.fail("bad shape");
    if (d == 0) known = 0;
  }
  Shape shape;
  for (const int64_t d : to) shape.push_back(d >= 0 ? static_cast<size_t>(d) : known == 0 ? 0 : count / known);
  size_t result = 1;
  for (const size_t d : shape) result *= d;
  if (result != count || std::count(to.begin(), to.end(), -1) > 1) node.fail("the new shape has another size");
  return shape;
}

// `number` is a size that changes with the model's inputs. Returns the value that makes a reshape copy this size to
// dimension `place`. Returns nothing if no dimension of the input is always equal to it.
std::optional<int64_t> followed(const SourceNode& node, size_t input, const Symbols::Number& number, size_t place) {
  const size_t rank = node.dims(input).size();
  const auto equal = [&](size_t d) { return node.dimension(input, d).symbol == number.symbol; };
  if (place < rank && equal(place)) return 0;
  for (size_t d = 0; d < rank; ++d) {
    if (equal(d)) return copy_dimension(d, place);
  }
  return std::nullopt;
}

// Returns the values of a reshape that only drops and adds dimensions of 1. For each dimension of the result, `source`
// names the input's dimension that is kept there, or is empty for a new dimension of 1.
std::vector<int64_t> moved(const std::vector<std::optional<size_t>>& source) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < source.size(); ++i) values.push_back(source[i] ? copy_dimension(*source[i], i) : 1);
  return values;
}

}  // namespace

Value reshape(const SourceNode& node, size_t input, const std::vector<int64_t>& values) {
  if (!node.is_integer(input)) return node.result(node.builder.reshape(node.name, node.any_view(input), values));
  if (values.size() > rank_limit) node.fail("too many dimensions");
  Integers out = node.symbolic(input);
  std::vector<int64_t> to = values;
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t copied = copied_dimension(to[i], i);
    if (copied < 0) continue;
    if (copied >= static_cast<int64_t>(out.shape.size())) node.fail("bad shape");
    to[i] = static_cast<int64_t>(out.shape[static_cast<size_t>(copied)]);
  }
  out.shape = resolved(node, node.symbolic(input).shape, to);
  return integer_value(std::move(out), node.value(input).type);
}

Value reshape_to(const SourceNode& node, size_t input, size_t shape_input, bool zero_is_zero) {
  const Integers& shape = node.symbolic(shape_input);
  std::vector<int64_t> values = shape.values;
  bool infers = std::count(values.begin(), values.end(), -1) > 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < -1) node.fail("a negative dimension");
    const auto value = shape.symbols[i] == no_symbol ? std::nullopt : followed(node, input, shape.at(i), i);
    if (value) {
      values[i] = *value;
    } else if (values[i] == 0 && zero_is_zero) {
      throw Unsupported{"a dimension of zero"};
    } else if (shape.symbols[i] == no_symbol) {
      continue;
    } else if (!infers && values[i] > 0) {  // infer it from the other dimensions
      values[i] = -1;
      infers = true;
    } else if (node.builder.is_open(shape.symbols[i])) {
      throw Unsupported{"to several open sizes"};
    } else {
      node.fix(shape.symbols[i]);
    }
  }
  return reshape(node, input, values);
}

Value flatten(const SourceNode& node, size_t input, int64_t axis) {
  const auto rank = static_cast<int64_t>(node.any_view(input).rank());
  if (axis < -rank || axis > rank) node.fail("axis " + std::to_string(axis) + " is out of range");
  if (axis < 0) axis += rank;
  if (axis == 1 && rank == 2) return node.value(input);
  if (axis == 0) return reshape(node, input, {1, -1});
  if (axis == 1) return reshape(node, input, {0, -1});
  if (axis == rank) return reshape(node, input, {-1, 1});
  // One reshape joins the dimensions from `axis` on, a second one joins those before it.
  std::vector<int64_t> values(static_cast<size_t>(axis), 0);
  values.push_back(-1);
  const View inner = node.builder.reshape(node.name + "/inner", node.any_view(input), values);
  return node.result(node.builder.reshape(node.name, inner, {-1, copy_dimension(static_cast<size_t>(axis), 1)}));
}

Value squeeze(const SourceNode& node, size_t input, const std::optional<std::vector<int64_t>>& axes) {
  const Shape shape = node.dims(input);
  std::vector<char> dropped(shape.size(), 0);
  if (axes) {
    for (const int64_t axis : *axes) {
      const size_t d = node.axis(axis, shape.size());
      if (shape[d] != 1) node.fail("dimension " + std::to_string(d) + " is not 1");
      dropped[d] = 1;
    }
  } else {
    for (size_t d = 0; d < shape.size(); ++d) {
      dropped[d] = shape[d] == 1;
      node.fix(node.dimension(input, d).symbol);
    }
  }
  std::vector<std::optional<size_t>> source;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!dropped[d]) source.emplace_back(d);
  }
  return reshape(node, input, moved(source));
}

Value unsqueeze(const SourceNode& node, size_t input, const std::vector<int64_t>& axes) {
  if (axes.size() > 8) node.fail("too many axes");
  std::vector<char> added(node.dims(input).size() + axes.size(), 0);
  for (const int64_t axis : axes) {
    if (added[node.axis(axis, added.size())]++) node.fail("an axis is given twice");
  }
  std::vector<std::optional<size_t>> source;
  size_t next = 0;
  for (const char one : added) source.push_back(one ? std::nullopt : std::optional<size_t>(next++));
  return reshape(node, input, moved(source));
}

namespace {
Value transposed_integers(const SourceNode& node, size_t input, const Order& order) {
  const Shape from = node.dims(input);
  Shape strides(from.size(), 1), to, to_strides;
  for (size_t d = from.size(); d-- > 1;) strides[d - 1] = strides[d] * from[d];
  for (const uint32_t d : order) {
    to.push_back(from[d]);
    to_strides.push_back(strides[d]);
  }
  std::vector<size_t> index;
  walk(to, to_strides, [&](size_t element) { index.push_back(element); });
  return take(node, input, to, index);
}
}  // namespace

Value transpose(const SourceNode& node, size_t input, const std::vector<int64_t>& perm) {
  const size_t rank = node.dims(input).size();
  Order order;
  std::vector<char> seen(rank, 0);
  for (const int64_t d : perm) {
    if (d < 0 || static_cast<size_t>(d) >= rank || seen[static_cast<size_t>(d)]++)
      node.fail("perm must be a permutation of the dimensions 0.." + std::to_string(rank - 1));
    order.push_back(static_cast<uint32_t>(d));
  }
  if (order.size() != rank) node.fail("perm does not fit the input");
  if (rank < 2) return node.value(input);
  if (node.is_integer(input)) return transposed_integers(node, input, order);
  Value value = node.result(node.builder.permute(node.any_view(input), order));
  for (const View& part : node.value(input).quantized) value.quantized.push_back(node.builder.permute(part, order));
  return value;
}

}  // namespace quern::convert

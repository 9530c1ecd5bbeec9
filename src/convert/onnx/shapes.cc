// ONNX operators that move or name elements: shapes, slices, constants. Arithmetic on shapes is done here, at import.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/math.h"
#include "convert/onnx/node.h"
#include "convert/onnx/tensor.h"
#include "graph/ir/rules.h"

namespace quern {
namespace {

using onnx::TensorProto;

// What is worked out at import stays small, whatever a file asks for.
constexpr size_t fold_limit = size_t{1} << 20, rank_limit = 16;

size_t limited_product(const Shape& shape) {
  if (shape.size() > rank_limit) throw Unsupported{"too many dimensions"};
  size_t count = 1;
  for (const size_t d : shape) {
    if (!checked_mul(count, d, &count)) throw Unsupported{"too large"};
  }
  if (count > fold_limit) throw Unsupported{"too large"};
  return count;
}

Shape dims_of(const OnnxNode& node, size_t input) {
  return node.is_integer(input) ? node.symbolic(input).shape : node.builder.shape(node.view(input));
}

Symbols::Number dimension(const OnnxNode& node, size_t input, size_t d) {
  const auto size = static_cast<int64_t>(dims_of(node, input)[d]);
  return {size, node.is_integer(input) ? no_symbol : node.builder.symbol(node.view(input), d)};
}

// ---- constants element by element -------------------------------------------------------------

// The constant input `from` with its elements picked by `index`.
Values take(const OnnxNode& node, size_t from, const Shape& shape, const std::vector<size_t>& index) {
  if (node.is_integer(from)) {
    const Integers& in = node.symbolic(from);
    Integers out{shape, {}, {}};
    for (const size_t i : index) out.add(in.at(i));
    return {integer_value(std::move(out), node.value(from).type)};
  }
  const float* in = node.builder.floats(node.constant(from));
  std::vector<float> out;
  for (const size_t i : index) out.push_back(in[i]);
  Value value = node.result(node.builder.constant(shape, out.data()));
  value.type = node.value(from).type;
  return {value};
}

// Per element of `to`, which element of the smaller tensor it repeats (NumPy's rules).
std::vector<size_t> broadcast_index(const OnnxNode& node, const Shape& from, const Shape& to) {
  std::vector<size_t> index(limited_product(to));
  const size_t rank = to.size(), offset = rank - from.size();
  Shape stride(rank, 0), at(rank, 0);  // a stride of 0 repeats
  size_t next = 1;
  for (size_t d = rank; d-- > offset;) {
    const size_t size = from[d - offset];
    if (size != 1 && size != to[d]) node.fail("shapes do not broadcast");
    if (size != 1) stride[d] = next;
    next *= size;
  }
  size_t element = 0;
  for (size_t& i : index) {
    i = element;
    for (size_t d = rank; d-- > 0;) {
      element += stride[d];
      if (++at[d] < to[d]) break;
      element -= stride[d] * to[d];
      at[d] = 0;
    }
  }
  return index;
}

Shape broadcast_shape(const OnnxNode& node, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (const Shape* from : {&a, &b}) {
    for (size_t i = 0; i < from->size(); ++i) {
      size_t& d = shape[shape.size() - from->size() + i];
      const size_t other = (*from)[i];
      if (d != 1 && other != 1 && d != other) node.fail("shapes do not broadcast");
      if (d == 1) d = other;
    }
  }
  return shape;
}

int64_t arithmetic(const OnnxNode& node, int64_t a, int64_t b) {
  const std::string& op = node.proto.op_type();
  int64_t result = 0;
  bool fits = true;
  if (op == "Add") {
    fits = checked_add(a, b, &result);
  } else if (op == "Sub") {
    fits = !__builtin_sub_overflow(a, b, &result);
  } else if (op == "Mul") {
    fits = checked_mul(a, b, &result);
  } else {
    fits = b != 0 && !(a == std::numeric_limits<int64_t>::min() && b == -1);
    if (fits) result = a / b;
  }
  if (!fits) node.fail("integer arithmetic without a result");
  return result;
}

Symbols::Number integer_result(const OnnxNode& node, const Symbols::Number& a, const Symbols::Number& b) {
  const char op = node.proto.op_type()[0];  // Add, Sub, Mul, Div
  const int64_t value = arithmetic(node, a.value, b.value);
  if (a.symbol == no_symbol && b.symbol == no_symbol) return {value};  // among 2^20, perhaps
  const auto is = [](const Symbols::Number& x, int64_t y) { return x.symbol == no_symbol && x.value == y; };
  if (is(b, op == 'A' || op == 'S' ? 0 : 1)) return {value, a.symbol};
  if (is(a, 0) && op == 'A') return {value, b.symbol};
  Symbols& symbols = node.builder.symbols();
  return {value, op == 'M' ? symbols.product(a, b) : symbols.result(op, {}, {a, b})};
}

float float_result(const OnnxNode& node, float a, float b) {
  const std::string& op = node.proto.op_type();
  return op == "Add" ? a + b : op == "Sub" ? a - b : op == "Mul" ? a * b : a / b;
}

// ---- constants --------------------------------------------------------------------------------

Values constant(const OnnxNode& node) {
  if (const onnx::TensorProto* tensor = node.tensor("value")) {
    return {constant_value(node.builder, read_tensor(*tensor, node.folder))};
  }
  Numbers numbers;
  if (node.has_attribute("value_float")) {
    numbers = {TensorProto::FLOAT, {}, {node.any_number("value_float", 0)}, {}};
  } else if (node.has_attribute("value_int")) {
    numbers = {TensorProto::INT64, {}, {}, {node.integer("value_int", 0)}};
  } else if (node.has_attribute("value_floats")) {
    numbers = {TensorProto::FLOAT, {}, node.number_list("value_floats"), {}};
    numbers.shape = {numbers.floats.size()};
  } else if (node.has_attribute("value_ints")) {
    numbers = {TensorProto::INT64, {}, {}, node.integer_list("value_ints")};
    numbers.shape = {numbers.integers.size()};
  } else {
    throw Unsupported{"neither numbers nor a dense tensor"};
  }
  return {constant_value(node.builder, std::move(numbers))};
}

Values constant_of_shape(const OnnxNode& node) {
  Numbers one{TensorProto::FLOAT, {}, {0}, {}};
  if (const onnx::TensorProto* tensor = node.tensor("value")) one = read_tensor(*tensor, node.folder);
  if (one.floats.size() + one.integers.size() != 1) node.fail("value is not one number");
  Shape shape;
  for (const int64_t d : node.integers(0).values) {
    if (d < 0) node.fail("negative dimension");
    shape.push_back(static_cast<size_t>(d));
  }
  const size_t count = limited_product(shape);
  one.shape = shape;
  if (!one.floats.empty()) one.floats.assign(count, one.floats[0]);
  if (!one.integers.empty()) one.integers.assign(count, one.integers[0]);
  return {constant_value(node.builder, std::move(one))};
}

Values range(const OnnxNode& node) {
  int64_t bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (node.integers(i).values.size() != 1) node.fail("bounds are not numbers");
    bounds[i] = node.integers(i).values[0];
  }
  const auto [start, limit, step] = bounds;
  if (step == 0) node.fail("step is zero");
  const double count = (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(step);
  if (count > fold_limit) throw Unsupported{"too large"};
  Integers out;
  for (int64_t i = start; step > 0 ? i < limit : i > limit;) {
    out.values.push_back(i);
    if (!checked_add(i, step, &i)) break;
  }
  out.shape = {out.values.size()};
  return {integer_value(std::move(out), node.value(0).type)};
}

Values shape_of(const OnnxNode& node) {
  const Shape dims = dims_of(node, 0);
  const auto rank = static_cast<int64_t>(dims.size());
  const auto place = [rank](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const int64_t first = place(node.integer("start", 0)), last = place(node.integer("end", rank));
  Integers out;
  for (int64_t i = first; i < last; ++i) out.add(dimension(node, 0, static_cast<size_t>(i)));
  out.shape = {out.values.size()};
  return {integer_value(std::move(out))};
}

Symbols::Number product(const OnnxNode& node, const Symbols::Number& a, const Symbols::Number& b) {
  int64_t value;
  if (!checked_mul(a.value, b.value, &value)) node.fail("too large");
  return {value, node.builder.symbols().product(a, b)};
}

Values size_of(const OnnxNode& node) {
  Symbols::Number count = {1};
  for (size_t d = 0; d < dims_of(node, 0).size(); ++d) count = product(node, count, dimension(node, 0, d));
  return {integer_value({{}, {count.value}, {count.symbol}})};
}

// ---- types and comparisons --------------------------------------------------------------------

int64_t truncated(const OnnxNode& node, float value) {
  if (!(std::fabs(value) < 9e18f)) node.fail("a number does not fit an integer");
  return static_cast<int64_t>(value);
}

Values cast(const OnnxNode& node) {
  const auto to = static_cast<int32_t>(node.integer("to", 0));
  node.ignore("saturate");
  if (is_float_type(to) && !node.is_integer(0)) {
    Value value = node.value(0);
    value.type = to;
    return {value};
  }
  if (is_float_type(to)) {
    const Integers& in = node.integers(0);
    if (in.values.empty()) return {integer_value(in, to)};
    const std::vector<float> floats(in.values.begin(), in.values.end());
    Value value = node.result(node.builder.constant(in.shape, floats.data()));
    value.type = to;
    return {value};
  }
  if (!is_integer_type(to)) throw Unsupported{"to type " + std::to_string(to)};
  if (!node.is_constant(0)) throw Unsupported{"of a computed tensor to integers"};
  Integers out;
  if (node.is_integer(0)) {
    out = to == TensorProto::BOOL ? node.integers(0) : node.symbolic(0);
  } else {
    out.shape = dims_of(node, 0);
    for (const float value : node.floats(0)) out.values.push_back(truncated(node, value));
  }
  if (to == TensorProto::BOOL) {
    out.symbols.clear();
    for (int64_t& value : out.values) value = value != 0;
  }
  return {integer_value(std::move(out), to)};
}

Values rounded(const OnnxNode& node, float (*function)(float)) {
  if (node.elements(0) > fold_limit) throw Unsupported{"too large"};
  std::vector<float> values = node.floats(0);
  std::transform(values.begin(), values.end(), values.begin(), function);
  return {node.result(node.builder.constant(dims_of(node, 0), values.data()))};
}
Values floor(const OnnxNode& node) { return rounded(node, std::floor); }
Values ceil(const OnnxNode& node) { return rounded(node, std::ceil); }

Values equal(const OnnxNode& node) {
  const Integers &a = node.symbolic(0), &b = node.symbolic(1);
  const Shape shape = broadcast_shape(node, a.shape, b.shape);
  const std::vector<size_t> from_a = broadcast_index(node, a.shape, shape),
                            from_b = broadcast_index(node, b.shape, shape);
  Integers out{shape, {}, {}};
  for (size_t i = 0; i < from_a.size(); ++i) {
    const Symbols::Number x = a.at(from_a[i]), y = b.at(from_b[i]);
    out.values.push_back(x.value == y.value);
    if (x.symbol == y.symbol) continue;
    node.fix(x.symbol);
    node.fix(y.symbol);
  }
  return {integer_value(std::move(out), TensorProto::BOOL)};
}

Values where(const OnnxNode& node) {
  const Integers &c = node.integers(0), &a = node.symbolic(1), &b = node.symbolic(2);
  const Shape shape = broadcast_shape(node, broadcast_shape(node, c.shape, a.shape), b.shape);
  const std::vector<size_t> from_c = broadcast_index(node, c.shape, shape);
  const std::vector<size_t> from_a = broadcast_index(node, a.shape, shape),
                            from_b = broadcast_index(node, b.shape, shape);
  Integers out{shape, {}, {}};
  for (size_t i = 0; i < from_c.size(); ++i) out.add(c.values[from_c[i]] != 0 ? a.at(from_a[i]) : b.at(from_b[i]));
  return {integer_value(std::move(out), node.value(1).type)};
}

Values reduce_prod(const OnnxNode& node) {
  const Integers& in = node.symbolic(0);
  if (in.shape.size() > 1) throw Unsupported{"of a tensor of rank " + std::to_string(in.shape.size())};
  node.ignore("axes");
  const bool keep = node.integer("keepdims", 1) != 0;
  Symbols::Number all = {1};
  for (size_t i = 0; i < in.values.size(); ++i) all = product(node, all, in.at(i));
  return {integer_value({keep ? Shape{1} : Shape{}, {all.value}, {all.symbol}}, node.value(0).type)};
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
  const size_t rank = dims_of(node, 0).size();
  std::vector<int64_t> list = node.integer_list("perm");
  if (!node.has_attribute("perm")) {
    for (size_t i = rank; i-- > 0;) list.push_back(static_cast<int64_t>(i));
  }
  Order permutation;
  std::vector<char> seen(rank, 0);
  for (const int64_t d : list) {
    if (d < 0 || static_cast<size_t>(d) >= rank || seen[static_cast<size_t>(d)]++) node.fail("perm is no permutation");
    permutation.push_back(static_cast<uint32_t>(d));
  }
  if (permutation.size() != rank) node.fail("perm does not fit the input");
  if (rank < 2) return {node.value(0)};
  return {node.result(node.builder.permute(node.view(0), permutation))};
}

// `shape` has no zeros that copy and at most one -1.
Shape resolved(const OnnxNode& node, const Shape& from, const std::vector<int64_t>& to) {
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

// Any reshape; `values` as in op.inc.
Values reshaped(const OnnxNode& node, const std::vector<int64_t>& values) {
  if (!node.is_integer(0)) return {node.result(node.builder.reshape(node.name, node.view(0), values))};
  if (values.size() > rank_limit) node.fail("too many dimensions");
  Integers out = node.symbolic(0);
  std::vector<int64_t> to = values;
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t copied = copied_dimension(to[i], i);
    if (copied < 0) continue;
    if (copied >= static_cast<int64_t>(out.shape.size())) node.fail("bad shape");
    to[i] = static_cast<int64_t>(out.shape[static_cast<size_t>(copied)]);
  }
  out.shape = resolved(node, node.symbolic(0).shape, to);
  return {integer_value(std::move(out), node.value(0).type)};
}

// The value of a reshape with which dimension `place` is `number`, a size that changes with the inputs: that of the
// dimension of x it is always equal to, if there is one.
std::optional<int64_t> followed(const OnnxNode& node, const Symbols::Number& number, size_t place) {
  const size_t rank = dims_of(node, 0).size();
  const auto equal = [&](size_t d) { return dimension(node, 0, d).symbol == number.symbol; };
  if (place < rank && equal(place)) return 0;
  for (size_t d = 0; d < rank; ++d) {
    if (equal(d)) return copy_dimension(d, place);
  }
  return std::nullopt;
}

Values reshape(const OnnxNode& node) {
  const Integers& shape = node.symbolic(1);
  const bool zero_is_zero = node.integer("allowzero", 0) != 0;
  std::vector<int64_t> values = shape.values;
  bool infers = std::count(values.begin(), values.end(), -1) > 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0 && zero_is_zero) node.fail("a dimension of zero");
    if (values[i] < -1) node.fail("a negative dimension");
    if (shape.symbols[i] == no_symbol) continue;
    if (const auto value = followed(node, shape.at(i), i)) {
      values[i] = *value;
    } else if (!infers && values[i] > 0) {  // what the other dimensions leave
      values[i] = -1;
      infers = true;
    } else {
      node.fix(shape.symbols[i]);
    }
  }
  return reshaped(node, values);
}

Values flatten(const OnnxNode& node) {
  const auto rank = static_cast<int64_t>(node.view(0).rank());
  int64_t axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank) node.fail("axis " + std::to_string(axis) + " is out of range");
  if (axis < 0) axis += rank;
  if (axis == 1 && rank == 2) return {node.value(0)};
  if (axis == 0) return reshaped(node, {1, -1});
  if (axis == 1) return reshaped(node, {0, -1});
  if (axis == rank) return reshaped(node, {-1, 1});
  // First the dimensions from `axis` on become one, then those before it.
  std::vector<int64_t> values(static_cast<size_t>(axis), 0);
  values.push_back(-1);
  const View x = node.builder.reshape(node.name + "/inner", node.view(0), values);
  return {node.result(node.builder.reshape(node.name, x, {-1, copy_dimension(static_cast<size_t>(axis), 1)}))};
}

// The values for a reshape that only drops and adds dimensions of 1: `source` says which dimension stays.
std::vector<int64_t> moved(const std::vector<std::optional<size_t>>& source) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < source.size(); ++i) values.push_back(source[i] ? copy_dimension(*source[i], i) : 1);
  return values;
}

Values squeeze(const OnnxNode& node) {
  const Shape shape = dims_of(node, 0);
  std::vector<int64_t> axes;
  std::vector<char> dropped(shape.size(), 0);
  if (node.list("axes", 1, 13, &axes)) {
    for (const int64_t axis : axes) {
      const size_t d = node.axis(axis, shape.size());
      if (shape[d] != 1) node.fail("dimension " + std::to_string(d) + " is not 1");
      dropped[d] = 1;
    }
  } else {
    for (size_t d = 0; d < shape.size(); ++d) {
      dropped[d] = shape[d] == 1;
      node.fix(dimension(node, 0, d).symbol);
    }
  }
  std::vector<std::optional<size_t>> source;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!dropped[d]) source.emplace_back(d);
  }
  return reshaped(node, moved(source));
}

Values unsqueeze(const OnnxNode& node) {
  const Shape shape = dims_of(node, 0);
  std::vector<int64_t> axes;
  if (!node.list("axes", 1, 13, &axes)) node.fail("axes are missing");
  if (axes.size() > 8) node.fail("too many axes");
  std::vector<char> added(shape.size() + axes.size(), 0);
  for (const int64_t axis : axes) {
    if (added[node.axis(axis, added.size())]++) node.fail("an axis is given twice");
  }
  std::vector<std::optional<size_t>> source;
  size_t next = 0;
  for (const char one : added) source.push_back(one ? std::nullopt : std::optional<size_t>(next++));
  return reshaped(node, moved(source));
}

// ---- parts ------------------------------------------------------------------------------------

struct Part {
  size_t axis;
  Symbols::Number begin, end;
  int64_t step;
};

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

// The elements of a dense tensor that have index list[d][...] in each dimension d.
std::vector<size_t> elements_at(const Shape& shape, const std::vector<std::vector<size_t>>& lists) {
  Shape sizes;
  for (const auto& list : lists) sizes.push_back(list.size());
  if (limited_product(sizes) == 0) return {};
  std::vector<size_t> index = {0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<size_t> next;
    for (const size_t i : index) {
      for (const size_t at : lists[d]) next.push_back(i * shape[d] + at);
    }
    index = std::move(next);
  }
  return index;
}

std::vector<std::vector<size_t>> all_indices(const OnnxNode& node, const Shape& shape) {
  std::vector<std::vector<size_t>> lists(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > fold_limit) throw Unsupported{"too large"};
    node.builder.charge(shape[d] * sizeof(size_t));
    for (size_t i = 0; i < shape[d]; ++i) lists[d].push_back(i);
  }
  return lists;
}

Values slice_constant(const OnnxNode& node, const Shape& shape, const std::vector<Part>& parts) {
  std::vector<std::vector<size_t>> lists = all_indices(node, shape);
  for (const Part& part : parts) {
    const auto size = static_cast<int64_t>(shape[part.axis]);
    const int64_t low = part.step > 0 ? 0 : -1, high = part.step > 0 ? size : size - 1;
    const auto place = [&](const Symbols::Number& bound) {
      node.fix(bound.symbol);
      const int64_t at = bound.value;
      return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, low, high);
    };
    const int64_t begin = place(part.begin), end = place(part.end);
    std::vector<size_t>& list = lists[part.axis];
    list.clear();
    for (int64_t i = begin; part.step > 0 ? i < end : i > end;) {
      list.push_back(static_cast<size_t>(i));
      if (!checked_add(i, part.step, &i)) break;
    }
  }
  Shape out;
  for (const auto& list : lists) out.push_back(list.size());
  if (!node.is_integer(0) && std::count(out.begin(), out.end(), 0u) > 0) node.fail("the slice is empty");
  return take(node, 0, out, elements_at(shape, lists));
}

// A bound as our slices have it, where ONNX moves bounds outside of the dimension to its nearer end. Ours stay where
// they are and are refused outside, so one that is moved at import fixes the dimension, unless it is always moved.
int64_t slice_value(const OnnxNode& node, const Symbols::Number& bound, const Symbols::Number& size) {
  constexpr int64_t begin = 0, end = -1;
  constexpr auto largest = static_cast<int64_t>(max_extent);
  if (bound.symbol != no_symbol && bound.symbol == size.symbol) return end;
  node.fix(bound.symbol);
  const int64_t value = bound.value;
  if (size.symbol == no_symbol) {
    const int64_t at = value < 0 ? std::max(value, -size.value) + size.value : value;
    return at >= size.value ? end : at;
  }
  const bool outside = value > size.value || value<-size.value, always = value> largest || value < -largest;
  if (outside && !always) node.fix(size.symbol);
  if (value < -size.value) return begin;
  return value > size.value ? end : value < 0 ? value - 1 : value;
}

Values slice(const OnnxNode& node) {
  const Shape shape = dims_of(node, 0);
  const std::vector<Part> parts = parts_of(node, shape.size());
  if (node.is_constant(0)) return slice_constant(node, shape, parts);
  std::vector<int64_t> begin(shape.size(), 0), end(shape.size(), -1);
  for (const Part& part : parts) {
    if (part.step != 1) throw Unsupported{"step " + std::to_string(part.step)};
    const Symbols::Number size = dimension(node, 0, part.axis);
    const int64_t first = slice_value(node, part.begin, size), last = slice_value(node, part.end, size);
    if (slice_bound(last, shape[part.axis]) <= slice_bound(first, shape[part.axis])) node.fail("the slice is empty");
    begin[part.axis] = first;
    end[part.axis] = last;
  }
  return {node.result(node.builder.slice(node.name, node.view(0), begin, end))};
}

// Elements begin .. end-1 of one axis.
View piece(const OnnxNode& node, const std::string& name, size_t axis, int64_t begin, int64_t end) {
  const size_t rank = node.view(0).rank();
  std::vector<int64_t> first(rank, 0), last(rank, -1);
  first[axis] = begin;
  last[axis] = end;
  return node.builder.slice(name, node.view(0), first, last);
}

Values split(const OnnxNode& node) {
  const Shape shape = dims_of(node, 0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const auto size = static_cast<int64_t>(shape[axis]);
  node.fix(dimension(node, 0, axis).symbol);  // the sizes are of this one alone
  const int64_t count = node.proto.output_size();
  std::vector<int64_t> sizes;
  if (!node.list("split", 1, 13, &sizes)) {
    if (node.integer("num_outputs", count) != count || count == 0 || count > size) node.fail("bad number of outputs");
    const int64_t each = (size + count - 1) / count;
    if (node.opset < 18 && size % count != 0) node.fail("the dimension does not divide into equal parts");
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::min(each, size - i * each));
  }
  if (static_cast<int64_t>(sizes.size()) != count) node.fail("split does not fit the outputs");
  Values values;
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] <= 0 || sizes[i] > size - begin) node.fail("split does not fit the dimension");
    const int64_t end = begin + sizes[i];
    values.push_back(node.result(piece(node, node.name + "/" + std::to_string(i), axis, begin, end)));
    begin = end;
  }
  if (begin != size) node.fail("split does not cover the dimension");
  return values;
}

// The indices along one axis. Those from behind stay below 0 if the dimension may change.
std::vector<int64_t> places(const OnnxNode& node, const Symbols::Number& size) {
  std::vector<int64_t> places = node.integers(1).values;
  for (int64_t& at : places) {
    if (at < -size.value || at >= size.value) node.fail("an index is out of range");
    if (at < 0 && size.symbol == no_symbol) at += size.value;
  }
  if (places.empty()) node.fail("no indices");
  return places;
}

// The elements at these places of one axis: a slice for each run of neighbours, joined.
View picked(const OnnxNode& node, const std::vector<int64_t>& at, size_t axis) {
  const auto bound = [](int64_t index, bool from_behind) { return from_behind ? index - 1 : index; };
  std::vector<View> pieces;
  for (size_t i = 0; i < at.size();) {
    size_t j = i + 1;
    while (j < at.size() && at[j] == at[j - 1] + 1 && at[j] != 0) ++j;
    const std::string name = node.name + "/" + std::to_string(pieces.size());
    pieces.push_back(piece(node, name, axis, bound(at[i], at[i] < 0), bound(at[j - 1] + 1, at[i] < 0)));
    i = j;
    if (pieces.size() > 256) throw Unsupported{"of more than 256 places"};
  }
  return pieces.size() == 1 ? pieces[0] : node.builder.concat(node.name, pieces, axis);
}

Values gather(const OnnxNode& node) {
  const Shape shape = dims_of(node, 0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const std::vector<int64_t> at = places(node, dimension(node, 0, axis));
  const Shape& index_shape = node.integers(1).shape;
  if (index_shape.size() > 1) throw Unsupported{"by a tensor of indices"};
  const bool drops_axis = index_shape.empty();
  if (node.is_constant(0)) {
    std::vector<std::vector<size_t>> lists = all_indices(node, shape);
    lists[axis].assign(at.begin(), at.end());
    Shape out = shape;
    out[axis] = at.size();
    if (drops_axis) out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
    return take(node, 0, out, elements_at(shape, lists));
  }
  const View joined = picked(node, at, axis);
  if (!drops_axis) return {node.result(joined)};
  std::vector<std::optional<size_t>> source;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != axis) source.emplace_back(d);
  }
  return {node.result(node.builder.reshape(node.name + "/drop", joined, moved(source)))};
}

// ---- joining, padding -------------------------------------------------------------------------

Values concat_integers(const OnnxNode& node) {
  node.ignore("axis");  // vectors have one
  Integers out;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const Integers& in = node.symbolic(i);
    if (in.shape.size() != 1) throw Unsupported{"of integers of rank " + std::to_string(in.shape.size())};
    out.values.insert(out.values.end(), in.values.begin(), in.values.end());
    out.symbols.insert(out.symbols.end(), in.symbols.begin(), in.symbols.end());
    if (out.values.size() > fold_limit) throw Unsupported{"too large"};
  }
  out.shape = {out.values.size()};
  return {integer_value(std::move(out), node.value(0).type)};
}

Value concat_floats(const OnnxNode& node) {
  std::vector<float> joined;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const std::vector<float> part = node.floats(i);
    joined.insert(joined.end(), part.begin(), part.end());
    if (joined.size() > fold_limit) throw Unsupported{"too large"};
  }
  return node.result(node.builder.constant({joined.size()}, joined.data()));
}

Values concat(const OnnxNode& node) {
  if (node.is_integer(0)) return concat_integers(node);
  const size_t axis = node.axis(node.integer("axis", 1), node.view(0).rank());
  std::vector<View> views;
  bool vectors = true;  // of constants
  for (size_t i = 0; i < node.input_count(); ++i) {
    views.push_back(node.view(i));
    vectors &= node.is_constant(i) && views.back().rank() == 1;
  }
  return {vectors ? concat_floats(node) : node.result(node.builder.concat(node.name, views, axis))};
}

Values pad(const OnnxNode& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant") throw Unsupported{mode};
  const size_t rank = node.view(0).rank();
  std::vector<int64_t> pads;
  if (!node.list("pads", 1, 11, &pads)) node.fail("pads are missing");
  float value = node.opset < 11 ? node.number("value", 0) : node.has(2) ? node.scalar(2) : 0;
  value = finite(value, "node '" + node.name + "' (Pad): value");
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

Values expand(const OnnxNode& node) {
  const Shape from = dims_of(node, 0);
  Shape to;
  const Integers& wanted = node.symbolic(1);
  for (const int64_t d : wanted.values) {
    if (d <= 0) node.fail("a dimension is not positive");
    to.push_back(static_cast<size_t>(d));
  }
  const Shape shape = broadcast_shape(node, from, to);
  if (shape != from && !node.is_constant(0)) throw Unsupported{"of a computed tensor"};
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t before = shape.size() - to.size(), offset = shape.size() - from.size();
    const Symbol symbol = before + i < offset ? no_symbol : dimension(node, 0, before + i - offset).symbol;
    const bool follows =
        shape == from && (wanted.symbols[i] == symbol || (wanted.symbols[i] == no_symbol && to[i] == 1));
    if (follows) continue;
    node.fix(symbol);
    node.fix(wanted.symbols[i]);
  }
  if (shape == from) return {node.value(0)};
  return take(node, 0, shape, broadcast_index(node, from, shape));
}

// Channels become pixels: a block of b x b channels is a square of pixels.
Values depth_to_space(const OnnxNode& node) {
  const int64_t b = node.integer("blocksize", 0);
  const std::string mode = node.text("mode", "DCR");
  const Shape shape = node.builder.shape(node.view(0));
  if (shape.size() != 4 || (mode != "DCR" && mode != "CRD")) throw Unsupported{mode};
  if (b <= 0 || b > 1024 || shape[1] % static_cast<size_t>(b * b) != 0)
    node.fail("blocksize does not fit the channels");
  const int64_t depth = static_cast<int64_t>(shape[1]) / (b * b);
  Builder& builder = node.builder;
  const bool blocks_first = mode == "DCR";
  const View pixels = builder.permute(node.view(0), {0, 2, 3, 1});
  const std::vector<int64_t> split =
      blocks_first ? std::vector<int64_t>{0, 0, 0, b, b, depth} : std::vector<int64_t>{0, 0, 0, depth, b, b};
  const View parts = builder.reshape(node.name + "/split", pixels, split);
  const Order order = blocks_first ? Order{0, 1, 3, 2, 4, 5} : Order{0, 1, 4, 2, 5, 3};
  // N, H, b, W, b, depth: first the height becomes one dimension, then the width.
  const std::vector<int64_t> rows = {0, -1, copy_dimension(3, 2), copy_dimension(4, 3), copy_dimension(5, 4)};
  const View high = builder.reshape(node.name + "/rows", builder.permute(parts, order), rows);
  const View joined = builder.reshape(node.name, high, {0, 0, -1, copy_dimension(4, 3)});
  return {node.result(builder.permute(joined, {0, 3, 1, 2}))};
}

}  // namespace

bool can_fold(const OnnxNode& node) {
  if (node.is_integer(0) && node.is_integer(1)) return true;
  if (node.is_integer(0) || node.is_integer(1) || !node.is_constant(0) || !node.is_constant(1)) return false;
  const Shape shape = broadcast_shape(node, dims_of(node, 0), dims_of(node, 1));
  size_t count = 1;
  for (const size_t d : shape) {
    if (!checked_mul(count, d, &count)) return false;
  }
  return count <= fold_limit;
}

Values fold_binary(const OnnxNode& node) {
  const Shape from_a = dims_of(node, 0), from_b = dims_of(node, 1);
  const Shape shape = broadcast_shape(node, from_a, from_b);
  const std::vector<size_t> at_a = broadcast_index(node, from_a, shape), at_b = broadcast_index(node, from_b, shape);
  if (node.is_integer(0)) {
    const Integers &a = node.symbolic(0), &b = node.symbolic(1);
    Integers out{shape, {}, {}};
    for (size_t i = 0; i < at_a.size(); ++i) out.add(integer_result(node, a.at(at_a[i]), b.at(at_b[i])));
    return {integer_value(std::move(out), node.value(0).type)};
  }
  const std::vector<float> a = node.floats(0), b = node.floats(1);
  std::vector<float> out;
  for (size_t i = 0; i < at_a.size(); ++i) out.push_back(float_result(node, a[at_a[i]], b[at_b[i]]));
  return {node.result(node.builder.constant(shape, out.data()))};
}

const OnnxKind* find_onnx_shape(const std::string& op_type) {
  constexpr size_t many = 256;
  static const std::map<std::string, OnnxKind> kinds = {
      {"Cast", {cast, 1, 1}},
      {"Ceil", {ceil, 1, 1}},
      {"Concat", {concat, 1, many}},
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
  const auto at = kinds.find(op_type);
  return at == kinds.end() ? nullptr : &at->second;
}

}  // namespace quern

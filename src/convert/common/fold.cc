#include "convert/common/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"

namespace quern::convert {

size_t limited_product(const Shape& shape) {
  if (shape.size() > rank_limit) throw Unsupported{"too many dimensions"};
  size_t count = 1;
  for (const size_t d : shape) {
    if (!checked_mul(count, d, &count)) throw Unsupported{"too large"};
  }
  if (count > fold_limit) throw Unsupported{"too large"};
  return count;
}

Shape broadcast_shape(const SourceNode& node, const Shape& a, const Shape& b) {
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

std::vector<size_t> broadcast_index(const SourceNode& node, const Shape& from, const Shape& to) {
  std::vector<size_t> index;
  index.reserve(limited_product(to));
  const size_t rank = to.size(), offset = rank - from.size();
  Shape stride(rank, 0);  // a stride of 0 repeats
  size_t next = 1;
  for (size_t d = rank; d-- > offset;) {
    const size_t size = from[d - offset];
    if (size != 1 && size != to[d]) node.fail("shapes do not broadcast");
    if (size != 1) stride[d] = next;
    next *= size;
  }
  walk(to, stride, [&](size_t element) { index.push_back(element); });
  return index;
}

Value take(const SourceNode& node, size_t input, const Shape& shape, const std::vector<size_t>& index) {
  const ElementType type = node.value(input).type;
  if (node.is_integer(input)) {
    const Integers& in = node.symbolic(input);
    Integers out{shape, {}, {}};
    for (const size_t i : index) out.add(in.at(i));
    return integer_value(std::move(out), type);
  }
  const float* in = node.builder.floats(node.constant(input));
  std::vector<float> out;
  for (const size_t i : index) out.push_back(in[i]);
  Value value = node.builder.constant(shape, out.data());
  value.type = type;
  return value;
}

// ---- constants --------------------------------------------------------------------------------

Array filled(const SourceNode& node, const Array& one, const std::vector<int64_t>& shape) {
  Array all{one.type, {}, {}};
  for (const int64_t d : shape) {
    if (d < 0) node.fail("negative dimension");
    all.shape.push_back(static_cast<size_t>(d));
  }
  const size_t count = limited_product(all.shape);
  all.bytes.reserve(count * one.bytes.size());
  for (size_t i = 0; i < count; ++i) all.bytes.insert(all.bytes.end(), one.bytes.begin(), one.bytes.end());
  return all;
}

Value range(const SourceNode& node) {
  int64_t bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    node.expect_closed(i);
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
  return integer_value(std::move(out), node.value(0).type);
}

Value shape_of(const SourceNode& node, size_t input, size_t first, size_t last) {
  Integers out;
  for (size_t i = first; i < last; ++i) out.add(node.dimension(input, i));
  out.shape = {out.values.size()};
  return integer_value(std::move(out));
}

namespace {
Symbols::Number product(const SourceNode& node, const Symbols::Number& a, const Symbols::Number& b) {
  int64_t value;
  if (!checked_mul(a.value, b.value, &value)) node.fail("too large");
  return {value, node.builder.symbols().product(a, b)};
}
}  // namespace

Value size_of(const SourceNode& node, size_t input) {
  Symbols::Number count = {1};
  for (size_t d = 0; d < node.dims(input).size(); ++d) count = product(node, count, node.dimension(input, d));
  return integer_value({{}, {count.value}, {count.symbol}});
}

Value product_of(const SourceNode& node, size_t input, bool keeps_rank) {
  const Integers& in = node.symbolic(input);
  Symbols::Number all = {1};
  for (size_t i = 0; i < in.values.size(); ++i) all = product(node, all, in.at(i));
  return integer_value({keeps_rank ? Shape{1} : Shape{}, {all.value}, {all.symbol}}, node.value(input).type);
}

// ---- arithmetic -------------------------------------------------------------------------------

namespace {

// Whether an integer type of the source has this number.
bool fits(ElementType type, int64_t value) {
  switch (type) {
    case ElementType::s32: return value == static_cast<int32_t>(value);
    case ElementType::s8: return value == static_cast<int8_t>(value);
    case ElementType::u8: return value == static_cast<uint8_t>(value);
    case ElementType::boolean: return value == 0 || value == 1;
    default: return true;
  }
}

int64_t integer_result(const SourceNode& node, OpKind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  bool fits = true;
  if (kind == OpKind::add) {
    fits = checked_add(a, b, &result);
  } else if (kind == OpKind::sub) {
    fits = !__builtin_sub_overflow(a, b, &result);
  } else if (kind == OpKind::mul) {
    fits = checked_mul(a, b, &result);
  } else {
    fits = b != 0 && !(a == std::numeric_limits<int64_t>::min() && b == -1);
    if (fits) result = a / b;
  }
  if (!fits || !convert::fits(node.value(0).type, result)) throw Unsupported{"integer arithmetic that overflows"};
  return result;
}

Symbols::Number symbolic_result(const SourceNode& node, OpKind kind, const Symbols::Number& a,
                                const Symbols::Number& b) {
  const int64_t value = integer_result(node, kind, a.value, b.value);
  if (a.symbol == no_symbol && b.symbol == no_symbol) return {value};  // without a look-up: there may be 2^20
  const auto is = [](const Symbols::Number& x, int64_t y) { return x.symbol == no_symbol && x.value == y; };
  if (is(b, kind == OpKind::add || kind == OpKind::sub ? 0 : 1)) return {value, a.symbol};
  if (is(a, 0) && kind == OpKind::add) return {value, b.symbol};
  Symbols& symbols = node.builder.symbols();
  if (kind == OpKind::mul) return {value, symbols.product(a, b)};
  return {value, symbols.result(kind == OpKind::add ? 'A' : kind == OpKind::sub ? 'S' : 'D', {}, {a, b})};
}

float float_result(OpKind kind, float a, float b) {
  return kind == OpKind::add ? a + b : kind == OpKind::sub ? a - b : kind == OpKind::mul ? a * b : a / b;
}

bool can_fold(const SourceNode& node) {
  if (node.is_integer(0) && node.is_integer(1)) return true;
  if (node.is_integer(0) || node.is_integer(1) || !node.is_constant(0) || !node.is_constant(1)) return false;
  size_t count = 1;
  for (const size_t d : broadcast_shape(node, node.dims(0), node.dims(1))) {
    if (!checked_mul(count, d, &count)) return false;
  }
  return count <= fold_limit;
}

}  // namespace

Value arithmetic(const SourceNode& node, OpKind kind) {
  Builder& builder = node.builder;
  if (!can_fold(node)) return node.result(builder.binary(kind, node.name, node.view(0), node.view(1)));
  const Shape from_a = node.dims(0), from_b = node.dims(1);
  const Shape shape = broadcast_shape(node, from_a, from_b);
  const std::vector<size_t> at_a = broadcast_index(node, from_a, shape), at_b = broadcast_index(node, from_b, shape);
  if (node.is_integer(0)) {
    const Integers &a = node.symbolic(0), &b = node.symbolic(1);
    Integers out{shape, {}, {}};
    for (size_t i = 0; i < at_a.size(); ++i) out.add(symbolic_result(node, kind, a.at(at_a[i]), b.at(at_b[i])));
    return integer_value(std::move(out), node.value(0).type);
  }
  const std::vector<float> a = node.floats(0), b = node.floats(1);
  std::vector<float> out;
  for (size_t i = 0; i < at_a.size(); ++i) out.push_back(float_result(kind, a[at_a[i]], b[at_b[i]]));
  return node.result(builder.constant(shape, out.data()));
}

// ---- types and comparisons --------------------------------------------------------------------

namespace {

int64_t truncated(float value) {
  if (!(std::fabs(value) < 9e18f)) throw Unsupported{"of a number that does not fit"};
  return static_cast<int64_t>(value);
}

Value cast_to_float(const SourceNode& node, size_t input, ElementType to) {
  Value value = node.value(input);
  if (!node.is_integer(input) && !is_float(value.type)) throw Unsupported{"of computed integers"};
  if (node.is_integer(input)) {
    node.expect_closed(input);
    const Integers& in = node.integers(input);
    if (in.values.empty()) return integer_value(in, to);
    const std::vector<float> floats(in.values.begin(), in.values.end());
    value = node.builder.constant(in.shape, floats.data());
  }
  value.type = to;
  return value;
}

}  // namespace

Value cast(const SourceNode& node, size_t input, ElementType to) {
  if (is_float(to)) return cast_to_float(node, input, to);
  if (!node.is_constant(input)) throw Unsupported{"of a computed tensor to integers"};
  Integers out;
  if (node.is_integer(input)) {
    out = to == ElementType::boolean ? node.integers(input) : node.symbolic(input);
  } else {
    out.shape = node.dims(input);
    for (const float value : node.floats(input)) {
      out.values.push_back(to == ElementType::boolean ? int64_t{value != 0} : truncated(value));
    }
  }
  if (to == ElementType::boolean) {
    out.symbols.clear();
    for (int64_t& value : out.values) value = value != 0;
  }
  for (const int64_t value : out.values) {
    if (!fits(to, value)) throw Unsupported{"of a number that does not fit"};
  }
  return integer_value(std::move(out), to);
}

Value mapped(const SourceNode& node, size_t input, const std::function<float(float)>& function) {
  if (node.elements(input) > fold_limit) throw Unsupported{"too large"};
  std::vector<float> values = node.floats(input);
  if (values.empty()) throw Unsupported{"of no elements"};
  std::transform(values.begin(), values.end(), values.begin(), function);
  return node.result(node.builder.constant(node.dims(input), values.data()));
}

Value equal(const SourceNode& node) {
  const Integers &a = node.symbolic(0), &b = node.symbolic(1);
  const Shape shape = broadcast_shape(node, a.shape, b.shape);
  const std::vector<size_t> from_a = broadcast_index(node, a.shape, shape),
                            from_b = broadcast_index(node, b.shape, shape);
  Integers out{shape, {}, {}};
  for (size_t i = 0; i < from_a.size(); ++i) {
    const Symbols::Number x = a.at(from_a[i]), y = b.at(from_b[i]);
    out.values.push_back(x.value == y.value);
    if (x.symbol == y.symbol) continue;
    if (node.builder.is_open(x.symbol) || node.builder.is_open(y.symbol)) throw Unsupported{"of open sizes"};
    node.fix(x.symbol);
    node.fix(y.symbol);
  }
  return integer_value(std::move(out), ElementType::boolean);
}

Value where(const SourceNode& node) {
  const Integers &c = node.integers(0), &a = node.symbolic(1), &b = node.symbolic(2);
  const Shape shape = broadcast_shape(node, broadcast_shape(node, c.shape, a.shape), b.shape);
  const std::vector<size_t> from_c = broadcast_index(node, c.shape, shape);
  const std::vector<size_t> from_a = broadcast_index(node, a.shape, shape),
                            from_b = broadcast_index(node, b.shape, shape);
  Integers out{shape, {}, {}};
  for (size_t i = 0; i < from_c.size(); ++i) out.add(c.values[from_c[i]] != 0 ? a.at(from_a[i]) : b.at(from_b[i]));
  return integer_value(std::move(out), node.value(1).type);
}

}  // namespace quern::convert

#include "convert/common/spectra.h"

#include <algorithm>

namespace quern::convert {
namespace {

Value complex(Value pairs) {
  pairs.is_complex = true;
  return pairs;
}
Value pairs_of(const Value& numbers) {
  Value pairs = numbers;
  pairs.is_complex = false;
  return pairs;
}

// Whether a dimension, counted from the last, is 1 in every run.
bool is_one(const SourceNode& node, const Value& x, size_t from_last) {
  if (!x.view || !node.builder.is_sized(x.view) || x.view.rank() <= from_last) return false;
  const size_t d = x.view.rank() - 1 - from_last;
  return node.builder.shape(x.view)[d] == 1 && node.builder.symbol(x.view, d) == no_symbol;
}

// An axis that counts from the end does so from before the parts of numbers.
int64_t before_parts(int64_t axis) { return axis < 0 ? std::max(axis, -INT64_MAX) - 1 : axis; }

}  // namespace

bool any_complex(const std::vector<const Value*>& values) {
  return std::any_of(values.begin(), values.end(), [](const Value* value) { return value && value->is_complex; });
}

Value spectrum_of(const SourceNode& node, const Value& x, const std::vector<int64_t>& lengths) {
  if (!is_float(x.type)) node.fail("the input is not of floats");
  Value y = with_axis(node, x, -1);
  const auto count = static_cast<int64_t>(lengths.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = lengths[static_cast<size_t>(count - 1 - i)];
    if (length < 1) node.fail("a length of the transform is " + std::to_string(length));
    if (i > 0 && length == 1 && is_one(node, x, static_cast<size_t>(i))) continue;
    y = make(node, "dft", {y, integer_number(length)},
             Parameters().integer("axis", -2 - i).integer("onesided", i == 0 ? 1 : 0));
  }
  return complex(y);
}

Value part_of_complex(const SourceNode& node, const Value& x, int64_t part) {
  return make(node, "gather", {pairs_of(x), integer_number(part)}, Parameters().integer("axis", -1));
}
Value absolute_of_complex(const SourceNode& node, const Value& x) {
  return make(node, "reduce_l2", {pairs_of(x)}, Parameters().integers("axes", {-1}).integer("keep_dimensions", 0));
}

Value complex_reshaped(const SourceNode& node, const Value& x, const Integers& shape) {
  Integers with_parts = shape;
  with_parts.symbols.resize(shape.values.size(), no_symbol);
  with_parts.add({2});
  with_parts.shape = {with_parts.values.size()};
  return complex(make(node, "reshape_to", {pairs_of(x), integer_value(std::move(with_parts))},
                      Parameters().integer("allow_zero", 1)));
}

Value complex_with_axis(const SourceNode& node, const Value& x, int64_t axis) {
  return complex(with_axis(node, pairs_of(x), before_parts(axis)));
}

Value complex_squeezed(const SourceNode& node, const Value& x, std::vector<int64_t> axes) {
  for (int64_t& axis : axes) axis = before_parts(axis);
  Values inputs = {pairs_of(x)};
  if (!axes.empty()) inputs.push_back(integer_list(axes));
  return complex(make(node, "squeeze", inputs));
}

}  // namespace quern::convert

// Parts of tensors.
#include "convert/common/elements.h"

#include <algorithm>

#include "base/math.h"
#include "convert/common/fold.h"

namespace quern::convert {

// ---- parts of constants -----------------------------------------------------------------------

namespace {

// For each dimension, the indices that are taken.
using Lists = std::vector<std::vector<size_t>>;

Lists all_indices(const SourceNode& node, const Shape& shape) {
  Lists lists(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > fold_limit) throw Unsupported{"too large"};
    node.builder.charge(shape[d] * sizeof(size_t));
    for (size_t i = 0; i < shape[d]; ++i) lists[d].push_back(i);
  }
  return lists;
}

// Returns the positions, in a dense tensor, of the elements whose index in each dimension d is in lists[d].
std::vector<size_t> elements_at(const Shape& shape, const Lists& lists) {
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

Value slice_constant(const SourceNode& node, size_t input, const Shape& shape, const std::vector<Part>& parts) {
  Lists lists = all_indices(node, shape);
  for (const Part& part : parts) {
    const auto size = static_cast<int64_t>(shape[part.axis]);
    const bool up = part.step > 0;
    const auto place = [&](const Symbols::Number& bound, int64_t low) {
      if (node.builder.is_open(bound.symbol)) throw Unsupported{"at a place that follows an open size"};
      node.fix(bound.symbol);
      const int64_t at = bound.value;
      return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, low, std::max(low, up ? size : size - 1));
    };
    const int64_t begin = place(part.begin, up || size > 0 ? 0 : -1), end = place(part.end, up ? 0 : -1);
    std::vector<size_t>& list = lists[part.axis];
    list.clear();
    for (int64_t i = begin; up ? i < end : i > end;) {
      list.push_back(static_cast<size_t>(i));
      if (!checked_add(i, part.step, &i)) break;
    }
  }
  Shape out;
  for (const auto& list : lists) out.push_back(list.size());
  if (!node.is_integer(input) && std::count(out.begin(), out.end(), 0u) > 0) throw Unsupported{"the slice is empty"};
  return take(node, input, out, elements_at(shape, lists));
}

// ---- parts ------------------------------------------------------------------------------------

// Returns a bound of a Part as our slices have it. A Part moves a bound outside the dimension to the nearer end; our
// slices refuse such a bound. So the bound is moved at import, which is right for this size only and fixes the
// dimension. It does not if the bound is so large that it lies outside at any size.
int64_t slice_value(const SourceNode& node, const Symbols::Number& bound, const Symbols::Number& size) {
  constexpr int64_t begin = 0, end = -1;
  constexpr auto largest = static_cast<int64_t>(max_extent);
  if (bound.symbol != no_symbol && bound.symbol == size.symbol) return end;
  if (node.builder.is_open(bound.symbol)) throw Unsupported{"at a place that follows an open size"};
  node.fix(bound.symbol);
  const int64_t value = bound.value;
  if (size.symbol == no_symbol) {
    const int64_t at = value < 0 ? std::max(value, -size.value) + size.value : value;
    return at >= size.value ? end : at;
  }
  const bool outside = value > size.value || value < -size.value;
  const bool always = value > largest || value < -largest;
  if (outside && !always) node.fix(size.symbol);
  if (value < -size.value) return begin;
  return value > size.value ? end : value < 0 ? value - 1 : value;
}

// Returns the indices that an input holds. Indices that count from the end stay below 0 if the dimension may change.
std::vector<int64_t> places(const SourceNode& node, size_t index_input, const Symbols::Number& size) {
  std::vector<int64_t> places = node.integers(index_input).values;
  for (int64_t& at : places) {
    if (at < -size.value || at >= size.value) node.fail("an index is out of range");
    if (at < 0 && size.symbol == no_symbol) at += size.value;
  }
  if (places.empty()) throw Unsupported{"no indices"};
  return places;
}

// Takes the elements at these indices of one axis: makes a slice for each run of successive indices, and joins them.
View picked(const SourceNode& node, const View& x, const std::vector<int64_t>& at, size_t axis) {
  const auto bound = [](int64_t index, bool from_behind) { return from_behind ? index - 1 : index; };
  std::vector<View> pieces;
  for (size_t i = 0; i < at.size();) {
    size_t j = i + 1;
    while (j < at.size() && at[j] == at[j - 1] + 1 && at[j] != 0) ++j;
    const std::string name = node.name + "/" + std::to_string(pieces.size());
    const int64_t begin = bound(at[i], at[i] < 0), end = bound(at[j - 1] + 1, at[i] < 0);
    pieces.push_back(node.builder.slice(name, x, axis, begin, end));
    i = j;
    if (pieces.size() > 256) throw Unsupported{"of more than 256 places"};
  }
  return pieces.size() == 1 ? pieces[0] : node.builder.concat(node.name, pieces, axis);
}

}  // namespace

Value slice(const SourceNode& node, size_t input, const std::vector<Part>& parts) {
  const Shape shape = node.dims(input);
  if (node.is_constant(input)) return slice_constant(node, input, shape, parts);
  std::vector<int64_t> begin(shape.size(), 0), end(shape.size(), -1);
  for (const Part& part : parts) {
    if (part.step != 1) throw Unsupported{"step " + std::to_string(part.step)};
    const Symbols::Number size = node.dimension(input, part.axis);
    const int64_t first = slice_value(node, part.begin, size), last = slice_value(node, part.end, size);
    if (slice_bound(last, shape[part.axis]) <= slice_bound(first, shape[part.axis])) {
      throw Unsupported{"the slice is empty"};
    }
    begin[part.axis] = first;
    end[part.axis] = last;
  }
  return node.result(node.builder.slice(node.name, node.any_view(input), begin, end));
}

Value slice_sizes(const SourceNode& node, size_t input, const std::vector<int64_t>& begin,
                  const std::vector<int64_t>& size) {
  const Shape shape = node.dims(input);
  if (begin.size() != shape.size() || size.size() != shape.size()) node.fail("the part does not fit");
  std::vector<Part> parts;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t from = begin[d], count = size[d], all = static_cast<int64_t>(shape[d]);
    if (from < 0 || from > all || count < -1 || (count > 0 && count > all - from)) node.fail("the part does not fit");
    const bool is_whole = count == -1 || (count == all && node.dimension(input, d).symbol == no_symbol);
    if (from == 0 && is_whole) continue;
    parts.push_back({d, {from}, {count == -1 ? INT64_MAX : from + count}, 1});
  }
  return parts.empty() ? node.value(input) : slice(node, input, parts);
}

int64_t end_of_one(int64_t index) { return index == -1 || index == INT64_MAX ? INT64_MAX : index + 1; }

namespace {

bool has_bit(int64_t mask, size_t bit) { return (mask >> bit & 1) != 0; }

// Item i of the brackets as a part of dimension d.
Part part_of(const SourceNode& node, const Brackets& b, size_t i, size_t d) {
  if (b.step[i] == 0) node.fail("a stride is zero");
  if (has_bit(b.one_mask, i)) return {d, {b.begin[i]}, {end_of_one(b.begin[i])}, 1};
  const bool back = b.step[i] < 0;
  const int64_t begin = has_bit(b.begin_mask, i) ? (back ? INT64_MAX : 0) : b.begin[i];
  const int64_t end = has_bit(b.end_mask, i) ? (back ? INT64_MIN : INT64_MAX) : b.end[i];
  return {d, {begin}, {end}, b.step[i]};
}

// Whether a part takes a whole dimension, at any size that this can have.
bool is_whole(const Part& part, const Symbols::Number& size) {
  const bool to_end = part.end.value == INT64_MAX || (size.symbol == no_symbol && part.end.value >= size.value);
  return part.step == 1 && part.begin.value == 0 && to_end;
}

}  // namespace

Value slice_brackets(const SourceNode& node, size_t input, const Brackets& b) {
  const size_t rank = node.dims(input).size(), items = b.begin.size();
  if (items > 32 || b.end.size() != items || b.step.size() != items) node.fail("begin, end and strides do not fit");
  size_t named = 0;  // dimensions that have an item
  for (size_t i = 0; i < items; ++i) named += !has_bit(b.ellipsis_mask | b.new_axis_mask, i);
  if (named > rank) node.fail("begin, end and strides do not fit the input");
  std::vector<Part> parts;
  std::vector<int64_t> dropped, added;
  size_t d = 0, place = 0;  // the next dimension of the input and of the result
  bool seen_ellipsis = false;
  for (size_t i = 0; i < items; ++i) {
    if (has_bit(b.ellipsis_mask, i)) {
      if (seen_ellipsis) node.fail("two ellipses");
      seen_ellipsis = true;
      d += rank - named;
      place += rank - named;
    } else if (has_bit(b.new_axis_mask, i)) {
      added.push_back(static_cast<int64_t>(place++));
    } else {
      const Part part = part_of(node, b, i, d);
      if (!is_whole(part, node.dimension(input, d))) parts.push_back(part);
      has_bit(b.one_mask, i) ? dropped.push_back(static_cast<int64_t>(d)) : static_cast<void>(++place);
      ++d;
    }
  }
  Value value = parts.empty() ? node.value(input) : slice(node, input, parts);
  const std::string squeezed = node.name + "/squeeze", expanded = node.name + "/expand";
  if (!dropped.empty()) value = squeeze(node.with({&value}, squeezed), 0, dropped);
  if (!added.empty()) value = unsqueeze(node.with({&value}, expanded), 0, added);
  return value;
}

Values split(const SourceNode& node, size_t input, size_t axis, const std::vector<int64_t>& sizes) {
  const auto size = static_cast<int64_t>(node.dims(input)[axis]);
  node.fix(node.dimension(input, axis).symbol);  // the sizes fit only the present size
  Values values;
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > size - begin) node.fail("split does not fit the dimension");
    if (sizes[i] == 0) throw Unsupported{"empty parts"};
    const int64_t end = begin + sizes[i];
    const std::string name = node.name + "/" + std::to_string(i);
    values.push_back(node.result(node.builder.slice(name, node.any_view(input), axis, begin, end)));
    begin = end;
  }
  if (begin != size) node.fail("split does not cover the dimension");
  return values;
}

Value gather(const SourceNode& node, size_t input, size_t index_input, size_t axis) {
  const Shape shape = node.dims(input);
  const std::vector<int64_t> at = places(node, index_input, node.dimension(input, axis));
  const Shape& index_shape = node.integers(index_input).shape;
  if (index_shape.size() > 1) throw Unsupported{"by a tensor of indices"};
  const bool drops_axis = index_shape.empty();
  if (node.is_constant(input)) {
    Lists lists = all_indices(node, shape);
    lists[axis].assign(at.begin(), at.end());
    Shape out = shape;
    out[axis] = at.size();
    if (drops_axis) out.erase(out.begin() + static_cast<std::ptrdiff_t>(axis));
    return take(node, input, out, elements_at(shape, lists));
  }
  const View joined = picked(node, node.any_view(input), at, axis);
  if (!drops_axis) return node.result(joined);
  std::vector<int64_t> kept;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != axis) kept.push_back(copy_dimension(d, kept.size()));
  }
  return node.result(node.builder.reshape(node.name + "/drop", joined, kept));
}

}  // namespace quern::convert

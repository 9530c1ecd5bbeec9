// Parts of tensors, and tensors made of parts: joining, splitting, cutting, padding, repeating.
#include <algorithm>
#include <cstring>

#include "extra/copy.h"
#include "extra/sized.h"

namespace quern::extra {
namespace moves {
namespace {

// ---- joining and splitting

// join(x, ...): one behind the other along `axis`.
void infer_join(Inference& node) {
  Shape out = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), out.size());
  for (size_t i = 1; i < node.input_count(); ++i) {
    if (!node.has(i)) node.fail("input " + std::to_string(i) + " is absent");
    expect_same_type(node, 0, i);
    Shape more = node.shape(i);
    if (more.size() != out.size()) node.fail("inputs have different ranks");
    if (__builtin_add_overflow(out[axis], more[axis], &out[axis])) node.fail("a tensor is too large");
    more[axis] = out[axis];
    if (!(more == out)) node.fail("input " + std::to_string(i) + " does not fit the first");
  }
  node.set(0, node.type(0), out);
}

// Copies between all of one tensor and the part of another that begins at `begin` of the axis.
void copy_part(const Node& node, const Shape& part, const void* from, const Shape& from_shape, void* to,
               const Shape& to_shape, size_t axis, size_t begin) {
  Place source = {strides_of(from_shape)}, target = {strides_of(to_shape)};
  Place& whole = from_shape == part ? target : source;
  whole.first = begin * whole.strides[axis];
  copy_elements(part, element_size(node), from, source, to, target);
}

void run_join(const Run& node) {
  const Shape out = node.output_shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), out.size());
  size_t begin = 0;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const Shape part = node.shape(i);
    copy_part(node, part, node.data<void>(i), part, node.output<void>(0), out, axis, begin);
    begin += part[axis];
  }
}

// split_to(x, sizes): parts along `axis`. Without sizes there are `parts` equal ones, of which the last may be smaller
// unless `even` is set.
std::vector<size_t> part_sizes(const Node& node, size_t size) {
  std::vector<size_t> sizes;
  if (node.has(1)) {
    size_t left = size;
    for (const int64_t given : list(node, 1)) {
      sizes.push_back(size_from(node, given, "the size of a part"));
      if (sizes.back() > left) node.fail("the parts are larger than the dimension of " + std::to_string(size));
      left -= sizes.back();
    }
    if (left != 0) node.fail("the parts do not cover the dimension of " + std::to_string(size));
    return sizes;
  }
  const int64_t parts = node.integer("parts", 1);
  if (parts < 1 || parts > 256) node.fail(std::to_string(parts) + " parts");
  const auto n = static_cast<size_t>(parts);
  const size_t each = size / n + (size % n != 0);
  if (size % n != 0 && node.integer("even", 0) != 0) node.fail("a dimension has no equal parts");
  for (size_t i = 0; i < n; ++i) sizes.push_back(std::min(each, size - std::min(size, i * each)));
  return sizes;
}

void infer_split(Inference& node) {
  Shape shape = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const std::vector<size_t> sizes = part_sizes(node, shape[axis]);
  if (sizes.size() < node.output_count()) node.fail("there are " + std::to_string(sizes.size()) + " parts");
  for (size_t i = 0; i < node.output_count(); ++i) {
    shape[axis] = sizes[i];
    node.set(i, node.type(0), shape);
  }
}

void run_split(const Run& node) {
  const Shape shape = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const std::vector<size_t> sizes = part_sizes(node, shape[axis]);
  size_t begin = 0;
  for (size_t i = 0; i < node.output_count(); begin += sizes[i++]) {
    if (node.output_type(i) == 0) continue;
    const Shape part = node.output_shape(i);
    copy_part(node, part, node.data<void>(0), shape, node.output<void>(i), part, axis, begin);
  }
}

// ---- cutting

// slice_by(x, starts, ends, axes, steps)
struct Cut {
  Shape shape;
  Place from;
};

// Sets up one dimension. Bounds that count from the end or lie outside of the dimension are moved into it.
void cut_dimension(const Node& node, Cut* cut, size_t d, int64_t start, int64_t end, int64_t step) {
  const auto size = static_cast<int64_t>(cut->shape[d]);
  const size_t stride = cut->from.strides[d];
  if (step == 0) node.fail("a step is 0");
  if (start < 0) start += size;
  if (end < 0) end += size;
  const bool up = step > 0;
  start = std::clamp<int64_t>(start, 0, up ? size : std::max<int64_t>(size - 1, 0));
  end = std::clamp<int64_t>(end, up ? 0 : -1, size);
  const int64_t distance = up ? end - start : start - end;
  const size_t by = up ? static_cast<size_t>(step) : 0 - static_cast<size_t>(step);
  cut->shape[d] = distance <= 0 || size == 0 ? 0 : (static_cast<size_t>(distance) - 1) / by + 1;
  cut->from.first += static_cast<size_t>(start) * stride;
  cut->from.strides[d] = static_cast<size_t>(step) * stride;
}

Cut cut_of(const Node& node) {
  Cut cut = {node.shape(0), {strides_of(node.shape(0))}};
  const std::vector<int64_t> starts = list(node, 1), ends = list(node, 2);
  const std::vector<size_t> where = axes(node, 3, cut.shape.size(), starts.size());
  const std::vector<int64_t> steps = node.has(4) ? list(node, 4) : std::vector<int64_t>(starts.size(), 1);
  if (ends.size() != starts.size() || where.size() != starts.size() || steps.size() != starts.size()) {
    node.fail("starts, ends, axes and steps differ in length");
  }
  for (size_t i = 0; i < where.size(); ++i) cut_dimension(node, &cut, where[i], starts[i], ends[i], steps[i]);
  return cut;
}

void infer_slice(Inference& node) { node.set(0, node.type(0), cut_of(node).shape); }
void run_slice(const Run& node) {
  const Cut cut = cut_of(node);
  copy_elements(cut.shape, element_size(node), node.data<void>(0), cut.from, node.output<void>(0),
                {strides_of(cut.shape)});
}

// ---- padding

// How one dimension is padded: `cut` elements are left out at the beginning, `kept` follow, and the result has `before`
// more of them in front.
struct Padding {
  size_t cut, kept, before, size;
};
enum PadMode : int64_t { pad_constant, pad_reflect, pad_edge, pad_wrap, pad_symmetric, pad_modes };

Padding padding_of(const Node& node, size_t size, int64_t before, int64_t after) {
  const auto cut = [](int64_t pad) { return pad < 0 ? 0 - static_cast<size_t>(pad) : 0; };
  const auto more = [](int64_t pad) { return pad < 0 ? 0 : static_cast<size_t>(pad); };
  if (cut(before) > size || cut(after) > size - cut(before)) node.fail("pads take away more than there is");
  Padding padding = {cut(before), size - cut(before) - cut(after), more(before), 0};
  if (__builtin_add_overflow(padding.kept, padding.before, &padding.size) ||
      __builtin_add_overflow(padding.size, more(after), &padding.size)) {
    node.fail("a tensor is too large");
  }
  const bool repeats = node.integer("mode", pad_constant) != pad_constant;
  if (repeats && padding.kept == 0 && padding.size != 0) node.fail("there is nothing to repeat");
  return padding;
}

// pad_by(x, pads, value, axes): `pads` holds what comes before each of the axes, then what comes behind. Negative ones
// take elements away. Parameter `mode` is a PadMode.
std::vector<Padding> paddings(const Node& node) {
  const Shape x = node.shape(0);
  const int64_t mode = node.integer("mode", pad_constant);
  if (mode < 0 || mode >= pad_modes) node.fail("mode " + std::to_string(mode));
  const std::vector<int64_t> pads = list(node, 1);
  const std::vector<size_t> where = axes(node, 3, x.size(), x.size());
  if (pads.size() != 2 * where.size()) node.fail("pads do not fit the axes");
  std::vector<Padding> paddings;
  for (const size_t d : x) paddings.push_back({0, d, 0, d});
  for (size_t i = 0; i < where.size(); ++i) {
    paddings[where[i]] = padding_of(node, x[where[i]], pads[i], pads[where.size() + i]);
  }
  return paddings;
}

void infer_pad(Inference& node) {
  if (node.has(2)) {
    expect_same_type(node, 0, 2);
    if (count(node.shape(2)) != 1) node.fail("the value is not one number");
  }
  Shape out;
  for (const Padding& padding : paddings(node)) out.push_back(padding.size);
  node.set(0, node.type(0), out);
}

// Copies what is kept, all at once.
void pad_with_constant(const Run& node, const std::vector<Padding>& paddings) {
  const Shape x = node.shape(0), y = node.output_shape(0);
  fill_elements(node.output<void>(0), count(y), element_size(node), node.has(2) ? node.data<void>(2) : nullptr);
  Place from = {strides_of(x)}, to = {strides_of(y)};
  Shape kept;
  for (size_t d = 0; d < x.size(); ++d) {
    kept.push_back(paddings[d].kept);
    from.first += paddings[d].cut * from.strides[d];
    to.first += paddings[d].before * to.strides[d];
  }
  copy_elements(kept, element_size(node), node.data<void>(0), from, node.output<void>(0), to);
}

// Returns which element of a dimension lies at place `i` of the result.
size_t repeated(int64_t mode, const Padding& padding, size_t i) {
  const auto n = static_cast<int64_t>(padding.kept);
  int64_t at = static_cast<int64_t>(i) - static_cast<int64_t>(padding.before);
  if (at >= 0 && at < n) return padding.cut + static_cast<size_t>(at);
  const auto modulo = [](int64_t a, int64_t b) { return (a % b + b) % b; };
  if (mode == pad_edge || n == 1) at = std::clamp<int64_t>(at, 0, n - 1);
  if (mode == pad_wrap) at = modulo(at, n);
  if (mode == pad_reflect && n > 1) {
    at = modulo(at, 2 * (n - 1));
    at = std::min(at, 2 * (n - 1) - at);
  }
  if (mode == pad_symmetric) {
    at = modulo(at, 2 * n);
    at = std::min(at, 2 * n - 1 - at);
  }
  return padding.cut + static_cast<size_t>(at);
}

// Copies row by row, from the places that tables of each dimension give.
void pad_with_repeats(const Run& node, const std::vector<Padding>& paddings) {
  const Shape y = node.output_shape(0), strides = strides_of(node.shape(0));
  if (count(y) == 0) return;
  if (y.empty()) return copy_all(node);
  const int64_t mode = node.integer("mode", pad_constant);
  std::vector<std::vector<size_t>> places(y.size());
  for (size_t d = 0; d < y.size(); ++d) {
    for (size_t i = 0; i < y[d]; ++i) {
      places[d].push_back(repeated(mode, paddings[d], i) * strides[d]);
    }
  }
  const size_t row = y.back(), rows = count(y) / row;
  with_size(element_size(node), [&]<class T>(Tag<T>) {
    const T* const x = node.data<T>(0);
    T* to = node.output<T>(0);
    Pace pace;
    for (size_t r = 0; r < rows; ++r) {
      pace.did(row);
      size_t rest = r, from = 0;
      for (size_t d = y.size() - 1; d-- > 0; rest /= y[d]) from += places[d][rest % y[d]];
      for (const size_t at : places.back()) *to++ = x[from + at];
    }
  });
}

void run_pad(const Run& node) {
  const bool constant = node.integer("mode", pad_constant) == pad_constant;
  (constant ? pad_with_constant : pad_with_repeats)(node, paddings(node));
}

// center_crop_pad(x, shape): brings the dimensions of the parameter `axes`, or all, to these sizes, and the middle of x
// to the middle of the result.
Shape centered(const Node& node) {
  Shape out = node.shape(0);
  const std::vector<int64_t> sizes = list(node, 1);
  const std::span<const int64_t> where = node.integers("axes");
  const size_t most = where.empty() ? out.size() : where.size();
  if (sizes.size() != most) node.fail(std::to_string(sizes.size()) + " sizes for " + std::to_string(most) + " axes");
  for (size_t i = 0; i < most; ++i) {
    out[where.empty() ? i : node.axis(where[i], out.size())] = size_from(node, sizes[i], "a size");
  }
  return out;
}
void infer_center(Inference& node) { node.set(0, node.type(0), centered(node)); }
void run_center(const Run& node) {
  const Shape x = node.shape(0), y = node.output_shape(0);
  std::vector<Padding> paddings;
  for (size_t d = 0; d < x.size(); ++d) {
    const size_t cut = x[d] > y[d] ? (x[d] - y[d]) / 2 : 0, before = y[d] > x[d] ? (y[d] - x[d]) / 2 : 0;
    paddings.push_back({cut, std::min(x[d], y[d]), before, y[d]});
  }
  pad_with_constant(node, paddings);
}

// ---- repeating

// tile(x, repeats)
void infer_tile(Inference& node) {
  Shape out = node.shape(0);
  const std::vector<int64_t> repeats = list(node, 1);
  if (repeats.size() != out.size()) node.fail(std::to_string(repeats.size()) + " repeats");
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] = checked_product(node, out[d], size_from(node, repeats[d], "a repeat"));
  }
  node.set(0, node.type(0), out);
}
void run_tile(const Run& node) {
  const Shape x = node.shape(0), own = strides_of(x);
  const std::vector<int64_t> repeats = list(node, 1);
  Shape shape, strides;
  for (size_t d = 0; d < x.size(); ++d) {
    shape.append({static_cast<size_t>(repeats[d]), x[d]});
    strides.append({0, own[d]});
  }
  copy_elements(shape, element_size(node), node.data<void>(0), {strides}, node.output<void>(0), {strides_of(shape)});
}

// expand(x, shape): both are broadcast to each other.
void infer_expand(Inference& node) {
  Shape to;
  for (const int64_t d : list(node, 1)) to.push_back(size_from(node, d, "a dimension"));
  node.set(0, node.type(0), node.broadcast(node.shape(0), to));
}
void run_expand(const Run& node) {
  const Shape y = node.output_shape(0);
  copy_elements(y, element_size(node), node.data<void>(0), {broadcast_strides(node.shape(0), y)}, node.output<void>(0),
                {strides_of(y)});
}

// ---- parts that change

// trilu(x, k): the upper or lower triangle of matrices, of which diagonal k is the border. The rest is 0.
void infer_trilu(Inference& node) {
  if (node.rank(0) < 2) node.fail("on a tensor of rank " + std::to_string(node.rank(0)));
  node.set(0, node.type(0), node.shape(0));
}
void run_trilu(const Run& node) {
  copy_all(node);
  const Shape x = node.shape(0);
  const size_t size = element_size(node), columns = x.back(), rows = x[x.size() - 2];
  const auto most = static_cast<int64_t>(columns);
  const bool upper = node.integer("upper", 1) != 0;
  const int64_t k = std::clamp(number(node, 1, 0), -static_cast<int64_t>(rows), most);
  if (count(x) == 0) return;
  char* row = node.output<char>(0);
  for (size_t r = 0; r < count(x) / columns; ++r, row += columns * size) {
    const int64_t diagonal = static_cast<int64_t>(r % rows) + k;
    const auto border = static_cast<size_t>(std::clamp<int64_t>(upper ? diagonal : diagonal + 1, 0, most));
    upper ? std::memset(row, 0, border * size) : std::memset(row + border * size, 0, (columns - border) * size);
  }
}

// reverse_sequence(x, lengths): turns round the first lengths[b] elements of each sequence.
void infer_reverse(Inference& node) {
  const Shape x = node.shape(0);
  const int64_t batch = node.integer("batch_axis", 1), time = node.integer("time_axis", 0);
  if (x.size() < 2) node.fail("on a tensor of rank " + std::to_string(x.size()));
  if (batch < 0 || batch > 1 || time != 1 - batch) node.fail("batch_axis and time_axis are not 0 and 1");
  if (!(node.shape(1) == Shape{x[static_cast<size_t>(batch)]})) node.fail("the batch has another number of lengths");
  node.set(0, node.type(0), x);
}
void run_reverse(const Run& node) {
  const Shape x = node.shape(0);
  const auto batch = static_cast<size_t>(node.integer("batch_axis", 1));
  const std::vector<int64_t> lengths = node.values(1);
  const size_t bytes = count(x.part(2, x.size())) * element_size(node);
  for (const int64_t length : lengths) {
    if (length < 0 || length > static_cast<int64_t>(x[1 - batch])) {
      node.fail("length " + std::to_string(length) + " of a dimension of " + std::to_string(x[1 - batch]));
    }
  }
  if (count(x) == 0) return;
  for (size_t i = 0; i < x[0]; ++i) {
    for (size_t j = 0; j < x[1]; ++j) {
      const size_t time = batch == 0 ? j : i, other = batch == 0 ? i : j;
      const auto length = static_cast<size_t>(lengths[other]);
      const size_t from = time < length ? length - 1 - time : time;
      const size_t at = batch == 0 ? i * x[1] + from : from * x[1] + j;
      std::memcpy(node.output<char>(0) + (i * x[1] + j) * bytes, node.data<char>(0) + at * bytes, bytes);
    }
  }
}

constexpr qn_kind slice =
    kind<infer_slice, run_slice>("slice_by", {3, 5}, 1, QN_KIND_MOVES, 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4);
constexpr qn_kind pad = kind<infer_pad, run_pad>("pad_by", {2, 4}, 1, QN_KIND_MOVES, 1 << 1 | 1 << 3);
constexpr qn_kind tile = kind<infer_tile, run_tile>("tile", {2, 2}, 1, QN_KIND_MOVES, 1 << 1);
constexpr qn_kind expand = kind<infer_expand, run_expand>("expand", {2, 2}, 1, QN_KIND_MOVES, 1 << 1);

constexpr qn_kind kinds[] = {
    kind<infer_join, run_join>("join", {1, 255}, 1, QN_KIND_MOVES),
    kind<infer_split, run_split>("split_to", {1, 2}, 256, QN_KIND_MOVES, 1 << 1),
    slice,
    sized<slice>("slice_sizes"),
    pad,
    sized<pad>("pad_sizes"),
    kind<infer_center, run_center>("center_crop_pad", {2, 2}, 1, QN_KIND_MOVES, 1 << 1),
    tile,
    sized<tile>("tile_sizes"),
    expand,
    sized<expand>("expand_sizes"),
    kind<infer_trilu, run_trilu>("trilu", {1, 2}, 1, QN_KIND_MOVES),
    kind<infer_reverse, run_reverse>("reverse_sequence", {2, 2}, 1, QN_KIND_MOVES),
};

}  // namespace
}  // namespace moves

Kinds moving_kinds() { return needed<moves::kinds>(); }

}  // namespace quern::extra

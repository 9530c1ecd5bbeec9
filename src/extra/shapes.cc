// The same elements in another shape or order; and shapes as numbers.
#include <algorithm>

#include "extra/copy.h"
#include "extra/sized.h"

namespace quern::extra {
namespace shape_functions {
namespace {

// ---- other shapes

// reshape_to(x, shape): 0 copies a dimension unless there is the parameter allow_zero; -1 is inferred.
Shape reshaped(const Node& node) {
  const Shape from = node.shape(0);
  const bool copies = node.integer("allow_zero", 0) == 0;
  Shape to;
  size_t known = 1, inferred = SIZE_MAX;
  for (const int64_t value : list(node, 1)) {
    const size_t d = to.size();
    if (value == -1 && inferred == SIZE_MAX) {
      inferred = d;
      to.push_back(1);
      continue;
    }
    if (value == 0 && copies && d >= from.size()) node.fail("dimension " + std::to_string(d) + " to copy is missing");
    to.push_back(value == 0 && copies ? from[d] : size_from(node, value, "a dimension"));
    known = checked_product(node, known, to.back());
  }
  const size_t n = count(from);
  if (inferred != SIZE_MAX && known != 0) to[inferred] = n / known;
  const bool fits = inferred == SIZE_MAX ? known == n : known != 0 && n % known == 0;
  if (!fits) node.fail(std::to_string(n) + " elements do not fit the new shape");
  return to;
}
void infer_reshape(Inference& node) { node.set(0, node.type(0), reshaped(node)); }

// flatten(x): the dimensions before `axis` become one, and the others, too.
void infer_flatten(Inference& node) {
  const Shape x = node.shape(0);
  const int64_t given = node.integer("axis", 1);
  const size_t axis = given == static_cast<int64_t>(x.size()) ? x.size() : node.axis(given, x.size());
  node.set(0, node.type(0), {count(x.part(0, axis)), count(x.part(axis, x.size()))});
}

// squeeze(x, axes): drops dimensions of 1; without axes all.
void infer_squeeze(Inference& node) {
  const Shape x = node.shape(0);
  Shape drop(x.size(), 0), out;
  for (size_t d = 0; d < x.size(); ++d) drop[d] = !node.has(1) && x[d] == 1;
  for (const size_t d : axes(node, 1, x.size(), 0)) {
    if (x[d] != 1) node.fail("dimension " + std::to_string(d) + " is " + std::to_string(x[d]) + ", not 1");
    drop[d] = 1;
  }
  for (size_t d = 0; d < x.size(); ++d) {
    if (drop[d] == 0) out.push_back(x[d]);
  }
  node.set(0, node.type(0), out);
}

// unsqueeze(x, axes): adds dimensions of 1, at these places of the result.
void infer_unsqueeze(Inference& node) {
  const Shape x = node.shape(0);
  const size_t more = count(node.shape(1));
  if (more > QN_MAX_RANK) node.fail(std::to_string(more) + " axes");
  Shape out(x.size() + more, 0);
  for (const size_t d : axes(node, 1, out.size(), 0)) out[d] = 1;
  size_t next = 0;
  for (size_t& d : out) {
    if (d == 0) d = x[next++];
  }
  node.set(0, node.type(0), out);
}

// identity(x)
void infer_identity(Inference& node) { node.set(0, node.type(0), node.shape(0)); }

// bit_cast(x): the same bits as another type of the same size. Not all bits are truth values.
void infer_bit_cast(Inference& node) {
  if (node.wanted(0) == QN_BOOL && node.type(0) != QN_BOOL) node.fail("bits of other types as truth values");
  if (qn_type_size(node.wanted(0)) != element_size(node)) {
    node.fail(std::string("elements of ") + qn_type_string(node.wanted(0)) + " have another size");
  }
  node.set(0, node.wanted(0), node.shape(0));
}

// ---- another order

// Dimension i of the result is dimension perm[i] of x; without perm the order is reversed.
Shape permutation(const Node& node) {
  const size_t rank = node.rank(0);
  const std::span<const int64_t> perm = node.integers("perm");
  Shape order(rank);
  if (perm.empty()) {
    for (size_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
    return order;
  }
  Shape seen(rank, 0);
  if (perm.size() != rank) node.fail("perm has " + std::to_string(perm.size()) + " numbers");
  for (size_t d = 0; d < rank; ++d) {
    order[d] = node.axis(perm[d], rank);
    if (seen[order[d]]++ != 0) node.fail("perm must name each dimension once");
  }
  return order;
}

Shape pick(const Shape& from, const Shape& order) {
  Shape to;
  for (const size_t d : order) to.push_back(from[d]);
  return to;
}

// Writes a tensor of this shape with its dimensions in this order.
void permute(const Run& node, const Shape& shape, const Shape& order) {
  const Shape to = pick(shape, order);
  copy_elements(to, element_size(node), node.data<void>(0), {pick(strides_of(shape), order)}, node.output<void>(0),
                {strides_of(to)});
}

void infer_permute(Inference& node) { node.set(0, node.type(0), pick(node.shape(0), permutation(node))); }
void run_permute(const Run& node) { permute(node, node.shape(0), permutation(node)); }

// depth_to_space(x): `block` squared channels become the pixels of a block. They are next to each other in x if
// `crd` is set; without, there is a set of all channels for each pixel.
size_t block_of(const Node& node) {
  if (node.rank(0) != 4) node.fail("on a tensor of rank " + std::to_string(node.rank(0)));
  const int64_t block = node.integer("block", 0);
  if (block <= 0 || block > 1 << 20) node.fail("blocks of " + std::to_string(block));
  return static_cast<size_t>(block);
}
void infer_depth_to_space(Inference& node) {
  const Shape x = node.shape(0);
  const size_t b = block_of(node);
  if (x[1] % (b * b) != 0)
    node.fail(std::to_string(x[1]) + " channels cannot be divided into blocks of " + std::to_string(b) + " x " +
              std::to_string(b));
  node.set(0, node.type(0), {x[0], x[1] / (b * b), checked_product(node, x[2], b), checked_product(node, x[3], b)});
}
void run_depth_to_space(const Run& node) {
  const Shape x = node.shape(0);
  const size_t b = block_of(node), depth = x[1] / (b * b);
  if (node.integer("crd", 0) != 0) return permute(node, {x[0], depth, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
  permute(node, {x[0], b, b, depth, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
}

void infer_space_to_depth(Inference& node) {
  const Shape x = node.shape(0);
  const size_t b = block_of(node);
  if (x[2] % b != 0 || x[3] % b != 0) node.fail("the image is not made of blocks");
  node.set(0, node.type(0), {x[0], checked_product(node, x[1], b * b), x[2] / b, x[3] / b});
}
void run_space_to_depth(const Run& node) {
  const Shape x = node.shape(0);
  const size_t b = block_of(node);
  permute(node, {x[0], x[1], x[2] / b, b, x[3] / b, b}, {0, 3, 5, 1, 2, 4});
}

// ---- shapes as numbers

// shape_of(x): the dimensions from `start` up to `end`, which may count from behind and are cut to what there is.
Shape some_dimensions(const Node& node) {
  const Shape x = node.shape(0);
  const auto rank = static_cast<int64_t>(x.size());
  const auto place = [&](int64_t i) { return static_cast<size_t>(std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank)); };
  const size_t start = place(node.integer("start", 0)), end = place(node.integer("end", rank));
  return start < end ? x.part(start, end) : Shape();
}
void infer_shape_of(Inference& node) { node.set(0, QN_S64, {some_dimensions(node).size()}); }
void run_shape_of(const Run& node) {
  const Shape dimensions = some_dimensions(node);
  std::copy(dimensions.begin(), dimensions.end(), node.output<int64_t>(0));
}

void infer_size_of(Inference& node) { node.set(0, QN_S64, {}); }
void run_size_of(const Run& node) { *node.output<int64_t>(0) = static_cast<int64_t>(count(node.shape(0))); }

// sizes(x, ...): numbers that the parameter `factors` makes of dimensions. `shape` is that of the result.
void infer_sizes(Inference& node) {
  Shape shape;
  for (const int64_t d : node.integers("shape")) shape.push_back(size_from(node, d, "a dimension"));
  if (node.wanted(0) != QN_S32 && node.wanted(0) != QN_S64) node.fail("sizes are s32 or s64");
  node.set(0, node.wanted(0), shape);
  if (count(shape) != sizes_from(node, "factors").size())
    node.fail("there are more or fewer numbers than the shape says");
}
void run_sizes(const Run& node) {
  const std::vector<int64_t> list = sizes_from(node, "factors");
  const auto write = [&](auto* to) {
    for (const int64_t number : list) *to++ = static_cast<std::remove_reference_t<decltype(*to)>>(number);
  };
  node.output_type(0) == QN_S32 ? write(node.output<int32_t>(0)) : write(node.output<int64_t>(0));
}

constexpr qn_kind reshape = kind<infer_reshape, copy_all>("reshape_to", {2, 2}, 1, QN_KIND_MOVES, 1 << 1);

constexpr qn_kind kinds[] = {
    reshape,
    sized<reshape>("reshape_sizes"),
    kind<infer_flatten, copy_all>("flatten", {1, 1}, 1, QN_KIND_MOVES),
    kind<infer_squeeze, copy_all>("squeeze", {1, 2}, 1, QN_KIND_MOVES, 1 << 1),
    kind<infer_unsqueeze, copy_all>("unsqueeze", {2, 2}, 1, QN_KIND_MOVES, 1 << 1),
    kind<infer_identity, copy_all>("identity", {1, 1}, 1, QN_KIND_IN_PLACE | QN_KIND_MOVES),
    kind<infer_bit_cast, copy_all>("bit_cast", {1, 1}, 1),
    kind<infer_permute, run_permute>("permute", {1, 1}, 1, QN_KIND_MOVES),
    kind<infer_depth_to_space, run_depth_to_space>("depth_to_space", {1, 1}, 1, QN_KIND_MOVES),
    kind<infer_space_to_depth, run_space_to_depth>("space_to_depth", {1, 1}, 1, QN_KIND_MOVES),
    kind<infer_shape_of, run_shape_of>("shape_of", {1, 1}, 1),
    kind<infer_size_of, run_size_of>("size_of", {1, 1}, 1),
    kind<infer_sizes, run_sizes>("sizes", {1, 255}, 1),
};

}  // namespace
}  // namespace shape_functions

Kinds shape_kinds() { return needed<shape_functions::kinds>(); }

}  // namespace quern::extra

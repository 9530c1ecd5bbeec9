// Elements at places that other tensors name: gathering and scattering.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "extra/copy.h"

namespace quern::extra {
namespace choice {
namespace {

// ---- gathering

// gather(x, indices): parts of x along `axis`, in place of which the result has the dimensions of the indices.
void infer_gather(Inference& node) {
  const Shape x = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), x.size());
  Shape out = x.part(0, axis);
  out.append(node.shape(1));
  out.append(x.part(axis + 1, x.size()));
  node.set(0, node.type(0), out);
}

void run_gather(const Run& node) {
  const Lanes x(node.shape(0), node.axis(node.integer("axis", 0), node.rank(0)));
  std::vector<size_t> places;
  for (const int64_t index : node.values(1)) places.push_back(index_in(node, index, x.size));
  const size_t bytes = x.inner * element_size(node);
  if (bytes == 0) return;
  char* to = node.output<char>(0);
  Pace pace;
  for (size_t o = 0; o < x.outer; ++o) {
    const char* const from = node.data<char>(0) + o * x.size * bytes;
    for (const size_t at : places) {
      pace.did(x.inner);
      std::memcpy(to, from + at * bytes, bytes);
      to += bytes;
    }
  }
}

// Checks indices that have a place in x for each element: they reach no further than x, but along the axis.
size_t elements_axis(const Node& node, size_t indices) {
  const Shape x = node.shape(0), at = node.shape(indices);
  const size_t axis = node.axis(node.integer("axis", 0), x.size());
  if (at.size() != x.size()) node.fail("the indices have rank " + std::to_string(at.size()));
  for (size_t d = 0; d < x.size(); ++d) {
    if (d != axis && at[d] > x[d]) node.fail("the indices reach beyond dimension " + std::to_string(d));
  }
  return axis;
}

// Calls visit(i, at) for each index: i counts them, and `at` is its place in x.
template <class Visit>
void each_index(const Node& node, size_t indices, const Visit& visit) {
  const Shape x = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), x.size());
  Shape strides = strides_of(x);
  const size_t step = strides[axis];
  strides[axis] = 0;
  const std::vector<int64_t> values = node.values(indices);
  walk(node.shape(indices), {strides},
       [&](size_t i, const size_t* at) { visit(i, at[0] + index_in(node, values[i], x[axis]) * step); });
}

// gather_elements(x, indices): like x but for the axis, on which the indices name places.
void infer_gather_elements(Inference& node) {
  elements_axis(node, 1);
  node.set(0, node.type(0), node.shape(1));
}
void run_gather_elements(const Run& node) {
  with_size(element_size(node), [&]<class T>(Tag<T>) {
    each_index(node, 1, [x = node.data<T>(0), to = node.output<T>(0)](size_t i, size_t at) { to[i] = x[at]; });
  });
}

// Tuples of indices, the last dimension of input 1. Each names a part of x, behind `batch` dimensions in common.
struct Tuples {
  size_t batch, size, count, per_batch, part;  // size: numbers in a tuple; part: elements that it names
  Shape part_shape;
};
Tuples tuples_of(const Node& node, int64_t batch_dims) {
  const Shape x = node.shape(0), at = node.shape(1);
  const auto batch = static_cast<size_t>(batch_dims);
  if (at.empty()) node.fail("the indices are a scalar");
  if (batch_dims < 0 || batch >= at.size() || batch > x.size() || at.back() > x.size() - batch) {
    node.fail("the indices do not fit the tensor");
  }
  for (size_t d = 0; d < batch; ++d) {
    if (at[d] != x[d]) node.fail("the indices have another batch");
  }
  const Shape tuples = at.part(0, at.size() - 1), part = x.part(batch + at.back(), x.size());
  const size_t per_batch = count(tuples.part(batch, tuples.size()));
  return {batch, at.back(), count(tuples), per_batch, count(part), part};
}
// Returns the first element of the part that each tuple names.
std::vector<size_t> places_of(const Node& node, const Tuples& tuples) {
  const Shape x = node.shape(0), strides = strides_of(x);
  const size_t batch_stride = count(x.part(tuples.batch, x.size()));
  const std::vector<int64_t> values = node.values(1);
  std::vector<size_t> places(tuples.count);
  for (size_t t = 0; t < tuples.count; ++t) {
    places[t] = t / tuples.per_batch * batch_stride;
    for (size_t i = 0; i < tuples.size; ++i) {
      const size_t d = tuples.batch + i;
      places[t] += index_in(node, values[t * tuples.size + i], x[d]) * strides[d];
    }
  }
  return places;
}

// gather_nd(x, indices)
void infer_gather_nd(Inference& node) {
  const Tuples tuples = tuples_of(node, node.integer("batch_dims", 0));
  Shape out = node.shape(1).part(0, node.rank(1) - 1);
  out.append(tuples.part_shape);
  node.set(0, node.type(0), out);
}
void run_gather_nd(const Run& node) {
  const Tuples tuples = tuples_of(node, node.integer("batch_dims", 0));
  const size_t bytes = tuples.part * element_size(node);
  char* to = node.output<char>(0);
  Pace pace;
  for (const size_t at : places_of(node, tuples)) {
    pace.did(tuples.part);
    if (bytes != 0) std::memcpy(to, node.data<char>(0) + at * element_size(node), bytes);
    to += bytes;
  }
}

// ---- scattering

// What happens to an element on which an update falls.
enum Reduction : int64_t { replace, add, multiply, greatest, least, reductions };

Reduction reduction_of(const Node& node) {
  const int64_t reduction = node.integer("reduction", replace);
  if (reduction < 0 || reduction >= reductions) node.fail("reduction " + std::to_string(reduction));
  return static_cast<Reduction>(reduction);
}

// Integers are computed modulo their range. Maximum and minimum of NaN and anything are NaN.
template <class T>
T reduced(Reduction reduction, T a, T b) {
  if (reduction == replace) return b;
  if constexpr (std::is_same_v<T, float>) {
    if (reduction == add) return a + b;
    if (reduction == multiply) return a * b;
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  } else {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b), product = x * y;
    if (reduction == add) return static_cast<T>(x + y);
    if (reduction == multiply) return static_cast<T>(product);
  }
  return reduction == greatest ? std::max(a, b) : std::min(a, b);
}

// scatter_elements(x, indices, updates): x, with the updates at the places that gather_elements would read.
void infer_scatter_elements(Inference& node) {
  elements_axis(node, 1);
  expect_same_type(node, 0, 2);
  if (!(node.shape(1) == node.shape(2))) node.fail("there are not as many updates as indices");
  reduction_of(node);
  node.set(0, node.type(0), node.shape(0));
}
void run_scatter_elements(const Run& node) {
  copy_all(node);
  const Reduction reduction = reduction_of(node);
  with_type(node.type(0), [&]<class T>(Tag<T>) {
    const T* const updates = node.data<T>(2);
    each_index(node, 1,
               [&, y = node.output<T>(0)](size_t i, size_t at) { y[at] = reduced(reduction, y[at], updates[i]); });
  });
}

// scatter_nd(x, indices, updates): x, with the updates in the parts that gather_nd would read.
void infer_scatter_nd(Inference& node) {
  expect_same_type(node, 0, 2);
  Shape updates = node.shape(1);
  const Tuples tuples = tuples_of(node, 0);
  updates.erase(updates.size() - 1);
  updates.append(tuples.part_shape);
  if (!(updates == node.shape(2))) node.fail("the updates do not fit the indices");
  reduction_of(node);
  node.set(0, node.type(0), node.shape(0));
}
void run_scatter_nd(const Run& node) {
  copy_all(node);
  const Tuples tuples = tuples_of(node, 0);
  const std::vector<size_t> places = places_of(node, tuples);
  const Reduction reduction = reduction_of(node);
  with_type(node.type(0), [&]<class T>(Tag<T>) {
    const T* from = node.data<T>(2);
    Pace pace;
    for (const size_t at : places) {
      pace.did(tuples.part);
      T* const to = node.output<T>(0) + at;
      for (size_t i = 0; i < tuples.part; ++i) to[i] = reduced(reduction, to[i], *from++);
    }
  });
}

// tensor_scatter(cache, update, first): cache, with the update along `axis` from place first[b] on, of batch b, or 0.
// With `circular` what goes beyond the end goes on at the beginning.
void infer_tensor_scatter(Inference& node) {
  const Shape cache = node.shape(0);
  Shape update = node.shape(1);
  expect_same_type(node, 0, 1);
  const size_t axis = node.axis(node.integer("axis", -2), cache.size());
  if (axis == 0) node.fail("the axis is the batch");
  if (update.size() != cache.size() || update[axis] > cache[axis]) node.fail("the update does not fit the cache");
  update[axis] = cache[axis];
  if (!(update == cache)) node.fail("the update does not fit the cache");
  if (node.has(2) && !(node.shape(2) == Shape{cache[0]})) node.fail("the batch has another number of places");
  node.set(0, node.type(0), cache);
}
void run_tensor_scatter(const Run& node) {
  copy_all(node);
  const size_t axis = node.axis(node.integer("axis", -2), node.rank(0));
  const Lanes cache(node.shape(0), axis), update(node.shape(1), axis);
  const bool circular = node.integer("circular", 0) != 0;
  const std::vector<int64_t> first = node.has(2) ? node.values(2) : std::vector<int64_t>(node.shape(0)[0], 0);
  const size_t bytes = cache.inner * element_size(node);
  if (cache.outer * update.size * bytes == 0) return;
  const auto size = static_cast<int64_t>(cache.size);
  const char* from = node.data<char>(1);
  for (size_t o = 0; o < update.outer; ++o) {
    int64_t begin = first[o / (update.outer / first.size())];
    if (circular) begin = (begin % size + size) % size;
    if (begin < 0 || begin > (circular ? size : size - static_cast<int64_t>(update.size))) {
      node.fail("place " + std::to_string(begin) + " in a dimension of " + std::to_string(size));
    }
    for (size_t i = 0; i < update.size; ++i, from += bytes) {
      const size_t at = (static_cast<size_t>(begin) + i) % cache.size;
      std::memcpy(node.output<char>(0) + (o * cache.size + at) * bytes, from, bytes);
    }
  }
}

constexpr qn_kind kinds[] = {
    kind<infer_gather, run_gather>("gather", {2, 2}, 1, QN_KIND_MOVES),
    kind<infer_gather_elements, run_gather_elements>("gather_elements", {2, 2}, 1, QN_KIND_MOVES),
    kind<infer_gather_nd, run_gather_nd>("gather_nd", {2, 2}, 1, QN_KIND_MOVES),
    kind<infer_scatter_elements, run_scatter_elements>("scatter_elements", {3, 3}, 1, QN_KIND_MOVES),
    kind<infer_scatter_nd, run_scatter_nd>("scatter_nd", {3, 3}, 1, QN_KIND_MOVES),
    kind<infer_tensor_scatter, run_tensor_scatter>("tensor_scatter", {2, 3}, 1, QN_KIND_MOVES),
};

}  // namespace
}  // namespace choice

Kinds choosing_kinds() { return needed<choice::kinds>(); }

}  // namespace quern::extra

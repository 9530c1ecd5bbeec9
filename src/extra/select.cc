// Elements that are chosen by what they are: the largest, those that differ, those that are not 0.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "extra/copy.h"

namespace quern::extra {
namespace selection {
namespace {

// Whether a comes before b in ascending order. All NaN are equal, and greater than numbers.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

constexpr size_t work_of_comparison = 8;  // of two elements that lie anywhere

// ---- the largest

// top_k(x, k): the k largest along `axis`, the largest first, and where they are. `largest` 0: the smallest. Of equal
// elements that with the lowest index comes first.
void infer_top_k(Inference& node) {
  Shape out = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", -1), out.size());
  const size_t k = size_from(node, number(node, 1, 0), "k");
  if (k > out[axis]) node.fail("k is " + std::to_string(k) + " on a dimension of " + std::to_string(out[axis]));
  out[axis] = k;
  node.set(0, node.type(0), out);
  node.set(1, QN_S64, out);
}

template <class T>
void top_k(const Run& node, const Lanes& x, size_t k) {
  const bool largest = node.integer("largest", 1) != 0;
  T* const values = node.output<T>(0);
  int64_t* const indices = node.output_count() > 1 ? node.output<int64_t>(1) : nullptr;
  std::vector<size_t> order(x.size);
  Pace pace;
  for (size_t o = 0; o < x.outer; ++o) {
    for (size_t i = 0; i < x.inner; ++i) {
      const T* const lane = node.data<T>(0) + o * x.size * x.inner + i;
      std::iota(order.begin(), order.end(), size_t{0});
      std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(k), order.end(), [&](size_t a, size_t b) {
        pace.did(work_of_comparison);
        const T at_a = lane[a * x.inner], at_b = lane[b * x.inner];
        if (largest ? less(at_b, at_a) : less(at_a, at_b)) return true;
        if (largest ? less(at_a, at_b) : less(at_b, at_a)) return false;
        return a < b;
      });
      for (size_t n = 0; n < k; ++n) {
        const size_t to = (o * k + n) * x.inner + i;
        if (values != nullptr) values[to] = lane[order[n] * x.inner];
        if (indices != nullptr) indices[to] = static_cast<int64_t>(order[n]);
      }
    }
  }
}

void run_top_k(const Run& node) {
  const Lanes x(node.shape(0), node.axis(node.integer("axis", -1), node.rank(0)));
  const auto k = static_cast<size_t>(number(node, 1, 0));
  if (x.outer * x.inner * k == 0) return;
  with_type(node.type(0), [&]<class T>(Tag<T>) { top_k<T>(node, x, k); });
}

// ---- what a run sizes

void infer_later(Inference&) {}

// nonzero(x): for each dimension of x the indices of the elements that are not 0, in row-major order.
void run_nonzero(const Run& node) {
  const Shape x = node.shape(0), strides = strides_of(x);
  std::vector<size_t> places;
  with_type(node.type(0), [&]<class Element>(Tag<Element>) {
    using T = std::conditional_t<std::is_same_v<Element, bool>, uint8_t, Element>;  // any byte but 0 is true
    const T* const data = node.data<T>(0);
    const size_t n = count(x);
    Pace pace;
    for (size_t i = 0; i < n; ++i) {
      pace.did(1);
      if (data[i] != T{}) places.push_back(i);
    }
  });
  auto* to = static_cast<int64_t*>(node.allocate(0, QN_S64, {x.size(), places.size()}));
  for (size_t d = 0; d < x.size(); ++d) {
    look(places.size());
    for (const size_t at : places) *to++ = static_cast<int64_t>(at / strides[d] % x[d]);
  }
}

// The elements or, if there is the parameter `axis`, the slices of that axis.
Lanes items_of(const Node& node) {
  const Shape x = node.shape(0);
  const std::span<const int64_t> axis = node.integers("axis");
  return axis.empty() ? Lanes({count(x)}, 0) : Lanes(x, node.axis(axis[0], x.size()));
}

// Makes an output of the items in this list.
void write_items(const Run& node, const Lanes& x, const std::vector<size_t>& list) {
  Shape shape = node.shape(0);
  const std::span<const int64_t> axis = node.integers("axis");
  axis.empty() ? void(shape = {list.size()}) : void(shape[node.axis(axis[0], shape.size())] = list.size());
  char* to = static_cast<char*>(node.allocate(0, node.type(0), shape));
  const size_t bytes = x.inner * element_size(node);
  if (bytes == 0 || list.empty()) return;  // `outer` may be any number
  Pace pace;
  for (size_t o = 0; o < x.outer; ++o) {
    for (const size_t item : list) {
      pace.did(x.inner);
      std::memcpy(to, node.data<char>(0) + (o * x.size + item) * bytes, bytes);
      to += bytes;
    }
  }
}

// compress(x, condition): the items for which the condition, which may be shorter, is true.
void run_compress(const Run& node) {
  node.expect(1, QN_BOOL);
  if (node.rank(1) != 1) node.fail("the condition is not a list");
  const Lanes x = items_of(node);
  std::vector<size_t> list;
  for (size_t i = 0; i < node.shape(1)[0]; ++i) {
    if (node.data<uint8_t>(1)[i] == 0) continue;
    if (i >= x.size) node.fail("the condition chooses item " + std::to_string(i) + " of " + std::to_string(x.size));
    list.push_back(i);
  }
  write_items(node, x, list);
}

// Returns -1, 0 or 1, as item a is before, like or behind item b.
template <class T>
int compare(const T* data, const Lanes& x, size_t a, size_t b) {
  if (x.inner == 0) return 0;  // `outer` may be any number
  for (size_t o = 0; o < x.outer; ++o) {
    const T *const at_a = data + (o * x.size + a) * x.inner, *const at_b = data + (o * x.size + b) * x.inner;
    for (size_t i = 0; i < x.inner; ++i) {
      if (less(at_a[i], at_b[i])) return -1;
      if (less(at_b[i], at_a[i])) return 1;
    }
  }
  return 0;
}

// Items that are equal, by number. The first one is that with the lowest number.
using Group = std::vector<size_t>;

template <class T>
std::vector<Group> groups_of(const T* data, const Lanes& x) {
  std::vector<size_t> order(x.size);
  std::iota(order.begin(), order.end(), size_t{0});
  Pace pace;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    pace.did(work_of_comparison * x.inner);
    return compare(data, x, a, b) < 0;
  });
  std::vector<Group> groups;
  for (const size_t item : order) {
    if (groups.empty() || compare(data, x, groups.back()[0], item) != 0) groups.emplace_back();
    groups.back().push_back(item);
  }
  return groups;
}

// unique(x): each different item once, in ascending order or, if `sorted` is 0, as they first occur; where each occurs
// first; which of them each item of x is; how often each occurs.
void run_unique(const Run& node) {
  const Lanes x = items_of(node);
  std::vector<Group> groups = with_type(node.type(0), [&]<class T>(Tag<T>) { return groups_of(node.data<T>(0), x); });
  if (node.integer("sorted", 1) == 0) {
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a[0] < b[0]; });
  }
  std::vector<size_t> first, group_of(x.size), counts;
  for (const Group& group : groups) {
    for (const size_t item : group) group_of[item] = first.size();
    first.push_back(group[0]);
    counts.push_back(group.size());
  }
  write_items(node, x, first);
  const std::vector<size_t>* const lists[] = {&first, &group_of, &counts};
  for (size_t i = 1; i < node.output_count(); ++i) {
    auto* const to = static_cast<int64_t*>(node.allocate(i, QN_S64, {lists[i - 1]->size()}));
    std::copy(lists[i - 1]->begin(), lists[i - 1]->end(), to);
  }
}

constexpr qn_kind kinds[] = {
    kind<infer_top_k, run_top_k>("top_k", {2, 2}, 2, 0, 1 << 1),
    kind<infer_later, run_nonzero>("nonzero", {1, 1}, 1, QN_KIND_SIZED_BY_RUN),
    kind<infer_later, run_compress>("compress", {2, 2}, 1, QN_KIND_SIZED_BY_RUN),
    kind<infer_later, run_unique>("unique", {1, 1}, 4, QN_KIND_SIZED_BY_RUN),
};

}  // namespace
}  // namespace selection

Kinds selecting_kinds() { return needed<selection::kinds>(); }

}  // namespace quern::extra

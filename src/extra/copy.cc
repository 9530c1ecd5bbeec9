#include "extra/copy.h"

#include <algorithm>
#include <cstring>

namespace quern::extra {
namespace {

// Takes dimensions away from the end as long as their elements are neighbours in both tensors. Returns how many
// elements lie together.
size_t take_block(Shape* shape, Shape* from, Shape* to) {
  size_t block = 1;
  while (!shape->empty()) {
    const bool together = shape->back() == 1 || (from->back() == block && to->back() == block);
    if (!together) break;
    block *= shape->back();
    for (Shape* list : {shape, from, to}) list->resize(list->size() - 1);
  }
  return block;
}

template <class T>
void copy_row(size_t n, const T* from, size_t from_stride, T* to, size_t to_stride) {
  for (size_t i = 0; i < n; ++i) {
    to[static_cast<ptrdiff_t>(i * to_stride)] = from[static_cast<ptrdiff_t>(i * from_stride)];
  }
}

}  // namespace

void copy_elements(const Shape& all, size_t size, const void* from, const Place& from_place, void* to,
                   const Place& to_place) {
  if (count(all) == 0) return;
  Shape shape = all, strides[2] = {from_place.strides, to_place.strides};
  const size_t block = take_block(&shape, &strides[0], &strides[1]);
  const auto source = [&](size_t at) {
    return static_cast<const char*>(from) + static_cast<ptrdiff_t>((from_place.first + at) * size);
  };
  const auto target = [&](size_t at) {
    return static_cast<char*>(to) + static_cast<ptrdiff_t>((to_place.first + at) * size);
  };
  if (block > 1 || shape.empty()) {
    return walk(shape, strides, [&](size_t, const size_t* at) {
      std::memcpy(target(at[1]), source(at[0]), block * size);
      look(block);
    });
  }
  const size_t n = shape.back(), from_stride = strides[0].back(), to_stride = strides[1].back();
  for (Shape* list : {&shape, &strides[0], &strides[1]}) list->resize(list->size() - 1);
  walk(shape, strides, [&](size_t, const size_t* at) {
    with_size(size, [&]<class T>(Tag<T>) {
      copy_row(n, reinterpret_cast<const T*>(source(at[0])), from_stride, reinterpret_cast<T*>(target(at[1])),
               to_stride);
    });
    look(n);
  });
}

void fill_elements(void* to, size_t n, size_t size, const void* value) {
  if (n == 0) return;
  if (value == nullptr) {
    std::memset(to, 0, n * size);
    return;
  }
  with_size(size, [&]<class T>(Tag<T>) { std::fill_n(static_cast<T*>(to), n, *static_cast<const T*>(value)); });
}

size_t size_from(const Node& node, int64_t value, const char* what) {
  if (value < 0) node.fail(std::string(what) + " is " + std::to_string(value));
  return static_cast<size_t>(value);
}

size_t checked_product(const Node& node, size_t a, size_t b) {
  size_t result;
  if (__builtin_mul_overflow(a, b, &result)) node.fail("a tensor is too large");
  return result;
}

std::vector<int64_t> list(const Node& node, size_t input) {
  if (node.rank(input) > 1) node.fail("input " + std::to_string(input) + " is not a list of numbers");
  return node.values(input);
}

int64_t number(const Node& node, size_t input, int64_t otherwise) {
  if (!node.has(input)) return otherwise;
  if (count(node.shape(input)) != 1) node.fail("input " + std::to_string(input) + " is not one number");
  return node.values(input)[0];
}

std::vector<size_t> axes(const Node& node, size_t input, size_t rank, size_t count) {
  std::vector<size_t> axes;
  bool taken[Shape::capacity] = {};
  const auto add = [&](int64_t axis) {
    axes.push_back(node.axis(axis, rank));
    if (taken[axes.back()]) node.fail("axis " + std::to_string(axes.back()) + " is given twice");
    taken[axes.back()] = true;
  };
  if (node.has(input)) {
    for (const int64_t axis : list(node, input)) add(axis);
  } else {
    for (size_t d = 0; d < count; ++d) add(static_cast<int64_t>(d));
  }
  return axes;
}

size_t index_in(const Node& node, int64_t index, size_t size) {
  const auto n = static_cast<int64_t>(size);
  if (index < -n || index >= n) {
    node.fail("index " + std::to_string(index) + " of a dimension of " + std::to_string(size));
  }
  return static_cast<size_t>(index < 0 ? index + n : index);
}

void expect_same_type(const Node& node, size_t a, size_t b) { node.expect(b, node.type(a)); }

void copy_all(const Run& node) {
  const size_t bytes = count(node.shape(0)) * qn_type_size(node.type(0));
  if (bytes != 0) std::memmove(node.output<void>(0), node.data<void>(0), bytes);
}

}  // namespace quern::extra

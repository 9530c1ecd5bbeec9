// Tensors that are made of a few numbers.
#include <algorithm>
#include <cmath>

#include "extra/copy.h"
#include "extra/sized.h"

namespace quern::extra {
namespace making {
namespace {

// ---- sequences

template <class T>
T scalar(const Node& node, size_t input) {
  if (count(node.shape(input)) != 1) node.fail("input " + std::to_string(input) + " is not one number");
  return *node.data<T>(input);
}

// How many numbers there are from `start` on in steps of `step` before `limit`.
template <class T>
size_t steps(const Node& node, T start, T limit, T step) {
  if (step == 0) node.fail("the step is 0");
  if constexpr (std::is_same_v<T, float>) {
    const double n = std::ceil(double{(limit - start) / step});
    if (!(n < 0x1p62)) node.fail("there are infinitely many numbers");
    return n > 0 ? static_cast<size_t>(n) : 0;
  } else {
    if (step > 0 ? limit <= start : limit >= start) return 0;
    const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit), by = static_cast<uint64_t>(step);
    return step > 0 ? (to - from - 1) / by + 1 : (from - to - 1) / (0 - by) + 1;
  }
}

// range(start, limit, step)
void infer_range(Inference& node) {
  expect_same_type(node, 0, 1);
  expect_same_type(node, 0, 2);
  if (node.type(0) == QN_BOOL) node.fail("of truth values");
  const size_t n = with_type(node.type(0), [&]<class T>(Tag<T>) {
    return steps(node, scalar<T>(node, 0), scalar<T>(node, 1), scalar<T>(node, 2));
  });
  node.set(0, node.type(0), {n});
}
void run_range(const Run& node) {
  const size_t n = node.output_shape(0)[0];
  with_type(node.type(0), [&]<class T>(Tag<T>) {
    const T start = scalar<T>(node, 0), step = scalar<T>(node, 2);
    T* const to = node.output<T>(0);
    Pace pace;
    for (size_t i = 0; i < n; ++i) {
      pace.did(1);
      if constexpr (std::is_same_v<T, float>) {
        to[i] = start + static_cast<float>(i) * step;
      } else {
        to[i] = static_cast<T>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step));
      }
    }
  });
}

// ---- constant numbers

// fill(shape, value)
void infer_fill(Inference& node) {
  Shape shape;
  for (const int64_t d : list(node, 0)) shape.push_back(size_from(node, d, "a dimension"));
  if (count(node.shape(1)) != 1) node.fail("the value is not one number");
  node.set(0, node.type(1), shape);
}
void run_fill(const Run& node) {
  fill_elements(node.output<void>(0), count(node.output_shape(0)), qn_type_size(node.type(1)), node.data<void>(1));
}

// eye_like(x): a matrix of the shape of x, with ones on diagonal `k`.
void infer_eye(Inference& node) {
  if (node.rank(0) != 2) node.fail("on a tensor of rank " + std::to_string(node.rank(0)));
  node.set(0, node.wanted(0), node.shape(0));
}
void run_eye(const Run& node) {
  const Shape y = node.output_shape(0);
  const auto rows = static_cast<int64_t>(y[0]), columns = static_cast<int64_t>(y[1]);
  const int64_t k = std::clamp(node.integer("k", 0), -rows, columns);
  with_type(node.output_type(0), [&]<class T>(Tag<T>) {
    T* const to = node.output<T>(0);
    std::fill_n(to, count(y), T{});
    for (int64_t r = 0; r < rows; ++r) {
      if (r + k >= 0 && r + k < columns) to[r * columns + r + k] = T{1};
    }
  });
}

// ---- random numbers

// random_like(x): random f32 in the shape of x. With `normal`, they are normally distributed around `mean` with deviation
// `scale`; else evenly between `low` and `high`. An element depends on `seed` and on its index alone, so each run returns
// the same.
void infer_random(Inference& node) { node.set(0, QN_F32, node.shape(0)); }

// The random bits of a number (SplitMix64: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014).
uint64_t bits_of(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number ^ number >> 31;
}

// In [0, 1), in steps that f32 has.
double even(uint64_t number) { return static_cast<double>(bits_of(number) >> 40) * 0x1p-24; }

// By Box and Muller, of two even ones.
double normal(uint64_t number) {
  constexpr double turn = 6.283185307179586;
  return std::sqrt(-2 * std::log(1 - even(2 * number))) * std::cos(turn * even(2 * number + 1));
}

void run_random(const Run& node) {
  const bool is_normal = node.integer("normal", 0) != 0;
  const double offset = double{is_normal ? node.number("mean", 0) : node.number("low", 0)};
  const double factor = is_normal ? double{node.number("scale", 1)} : double{node.number("high", 1)} - offset;
  const uint64_t begin = bits_of(static_cast<uint64_t>(node.integer("seed", 0)));
  const auto draw = is_normal ? normal : even;
  float* const y = node.output<float>(0);
  const size_t n = count(node.output_shape(0));
  Pace pace;
  for (size_t i = 0; i < n; ++i) pace.did(16), y[i] = static_cast<float>(offset + factor * draw(begin + i));
}

// ---- classes

// Converts a number, towards 0. What no integer can express becomes the least one.
template <class T>
int64_t whole(T value) {
  if constexpr (std::is_same_v<T, float>) {
    if (!(std::fabs(value) < 0x1p63f)) return INT64_MIN;
  }
  return static_cast<int64_t>(value);
}

// one_hot(indices, depth, values): values[1] where the place along the new axis is the index, and values[0] elsewhere,
// all along if there is no such place.
size_t one_hot_axis(const Node& node) { return node.axis(node.integer("axis", -1), node.rank(0) + 1); }

void infer_one_hot(Inference& node) {
  Shape out = node.shape(0);
  if (!(node.shape(2) == Shape{2})) node.fail("there are not two values");
  const int64_t depth = with_type(node.type(1), [&]<class T>(Tag<T>) { return whole(scalar<T>(node, 1)); });
  out.insert(one_hot_axis(node), size_from(node, depth, "the depth"));
  node.set(0, node.type(2), out);
}

void run_one_hot(const Run& node) {
  const Shape y = node.output_shape(0);
  const Lanes lanes(y, one_hot_axis(node));
  const size_t size = qn_type_size(node.type(2));
  const char* const values = node.data<char>(2);
  fill_elements(node.output<void>(0), count(y), size, values);
  const auto depth = static_cast<int64_t>(lanes.size);
  with_type(node.type(0), [&]<class T>(Tag<T>) {
    const T* index = node.data<T>(0);
    Pace pace;
    for (size_t o = 0; o < lanes.outer; ++o) {
      for (size_t i = 0; i < lanes.inner; ++i) {
        pace.did(4);
        const int64_t given = whole(*index++), at = given < 0 ? given + depth : given;
        if (at < 0 || at >= depth) continue;
        const size_t to = (o * lanes.size + static_cast<size_t>(at)) * lanes.inner + i;
        std::copy_n(values + size, size, node.output<char>(0) + to * size);
      }
    }
  });
}

constexpr qn_kind range = kind<infer_range, run_range>("range", {3, 3}, 1, 0, 1 << 0 | 1 << 1 | 1 << 2);
constexpr qn_kind fill = kind<infer_fill, run_fill>("fill", {2, 2}, 1, 0, 1 << 0);

constexpr qn_kind kinds[] = {
    range,
    fill,
    sized<range>("range_sizes"),
    sized<fill>("fill_sizes"),
    kind<infer_eye, run_eye>("eye_like", {1, 1}, 1),
    kind<infer_random, run_random>("random_like", {1, 1}, 1),
    kind<infer_one_hot, run_one_hot>("one_hot", {3, 3}, 1, 0, 1 << 1),
};

}  // namespace
}  // namespace making

Kinds making_kinds() { return needed<making::kinds>(); }

}  // namespace quern::extra

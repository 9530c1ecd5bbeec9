// Reductions: one number of all elements along some axes. Determinants: one number of a matrix.
#include <algorithm>
#include <cmath>

#include "extra/copy.h"
#include "extra/numbers.h"

namespace quern::extra {
namespace reductions {
namespace {

// ---- what is made of the elements
// start() is the state before the first of them, add() takes one more, join() takes the elements of two states, and
// finish() makes the result of n elements. A state has no more than 8 bytes.

// Sums of integers wrap around. They are kept in 64 bits.
template <class T>
using Total = std::conditional_t<std::is_floating_point_v<T>, float, uint64_t>;
// A total as a number with a sign.
template <class T>
auto signed_total(Total<T> total) {
  if constexpr (std::is_floating_point_v<T>) return total;
  if constexpr (!std::is_floating_point_v<T>) return static_cast<int64_t>(total);
}

template <class T>
struct Sum {
  using State = Total<T>;
  static State start() { return 0; }
  static State add(State s, T x) { return s + static_cast<State>(x); }
  static State join(State a, State b) { return a + b; }
  static T finish(State s, size_t) { return static_cast<T>(s); }
};
template <class T>
struct Mean : Sum<T> {
  static T finish(Total<T> s, size_t n) {
    if constexpr (std::is_floating_point_v<T>) return s / static_cast<T>(n);
    return static_cast<T>(quotient(signed_total<T>(s), number<decltype(signed_total<T>(s))>(n)));
  }
};
template <class T>
struct Product : Sum<T> {
  using State = Total<T>;
  static State start() { return 1; }
  static State add(State s, T x) { return s * static_cast<State>(x); }
  static State join(State a, State b) { return a * b; }
};
template <class T>
struct AbsoluteSum : Sum<T> {
  using State = Total<T>;
  static State add(State s, T x) { return x < 0 ? s - static_cast<State>(x) : s + static_cast<State>(x); }
};
template <class T>
struct SquareSum : Sum<T> {
  using State = Total<T>;
  static State add(State s, T x) { return s + static_cast<State>(x) * static_cast<State>(x); }
};
template <class T>
struct Norm : SquareSum<T> {
  static T finish(Total<T> s, size_t) { return number<T>(std::sqrt(signed_total<T>(s))); }
};
template <class T>
struct LogSum : Sum<T> {
  static T finish(Total<T> s, size_t) { return number<T>(std::log(signed_total<T>(s))); }
};

// The logarithm of a sum of exponentials, relative to the largest so far, so that none overflows.
struct Exponentials {
  float largest, sum;
};
template <class T>
struct LogSumExp {
  using State = Exponentials;
  static State start() { return {-std::numeric_limits<float>::infinity(), 0}; }
  static State add(State s, T x) { return join(s, {static_cast<float>(x), 1}); }
  static State join(State a, State b) {
    if (a.largest == b.largest) return {a.largest, a.sum + b.sum};  // also infinite ones
    if (b.largest > a.largest) std::swap(a, b);
    return {a.largest, a.sum + b.sum * std::exp(b.largest - a.largest)};
  }
  static T finish(State s, size_t) { return number<T>(s.largest + std::log(s.sum)); }
};

// A NaN wins.
template <class T>
struct Largest {
  using State = T;
  using Limits = std::numeric_limits<T>;
  static State start() { return Limits::has_infinity ? -Limits::infinity() : Limits::lowest(); }
  static State add(State s, T x) { return x > s || x != x ? x : s; }
  static State join(State a, State b) { return add(a, b); }
  static T finish(State s, size_t) { return s; }
};
template <class T>
struct Smallest : Largest<T> {
  using State = T;
  using Limits = std::numeric_limits<T>;
  static State start() { return Limits::has_infinity ? Limits::infinity() : Limits::max(); }
  static State add(State s, T x) { return x < s || x != x ? x : s; }
  static State join(State a, State b) { return add(a, b); }
};

// ---- which elements

// The dimensions of a tensor that remain and those that are reduced; neighbours are joined.
struct Parts {
  Shape kept, kept_strides, reduced, reduced_strides;
  bool ends_reduced = false;  // the innermost dimension

  Parts(const Shape& shape, const Shape& is_reduced) {
    const Shape strides = strides_of(shape);
    bool first = true;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      const bool reduces = is_reduced[d] != 0;
      Shape &sizes = reduces ? reduced : kept, &its_strides = reduces ? reduced_strides : kept_strides;
      if (first || reduces != ends_reduced) {
        sizes.push_back(1);
        its_strides.push_back(0);
      }
      sizes.back() *= shape[d];
      its_strides.back() = strides[d];
      ends_reduced = reduces;
      first = false;
    }
  }
};

Shape without_last(const Shape& shape) { return shape.part(0, shape.size() - 1); }

// Rows of the innermost dimension are reduced by several states, in turn, so that a compiler makes vectors of them. If
// that dimension remains, each of some neighbours has its state.
constexpr size_t lanes = 8, most_columns = 64;

// What a reduction does with states of one type, and with elements of one type.
struct Reducer {
  size_t element_size;
  void (*start)(void* states, size_t n);
  void (*add_row)(void* states, const void* row, size_t length);     // to the states of lanes
  void (*add_columns)(void* states, const void* row, size_t width);  // each to its own state
  void (*finish_row)(void* states, size_t n, void* y);
  void (*finish_columns)(void* states, size_t width, size_t n, void* y);
};

template <class Reduction, class T>
struct ReducerOf {
  using State = typename Reduction::State;
  static_assert(sizeof(State) <= 8);

  static void start(void* states, size_t n) { std::fill_n(static_cast<State*>(states), n, Reduction::start()); }
  static void add_columns(void* states, const void* row, size_t width) {
    State* const s = static_cast<State*>(states);
    const T* const x = static_cast<const T*>(row);
    for (size_t k = 0; k < width; ++k) s[k] = Reduction::add(s[k], x[k]);
  }
  static void add_row(void* states, const void* row, size_t length) {
    State s[lanes];
    std::copy_n(static_cast<State*>(states), lanes, s);
    const T* x = static_cast<const T*>(row);
    for (; length >= lanes; length -= lanes, x += lanes) {
      for (size_t k = 0; k < lanes; ++k) s[k] = Reduction::add(s[k], x[k]);
    }
    for (size_t k = 0; k < length; ++k) s[k] = Reduction::add(s[k], x[k]);
    std::copy_n(s, lanes, static_cast<State*>(states));
  }
  static void finish_columns(void* states, size_t width, size_t n, void* y) {
    State* const s = static_cast<State*>(states);
    for (size_t k = 0; k < width; ++k) static_cast<T*>(y)[k] = Reduction::finish(s[k], n);
  }
  static void finish_row(void* states, size_t n, void* y) {
    State* const s = static_cast<State*>(states);
    for (size_t k = 1; k < lanes; ++k) s[0] = Reduction::join(s[0], s[k]);
    finish_columns(states, 1, n, y);
  }
  static constexpr Reducer table = {sizeof(T), start, add_row, add_columns, finish_row, finish_columns};
};

void reduce_rows(const Reducer& r, const char* x, const Parts& parts, char* y) {
  const Shape outer = without_last(parts.reduced), outer_strides = without_last(parts.reduced_strides);
  const size_t length = parts.reduced.back(), n = count(parts.reduced);
  Pace pace;
  walk(parts.kept, {parts.kept_strides}, [&](size_t i, const size_t(&first)[1]) {
    alignas(64) char states[lanes * 8];
    r.start(states, lanes);
    if (n != 0) {  // otherwise there may be any number of rows without elements
      walk(outer, {outer_strides}, [&](size_t, const size_t(&at)[1]) {
        pace.did(length);
        r.add_row(states, x + (first[0] + at[0]) * r.element_size, length);
      });
    }
    r.finish_row(states, n, y + i * r.element_size);
  });
}

void reduce_columns(const Reducer& r, const char* x, const Parts& parts, char* y) {
  const bool one = parts.kept.empty();
  const size_t columns = one ? 1 : parts.kept.back(), n = count(parts.reduced);
  const Shape outer = one ? Shape() : without_last(parts.kept);
  const Shape outer_strides = one ? Shape() : without_last(parts.kept_strides);
  Pace pace;
  walk(outer, {outer_strides}, [&](size_t i, const size_t(&first)[1]) {
    for (size_t begin = 0; begin < columns; begin += most_columns) {
      const size_t width = std::min(most_columns, columns - begin);
      alignas(64) char states[most_columns * 8];
      r.start(states, width);
      walk(parts.reduced, {parts.reduced_strides}, [&](size_t, const size_t(&at)[1]) {
        pace.did(width);
        r.add_columns(states, x + (first[0] + at[0] + begin) * r.element_size, width);
      });
      r.finish_columns(states, width, n, y + (i * columns + begin) * r.element_size);
    }
  });
}

// For each dimension of input 0, whether it is reduced. The axes are the second input or a parameter; without any, all
// dimensions are reduced, or none.
Shape reduced_dimensions(const Node& node) {
  const std::span<const int64_t> list = node.integers("axes");
  std::vector<int64_t> axes(list.begin(), list.end());
  if (node.has(1)) axes = node.values(1);
  const bool all = axes.empty() && node.integer("none_without_axes", 0) == 0;
  Shape is_reduced(node.rank(0), all ? 1 : 0);
  for (const int64_t axis : axes) {
    size_t& reduces = is_reduced[node.axis(axis, node.rank(0))];
    if (reduces != 0) node.fail("an axis is given twice");
    reduces = 1;
  }
  return is_reduced;
}

void infer_reduced(Inference& node) {
  const Shape is_reduced = reduced_dimensions(node), shape = node.shape(0);
  const bool keeps = node.integer("keep_dimensions", 1) != 0;
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (is_reduced[d] == 0) out.push_back(shape[d]);
    if (is_reduced[d] != 0 && keeps) out.push_back(1);
  }
  node.set(0, node.type(0), out);
}

template <template <class> class Reduction, class T>
void reduce_as(const Run& node) {
  const Parts parts(node.shape(0), reduced_dimensions(node));
  const Reducer& reducer = ReducerOf<Reduction<T>, T>::table;
  (parts.ends_reduced ? reduce_rows : reduce_columns)(reducer, node.data<char>(0), parts, node.output<char>(0));
}

void infer_number(Inference& node) {
  if (node.type(0) != QN_F32 && node.type(0) != QN_S32) node.expect(0, QN_S64);
  infer_reduced(node);
}
template <template <class> class Reduction>
constexpr qn_kind of_numbers(const char* name) {
  return kind<infer_number, [](const Run& node) {
    if (node.type(0) == QN_F32) return reduce_as<Reduction, float>(node);
    node.type(0) == QN_S32 ? reduce_as<Reduction, int32_t>(node) : reduce_as<Reduction, int64_t>(node);
  }>(name, {1, 2}, 1, 0, 1 << 1);
}
template <template <class> class Reduction>
constexpr qn_kind of_all_types(const char* name) {
  return kind<infer_reduced, [](const Run& node) {
    with_type(node.type(0), [&](auto tag) { reduce_as<Reduction, typename decltype(tag)::type>(node); });
  }>(name, {1, 2}, 1, 0, 1 << 1);
}

// ---- places of extremes

void infer_place(Inference& node) {
  expect_numbers(node, 0);
  Shape shape = node.shape(0);
  const size_t axis = node.axis(node.integer("axis", 0), shape.size());
  const size_t size = shape[axis];
  shape[axis] = 1;
  if (size == 0 && count(shape) != 0) node.fail("expected 1 element or more along the axis, got 0");
  if (node.integer("keep_dimensions", 1) == 0) shape.erase(axis);
  node.set(0, QN_S64, shape);
}

// Whether `x` takes the place of `best`: it is better, or as good and later elements win. A NaN is the best of all.
template <class T>
bool wins(T x, T best, bool largest, bool last) {
  if (best != best) return x != x && last;
  return x != x || (largest ? x > best : x < best) || (last && x == best);
}

template <bool largest>
void place(const Run& node) {
  const size_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  const bool last = node.integer("last", 0) != 0;
  const Lanes a(node.shape(0), axis);
  with_number(node.type(0), [&](auto tag) {
    const auto* const x = node.data<typename decltype(tag)::type>(0);
    int64_t* const y = node.output<int64_t>(0);
    Pace pace;
    for (size_t o = 0; o < a.outer; ++o) {
      for (size_t k = 0; k < a.inner; ++k) {
        pace.did(a.size);
        const auto* const line = x + o * a.size * a.inner + k;
        size_t best = 0;
        for (size_t i = 1; i < a.size; ++i) {
          if (wins(line[i * a.inner], line[best * a.inner], largest, last)) best = i;
        }
        y[o * a.inner + k] = static_cast<int64_t>(best);
      }
    }
  });
}

// ---- determinants

void infer_det(Inference& node) {
  node.expect(0, QN_F32);
  Shape shape = node.shape(0);
  const size_t rank = shape.size();
  if (rank < 2 || shape[rank - 1] != shape[rank - 2]) node.fail("the input does not hold square matrices");
  shape.resize(rank - 2);
  node.set(0, QN_F32, shape);
}

// Eliminates all below the diagonal, with the largest pivots.
double determinant(std::vector<double>& m, size_t n) {
  double result = 1;
  Pace pace;
  for (size_t d = 0; d < n; ++d) {
    size_t pivot = d;
    for (size_t row = d + 1; row < n; ++row) {
      if (std::fabs(m[row * n + d]) > std::fabs(m[pivot * n + d])) pivot = row;
    }
    if (pivot != d) {
      std::swap_ranges(&m[d * n], &m[d * n] + n, &m[pivot * n]);
      result = -result;
    }
    const double diagonal = m[d * n + d];
    result *= diagonal;
    if (diagonal == 0) return 0;
    for (size_t row = d + 1; row < n; ++row) {
      pace.did(n - d);
      const double factor = m[row * n + d] / diagonal;
      for (size_t k = d; k < n; ++k) m[row * n + k] -= factor * m[d * n + k];
    }
  }
  return result;
}

void det(const Run& node) {
  const size_t matrices = count(node.output_shape(0)), n = node.shape(0).back();
  std::vector<double> m;
  for (size_t i = 0; i < matrices; ++i) {
    const float* const from = node.data<float>(0) + i * n * n;
    m.assign(from, from + n * n);
    node.output<float>(0)[i] = static_cast<float>(determinant(m, n));
  }
}

constexpr qn_kind kinds[] = {
    of_numbers<AbsoluteSum>("reduce_l1"),
    of_numbers<Norm>("reduce_l2"),
    of_numbers<LogSum>("reduce_log_sum"),
    of_numbers<LogSumExp>("reduce_log_sum_exp"),
    of_all_types<Largest>("reduce_max"),
    of_numbers<Mean>("reduce_mean"),
    of_all_types<Smallest>("reduce_min"),
    of_numbers<Product>("reduce_prod"),
    of_numbers<Sum>("reduce_sum"),
    of_numbers<SquareSum>("reduce_sum_square"),
    kind<infer_place, place<true>>("arg_max", {1, 1}, 1),
    kind<infer_place, place<false>>("arg_min", {1, 1}, 1),
    kind<infer_det, det>("det", {1, 1}, 1),
};

}  // namespace
}  // namespace reductions

Kinds reduce_kinds() { return needed<reductions::kinds>(); }

}  // namespace quern::extra

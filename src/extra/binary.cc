// Functions of two or more numbers, for the elements of tensors that are broadcast to one shape by NumPy's rules.
#include <algorithm>
#include <cmath>

#include "extra/copy.h"
#include "extra/numbers.h"

namespace quern::extra {
namespace binary_functions {
namespace {

// Computes the elements of a row. Steps are 0 or 1.
using RowFunction = void (*)(const void* a, size_t step_a, const void* b, size_t step_b, void* y, size_t n);

// Loops of floats are those that a compiler makes vectors of.
template <class A, class B, class Y, auto function>
void combine_row(const void* first, size_t step_a, const void* second, size_t step_b, void* result, size_t n) {
  const A* const a = static_cast<const A*>(first);
  const B* const b = static_cast<const B*>(second);
  Y* const y = static_cast<Y*>(result);
  if constexpr (std::is_same_v<A, float>) {
    if (step_a == 1 && step_b == 1) {
      for (size_t i = 0; i < n; ++i) y[i] = function(a[i], b[i]);
      return;
    }
    if (step_a == 1) {
      for (size_t i = 0; i < n; ++i) y[i] = function(a[i], *b);
      return;
    }
  }
  for (size_t i = 0; i < n; ++i) y[i] = function(a[i * step_a], b[i * step_b]);
}

// A tensor as bytes.
struct Operand {
  const char* data;
  size_t element_size;
  Shape shape;
};
Operand operand(const Node& node, size_t input) {
  return {node.data<char>(input), qn_type_size(node.type(input)), node.shape(input)};
}

// Walks through both operands, of which each repeats where it is smaller than `shape`.
void combine(const Shape& shape, const Operand& a, const Operand& b, char* y, size_t element_size,
             RowFunction function) {
  const Rows<2> rows(shape, {broadcast_strides(a.shape, shape), broadcast_strides(b.shape, shape)});
  rows.walk([&](const size_t(&at)[2]) {
    function(a.data + at[0] * a.element_size, rows.steps[0], b.data + at[1] * b.element_size, rows.steps[1], y,
             rows.length);
    y += rows.length * element_size;
  });
}
// Combines the two inputs of a node.
void combine(const Run& node, RowFunction function) {
  combine(node.output_shape(0), operand(node, 0), operand(node, 1), node.output<char>(0),
          qn_type_size(node.output_type(0)), function);
}

void infer_pair(Inference& node, qn_type type) {
  node.expect(1, node.type(0));
  node.set(0, type, node.broadcast(node.shape(0), node.shape(1)));
}

// ---- arithmetic

void infer_arithmetic(Inference& node) {
  expect_numbers(node, 0);
  infer_pair(node, node.type(0));
}

// Runs a kind for two tensors of numbers of one type, which is also that of the result.
template <auto function>
void arithmetic(const Run& node) {
  with_number(node.type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    combine(node, combine_row<T, T, T, function>);
  });
}

constexpr auto add = []<class T>(T a, T b) { return wrapped(a, b, [](auto x, auto y) { return x + y; }); };
constexpr auto sub = []<class T>(T a, T b) { return wrapped(a, b, [](auto x, auto y) { return x - y; }); };
constexpr auto mul = []<class T>(T a, T b) { return wrapped(a, b, [](auto x, auto y) { return x * y; }); };
constexpr auto divide = []<class T>(T a, T b) { return quotient(a, b); };
constexpr auto prelu = []<class T>(T x, T slope) -> T { return x < 0 ? mul(x, slope) : x; };

void infer_prelu(Inference& node) {
  infer_arithmetic(node);
  if (node.broadcast(node.shape(0), node.shape(1)) != node.shape(0)) node.fail("the slope has a larger shape than x");
}

// What is left of a division. It has the sign of b, or (if the quotient is truncated) that of a. 0 for b = 0.
constexpr auto truncated_remainder = []<class T>(T a, T b) -> T {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  if constexpr (!std::is_floating_point_v<T>) {
    return b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)) ? T{0} : static_cast<T>(a % b);
  }
};
constexpr auto floored_remainder = []<class T>(T a, T b) -> T {
  const T rest = truncated_remainder(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
};

void infer_mod(Inference& node) {
  infer_arithmetic(node);
  if (node.type(0) == QN_F32 && node.integer("truncates", 0) == 0) node.fail("the sign of b needs integers");
}
void mod(const Run& node) {
  if (node.integer("truncates", 0) != 0) return arithmetic<truncated_remainder>(node);
  arithmetic<floored_remainder>(node);
}

// ---- powers: the exponent may have another type

// Integers wrap around. Of integers with negative exponents only 1 and -1 have powers that are not 0.
template <class T>
T integer_power(T base, int64_t exponent) {
  if (exponent < 0) {
    if (base != 1 && base != static_cast<T>(-1)) return 0;
    exponent = exponent % 2 != 0 ? 1 : 0;
  }
  uint64_t result = 1;
  auto square = static_cast<uint64_t>(base);
  for (; exponent != 0; exponent >>= 1, square *= square) {
    if ((exponent & 1) != 0) result *= square;
  }
  return static_cast<T>(result);
}

template <class T, class Exponent>
T power(T base, Exponent exponent) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<Exponent>) {
    return integer_power(base, static_cast<int64_t>(exponent));
  } else if constexpr (std::is_same_v<T, Exponent>) {
    return std::pow(base, exponent);
  } else {
    return number<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
}

void infer_pow(Inference& node) {
  if (node.type(0) != QN_F32 && node.type(0) != QN_S32) node.expect(0, QN_S64);
  expect_numbers(node, 1);
  node.set(0, node.type(0), node.broadcast(node.shape(0), node.shape(1)));
}
template <class T>
void powers(const Run& node) {
  with_number(node.type(1), [&](auto tag) {
    using Exponent = typename decltype(tag)::type;
    combine(node, combine_row<T, Exponent, T, power<T, Exponent>>);
  });
}
void pow(const Run& node) {
  if (node.type(0) == QN_F32) return powers<float>(node);
  node.type(0) == QN_S32 ? powers<int32_t>(node) : powers<int64_t>(node);
}

// ---- bits, comparisons

void infer_bits(Inference& node) {
  if (node.type(0) == QN_F32) node.fail("input 0 is f32");
  infer_pair(node, node.type(0));
}
template <auto function>
constexpr qn_kind bitwise(const char* name) {
  return kind<infer_bits, [](const Run& node) {
    with_size(element_size(node), [&](auto tag) {
      using T = typename decltype(tag)::type;
      combine(node, combine_row<T, T, T, [](T a, T b) { return static_cast<T>(function(a, b)); }>);
    });
  }>(name, {2, 2}, 1, QN_KIND_ELEMENTWISE);
}

void infer_shift(Inference& node) {
  node.expect(0, QN_U8);
  infer_pair(node, QN_U8);
}
uint8_t shifted_left(uint8_t a, uint8_t b) { return static_cast<uint8_t>(b > 7 ? 0 : a << b); }
uint8_t shifted_right(uint8_t a, uint8_t b) { return static_cast<uint8_t>(b > 7 ? 0 : a >> b); }
void bit_shift(const Run& node) {
  combine(node, node.integer("left", 0) != 0 ? combine_row<uint8_t, uint8_t, uint8_t, shifted_left>
                                             : combine_row<uint8_t, uint8_t, uint8_t, shifted_right>);
}

void infer_comparison(Inference& node) { infer_pair(node, QN_BOOL); }
template <auto function>
constexpr qn_kind comparison(const char* name) {
  return kind<infer_comparison, [](const Run& node) {
    with_number(node.type(0) == QN_BOOL ? QN_U8 : node.type(0), [&](auto tag) {
      using T = typename decltype(tag)::type;
      combine(node, combine_row<T, T, bool, function>);
    });
  }>(name, {2, 2}, 1, QN_KIND_ELEMENTWISE);
}

// ---- a choice

void infer_where(Inference& node) {
  node.expect(0, QN_BOOL);
  node.expect(2, node.type(1));
  node.set(0, node.type(1), node.broadcast(node.shape(0), node.broadcast(node.shape(1), node.shape(2))));
}
void where(const Run& node) {
  const Shape shape = node.output_shape(0);
  const Rows<3> rows(shape, {broadcast_strides(node.shape(0), shape), broadcast_strides(node.shape(1), shape),
                             broadcast_strides(node.shape(2), shape)});
  with_size(qn_type_size(node.type(1)), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = node.output<T>(0);
    rows.walk([&](const size_t(&at)[3]) {
      const uint8_t* const chooses = node.data<uint8_t>(0) + at[0];
      const T *const a = node.data<T>(1) + at[1], *const b = node.data<T>(2) + at[2];
      for (size_t i = 0; i < rows.length; ++i) {
        y[i] = chooses[i * rows.steps[0]] != 0 ? a[i * rows.steps[1]] : b[i * rows.steps[2]];
      }
      y += rows.length;
    });
  });
}

// Bounds are absent, or one number each.
void infer_clip(Inference& node) {
  expect_numbers(node, 0);
  for (size_t i = 1; i <= 2; ++i) {
    if (!node.has(i)) continue;
    node.expect(i, node.type(0));
    if (count(node.shape(i)) != 1) node.fail("input " + std::to_string(i) + " is not one number");
  }
  node.set(0, node.type(0), node.shape(0));
}
// If the bounds are the wrong way round, the upper one wins.
void clip(const Run& node) {
  with_number(node.type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Limits = std::numeric_limits<T>;
    const T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    const T most = Limits::has_infinity ? Limits::infinity() : Limits::max();
    const T low = node.has(1) ? *node.data<T>(1) : least, high = node.has(2) ? *node.data<T>(2) : most;
    const T* const x = node.data<T>(0);
    T* const y = node.output<T>(0);
    const size_t n = count(node.shape(0));
    for (size_t i = 0; i < n; ++i) {
      const T raised = x[i] < low ? low : x[i];  // a NaN stays
      y[i] = raised > high ? high : raised;
    }
  });
}

// ---- any number of tensors

void infer_all(Inference& node) {
  expect_numbers(node, 0);
  Shape shape = node.shape(0);
  for (size_t i = 1; i < node.input_count(); ++i) {
    node.expect(i, node.type(0));
    shape = node.broadcast(shape, node.shape(i));
  }
  node.set(0, node.type(0), shape);
}

// Combines the first two inputs, then the result with each further one.
void combine_all(const Run& node, RowFunction function) {
  const Shape shape = node.output_shape(0);
  const size_t bytes = qn_type_size(node.output_type(0));
  char* const y = node.output<char>(0);
  if (node.input_count() == 1) std::copy_n(node.data<char>(0), count(shape) * bytes, y);
  for (size_t i = 1; i < node.input_count(); ++i) {
    const Operand so_far = i == 1 ? operand(node, 0) : Operand{y, bytes, shape};
    combine(shape, so_far, operand(node, i), y, bytes, function);
  }
}
template <auto function>
void all(const Run& node) {
  with_number(node.type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    combine_all(node, combine_row<T, T, T, function>);
  });
}

// A NaN wins.
constexpr auto larger = []<class T>(T a, T b) { return b > a || b != b ? b : a; };
constexpr auto smaller = []<class T>(T a, T b) { return b < a || b != b ? b : a; };

void infer_mean(Inference& node) {
  node.expect(0, QN_F32);
  infer_all(node);
}
void mean(const Run& node) {
  combine_all(node, combine_row<float, float, float, add>);
  float* const y = node.output<float>(0);
  const size_t n = count(node.output_shape(0));
  const auto inputs = static_cast<float>(node.input_count());
  for (size_t i = 0; i < n; ++i) y[i] /= inputs;
}

constexpr qn_kind kinds[] = {
    kind<infer_arithmetic, arithmetic<add>>("any_add", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_arithmetic, arithmetic<sub>>("any_sub", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_arithmetic, arithmetic<mul>>("any_mul", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_arithmetic, arithmetic<divide>>("any_div", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_mod, mod>("mod", {2, 2}, 1, QN_KIND_ELEMENTWISE | QN_KIND_JUMPS),
    kind<infer_pow, pow>("pow", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_prelu, arithmetic<prelu>>("any_prelu", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    bitwise<[](auto a, auto b) { return a & b; }>("bitwise_and"),
    bitwise<[](auto a, auto b) { return a | b; }>("bitwise_or"),
    bitwise<[](auto a, auto b) { return a ^ b; }>("bitwise_xor"),
    kind<infer_shift, bit_shift>("bit_shift", {2, 2}, 1, QN_KIND_ELEMENTWISE),
    comparison<([](auto a, auto b) { return a == b; })>("equal"),
    comparison<([](auto a, auto b) { return a > b; })>("greater"),
    comparison<([](auto a, auto b) { return a >= b; })>("greater_or_equal"),
    comparison<([](auto a, auto b) { return a < b; })>("less"),
    comparison<([](auto a, auto b) { return a <= b; })>("less_or_equal"),
    kind<infer_where, where>("where", {3, 3}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_clip, clip>("clip", {1, 3}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_all, all<larger>>("max", {1, 255}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_all, all<smaller>>("min", {1, 255}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_all, all<add>>("sum", {1, 255}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_mean, mean>("mean", {1, 255}, 1, QN_KIND_ELEMENTWISE),
};

}  // namespace
}  // namespace binary_functions

Kinds binary_kinds() { return needed<binary_functions::kinds>(); }

}  // namespace quern::extra

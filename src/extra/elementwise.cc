// Functions of one number, for each element of a tensor.
#include <algorithm>
#include <cmath>

#include "extra/map.h"
#include "extra/numbers.h"

namespace quern::extra {
namespace elementwise_functions {
namespace {

constexpr uint32_t each_element = QN_KIND_IN_PLACE | QN_KIND_ELEMENTWISE, with_steps = each_element | QN_KIND_JUMPS;

void infer_same(Inference& node) { node.set(0, node.type(0), node.shape(0)); }
void infer_number(Inference& node) {
  expect_numbers(node, 0);
  infer_same(node);
}
void infer_float(Inference& node) {
  node.expect(0, QN_F32);
  infer_same(node);
}

// ---- floats

// A kind that applies a function to each element of a tensor of floats.
template <auto function>
constexpr qn_kind of_floats(const char* name, uint32_t flags = each_element) {
  return kind<infer_float, [](const Run& node) { map<float>(node, function); }>(name, {1, 1}, 1, flags);
}
// The same with a function that reads its parameters: `function(node)` returns the function of a number.
template <auto function>
constexpr qn_kind with_parameters(const char* name, uint32_t flags = each_element) {
  return kind<infer_float, [](const Run& node) { map<float>(node, function(node)); }>(name, {1, 1}, 1, flags);
}

// A NaN stays.
float within_0_1(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

constexpr auto leaky_relu = [](const Run& node) {
  return [alpha = node.number("alpha", 0.01f)](float x) { return x < 0 ? alpha * x : x; };
};
constexpr auto thresholded_relu = [](const Run& node) {
  return [alpha = node.number("alpha", 1)](float x) { return x > alpha ? x : 0; };  // of NaN: 0
};
constexpr auto hard_sigmoid = [](const Run& node) {
  const float alpha = node.number("alpha", 0.2f), beta = node.number("beta", 0.5f);
  return [=](float x) { return within_0_1(alpha * x + beta); };
};
// ---- floats, by a function of libquern

template <qn_unary_kind function, auto before, auto after>
constexpr qn_kind around(const char* name) {
  // Lambdas, unlike addresses of functions, are compiled into the loops.
  return with_function<function>(kind<infer_float, [](const Run& node) {
    map_around(
        node, [](float x) { return before(x); }, [](float x, float y) { return after(x, y); });
  }>(name, {1, 1}, 1, each_element));
}
template <qn_unary_kind function>
constexpr qn_kind of_library(const char* name) {
  return around<function, [](float x) { return x; }, [](float, float y) { return y; }>(name);
}

// e^x - 1 for t = tanh(x / 2), x <= 0: it keeps its digits near 0.
float expm1_of(float t) { return 2 * t / (1 - t); }
float half_if_negative(float x) { return choose(x < 0, 0.5f * x, x); }  // a NaN stays

// gamma * x above 0, and scale * (e^(x / alpha) - 1) below.
void run_exponential(const Run& node, float alpha, float scale, float gamma) {
  const auto below = [=](float x, float t) { return choose(x < 0, scale * expm1_of(t), gamma * x); };
  map_around(
      node, [=](float x) { return half_if_negative(x / alpha); }, below);
}
void elu(const Run& node) { run_exponential(node, 1, node.number("alpha", 1), 1); }
void celu(const Run& node) { run_exponential(node, node.number("alpha", 1), node.number("alpha", 1), 1); }
void selu(const Run& node) {
  const float gamma = node.number("gamma", 1.05070102f);
  run_exponential(node, 1, gamma * node.number("alpha", 1.67326319f), gamma);
}

void swish(const Run& node) {
  const float alpha = node.number("alpha", 1);
  map_around(
      node, [=](float x) { return alpha * x; }, [](float x, float y) { return x * y; });
}

// log(1 + e) for 0 <= e <= 1: 2 * atanh(s) for s = e / (2 + e), with a relative error of 4e-9 before it is rounded. The
// polynomial of s^2 has been found like that of erfc_of().
float log1p_of(float e) {
  const float s = e / (2 + e), square = s * s;
  float p = 0.2817832f;
  p = p * square + 0.27960607f;
  p = p * square + 0.4002491f;
  p = p * square + 0.66666317f;
  p = p * square + 2;
  return s * p;
}
float minus_absolute(float x) { return -std::fabs(x); }
float softplus(float x, float e) { return choose(x < 0, 0, x) + log1p_of(e); }

// tanh(log(1 + e)) for e = e^x. From 20 on it is 1.
float limited(float x) { return x > 20 ? 20 : x; }
float mish(float x, float e) {
  const float square = e * (e + 2);
  return x * (square / (square + 2));
}

// 1 + tanh(u) is 2 / (1 + e^(-2u)), which keeps its digits where tanh(u) is near -1.
float twice_gelu_tanh_argument(float x) { return 1.59576912f * (x + 0.044715f * (x * x * x)); }

// erfc(z) for z >= 0: e^(-z^2), which is given, times a polynomial of t = 1 / (1 + 0.3 z). Its coefficients minimize the
// largest relative error for z <= 9.3, from where on erfc(z) is no float: it is 2e-8.
float erfc_of(float z, float e) {
  const float t = 1 / (1 + 0.3f * z);
  float p = -0.12937523f;
  p = p * t + 0.4847868f;
  p = p * t - 0.5105278f;
  p = p * t + 0.54551333f;
  p = p * t - 0.09295154f;
  p = p * t + 0.21410899f;
  p = p * t + 0.1485784f;
  p = p * t + 0.17067628f;
  p = p * t + 0.1691907f;
  return e * (p * t);
}

float minus_square(float x) { return -(x * x); }
// Below 1, where 1 - erfc(z) would lose digits, a polynomial with a relative error of 4e-8, found in the same way.
float erf(float x, float e) {
  const float z = std::fabs(x), square = x * x;
  float p = -0.00056314224f;
  p = p * square + 0.0049175518f;
  p = p * square - 0.026711311f;
  p = p * square + 0.1128018f;
  p = p * square - 0.37612325f;
  p = p * square + 1.1283791f;
  const float near = z * p, far = 1 - erfc_of(z, e);
  return std::copysign(choose(z < 1, near, far), x);
}

float minus_half_square(float x) { return -0.5f * (x * x); }
float gelu(float x, float e) {
  const float tail = 0.5f * erfc_of(0.707106781f * std::fabs(x), e);
  return x * choose(x < 0, tail, 1 - tail);
}

// ---- numbers of all types

template <auto function>
constexpr qn_kind of_numbers(const char* name, uint32_t flags = each_element) {
  return kind<infer_number, [](const Run& node) {
    with_number(node.type(0), [&](auto tag) { map<typename decltype(tag)::type>(node, function); });
  }>(name, {1, 1}, 1, flags);
}

// The least integer has no positive counterpart, and stays.
template <class T>
T negated(T x) {
  if constexpr (std::is_floating_point_v<T>) return -x;
  return static_cast<T>(0 - static_cast<uint64_t>(x));
}
constexpr auto negative = []<class T>(T x) { return negated(x); };
constexpr auto absolute = []<class T>(T x) -> T {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  return x < 0 ? negated(x) : x;
};
constexpr auto sign = []<class T>(T x) -> T { return x > 0 ? T{1} : x < 0 ? static_cast<T>(-1) : x; };
constexpr auto relu = []<class T>(T x) -> T { return x < 0 ? T{0} : x; };

void shrink(const Run& node) {
  const float bias = node.number("bias", 0), lambda = node.number("lambd", 0.5f);
  with_number(node.type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map<T>(node, [=](T x) {
      const auto real = static_cast<double>(x);
      if (real < -lambda) return number<T>(real + bias);
      return real > lambda ? number<T>(real - bias) : T{0};
    });
  });
}

// ---- bits and booleans

void infer_integer(Inference& node) {
  if (node.type(0) == QN_F32) node.fail("input 0 is f32");
  infer_number(node);
}
void bitwise_not(const Run& node) {
  with_number(node.type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) map<T>(node, [](T x) { return static_cast<T>(~x); });
  });
}

void infer_not(Inference& node) {
  node.expect(0, QN_BOOL);
  infer_same(node);
}
void logical_not(const Run& node) {
  map<uint8_t>(node, [](uint8_t x) { return static_cast<uint8_t>(x == 0); });
}

void infer_test(Inference& node) {
  node.expect(0, QN_F32);
  node.set(0, QN_BOOL, node.shape(0));
}
void is_nan(const Run& node) {
  map<float, bool>(node, [](float x) { return std::isnan(x); });
}
void is_inf(const Run& node) {
  const bool above = node.integer("positive", 1) != 0, below = node.integer("negative", 1) != 0;
  map<float, bool>(node, [=](float x) { return std::isinf(x) && (x > 0 ? above : below); });
}

// The mask of a dropout that keeps all elements.
void infer_mask(Inference& node) { node.set(0, QN_BOOL, node.shape(0)); }
void all_true(const Run& node) { std::fill_n(node.output<bool>(0), count(node.shape(0)), true); }

constexpr qn_kind kinds[] = {
    of_floats<[](float x) { return std::acos(x); }>("acos"),
    of_floats<[](float x) { return std::acosh(x); }>("acosh"),
    of_floats<[](float x) { return std::asin(x); }>("asin"),
    of_floats<[](float x) { return std::asinh(x); }>("asinh"),
    of_floats<[](float x) { return std::atan(x); }>("atan"),
    of_floats<[](float x) { return std::atanh(x); }>("atanh"),
    of_floats<[](float x) { return std::ceil(x); }>("ceil", with_steps),
    of_floats<[](float x) { return std::cos(x); }>("cos"),
    of_floats<[](float x) { return std::cosh(x); }>("cosh"),
    of_floats<[](float x) { return std::floor(x); }>("floor", with_steps),
    of_floats<[](float x) { return x * within_0_1(x / 6 + 0.5f); }>("any_hard_swish"),
    of_floats<[](float x) { return std::log(x); }>("log"),
    of_floats<[](float x) { return 1 / x; }>("reciprocal"),
    of_floats<[](float x) { return std::nearbyint(x); }>("round", with_steps),
    of_floats<[](float x) { return std::sin(x); }>("sin"),
    of_floats<[](float x) { return std::sinh(x); }>("sinh"),
    of_floats<[](float x) { return x / (1 + std::fabs(x)); }>("softsign"),
    of_floats<[](float x) { return std::sqrt(x); }>("sqrt"),
    of_floats<[](float x) { return std::tan(x); }>("tan"),

    of_library<QN_EXP>("any_exp"),
    of_library<QN_SIGMOID>("any_sigmoid"),
    of_library<QN_TANH>("any_tanh"),
    around<QN_EXP, minus_square, erf>("erf"),
    around<QN_EXP, minus_half_square, gelu>("gelu"),
    around<QN_SIGMOID, twice_gelu_tanh_argument, [](float x, float y) { return x * y; }>("gelu_tanh"),
    around<QN_EXP, limited, mish>("mish"),
    around<QN_EXP, minus_absolute, softplus>("softplus"),
    with_function<QN_TANH>(kind<infer_float, celu>("celu", {1, 1}, 1, each_element)),
    with_function<QN_TANH>(kind<infer_float, elu>("elu", {1, 1}, 1, each_element)),
    with_function<QN_TANH>(kind<infer_float, selu>("selu", {1, 1}, 1, each_element)),
    with_function<QN_SIGMOID>(kind<infer_float, swish>("swish", {1, 1}, 1, each_element)),

    with_parameters<hard_sigmoid>("hard_sigmoid"),
    with_parameters<leaky_relu>("leaky_relu"),
    with_parameters<thresholded_relu>("thresholded_relu", with_steps),

    of_numbers<absolute>("abs"),
    of_numbers<negative>("neg"),
    of_numbers<relu>("relu"),
    kind<infer_number, shrink>("shrink", {1, 1}, 1, with_steps),
    of_numbers<sign>("sign", with_steps),

    kind<infer_integer, bitwise_not>("bitwise_not", {1, 1}, 1, each_element),
    kind<infer_not, logical_not>("not", {1, 1}, 1, each_element),
    kind<infer_test, is_nan>("is_nan", {1, 1}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_test, is_inf>("is_inf", {1, 1}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_mask, all_true>("all_true", {1, 1}, 1),
};

}  // namespace
}  // namespace elementwise_functions

Kinds elementwise_kinds() { return needed<elementwise_functions::kinds>(); }

}  // namespace quern::extra

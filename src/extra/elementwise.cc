// Functions of one number, for each element of a tensor.
#include <algorithm>
#include <cmath>

#include "extra/numbers.h"

namespace quern::extra {
namespace elementwise_functions {
namespace {

void infer_same(Inference& node) { node.set(0, node.type(0), node.shape(0)); }
void infer_number(Inference& node) {
  expect_numbers(node, 0);
  infer_same(node);
}
void infer_float(Inference& node) {
  node.expect(0, QN_F32);
  infer_same(node);
}

template <class X, class Y = X, class Function>
void map(const Run& node, const Function& function) {
  const X* const x = node.data<X>(0);
  Y* const y = node.output<Y>(0);
  const size_t n = count(node.shape(0));
  for (size_t i = 0; i < n; ++i) y[i] = function(x[i]);
}

// ---- floats

// A kind that applies a function to each element of a tensor of floats.
template <auto function>
constexpr qn_kind of_floats(const char* name) {
  return kind<infer_float, [](const Run& node) { map<float>(node, function); }>(name, {1, 1}, 1, QN_KIND_IN_PLACE);
}
// The same with a function that reads its parameters: `function(node)` returns the function of a number.
template <auto function>
constexpr qn_kind with_parameters(const char* name) {
  return kind<infer_float, [](const Run& node) { map<float>(node, function(node)); }>(name, {1, 1}, 1,
                                                                                      QN_KIND_IN_PLACE);
}

// A NaN stays.
float within_0_1(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

// Neither form overflows.
float logistic(float x) {
  const float e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
float softplus(float x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); }

constexpr auto leaky_relu = [](const Run& node) {
  return [alpha = node.number("alpha", 0.01f)](float x) { return x < 0 ? alpha * x : x; };
};
constexpr auto elu = [](const Run& node) {
  return [alpha = node.number("alpha", 1)](float x) { return x < 0 ? alpha * std::expm1(x) : x; };
};
constexpr auto selu = [](const Run& node) {
  const float alpha = node.number("alpha", 1.67326319f), gamma = node.number("gamma", 1.05070102f);
  return [=](float x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); };
};
constexpr auto celu = [](const Run& node) {
  return [alpha = node.number("alpha", 1)](float x) { return x < 0 ? alpha * std::expm1(x / alpha) : x; };
};
constexpr auto thresholded_relu = [](const Run& node) {
  return [alpha = node.number("alpha", 1)](float x) { return x <= alpha ? 0 : x; };
};
constexpr auto hard_sigmoid = [](const Run& node) {
  const float alpha = node.number("alpha", 0.2f), beta = node.number("beta", 0.5f);
  return [=](float x) { return within_0_1(alpha * x + beta); };
};
constexpr auto swish = [](const Run& node) {
  return [alpha = node.number("alpha", 1)](float x) { return x * logistic(alpha * x); };
};

float gelu(float x) { return 0.5f * x * std::erfc(x * -0.707106781f); }
float gelu_tanh(float x) { return 0.5f * x * (1 + std::tanh(0.797884561f * (x + 0.044715f * x * x * x))); }

// ---- numbers of all types

template <auto function>
constexpr qn_kind of_numbers(const char* name) {
  return kind<infer_number, [](const Run& node) {
    with_number(node.type(0), [&](auto tag) { map<typename decltype(tag)::type>(node, function); });
  }>(name, {1, 1}, 1, QN_KIND_IN_PLACE);
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
    of_floats<[](float x) { return std::ceil(x); }>("ceil"),
    of_floats<[](float x) { return std::cos(x); }>("cos"),
    of_floats<[](float x) { return std::cosh(x); }>("cosh"),
    of_floats<[](float x) { return std::erf(x); }>("erf"),
    of_floats<[](float x) { return std::exp(x); }>("any_exp"),
    of_floats<[](float x) { return std::floor(x); }>("floor"),
    of_floats<gelu>("gelu"),
    of_floats<gelu_tanh>("gelu_tanh"),
    of_floats<[](float x) { return x * within_0_1(x / 6 + 0.5f); }>("any_hard_swish"),
    of_floats<[](float x) { return std::log(x); }>("log"),
    of_floats<[](float x) { return x * std::tanh(softplus(x)); }>("mish"),
    of_floats<[](float x) { return 1 / x; }>("reciprocal"),
    of_floats<[](float x) { return std::nearbyint(x); }>("round"),
    of_floats<logistic>("any_sigmoid"),
    of_floats<[](float x) { return std::sin(x); }>("sin"),
    of_floats<[](float x) { return std::sinh(x); }>("sinh"),
    of_floats<softplus>("softplus"),
    of_floats<[](float x) { return x / (1 + std::fabs(x)); }>("softsign"),
    of_floats<[](float x) { return std::sqrt(x); }>("sqrt"),
    of_floats<[](float x) { return std::tan(x); }>("tan"),
    of_floats<[](float x) { return std::tanh(x); }>("any_tanh"),

    with_parameters<celu>("celu"),
    with_parameters<elu>("elu"),
    with_parameters<hard_sigmoid>("hard_sigmoid"),
    with_parameters<leaky_relu>("leaky_relu"),
    with_parameters<selu>("selu"),
    with_parameters<swish>("swish"),
    with_parameters<thresholded_relu>("thresholded_relu"),

    of_numbers<absolute>("abs"),
    of_numbers<negative>("neg"),
    of_numbers<relu>("relu"),
    kind<infer_number, shrink>("shrink", {1, 1}, 1, QN_KIND_IN_PLACE),
    of_numbers<sign>("sign"),

    kind<infer_integer, bitwise_not>("bitwise_not", {1, 1}, 1, QN_KIND_IN_PLACE),
    kind<infer_not, logical_not>("not", {1, 1}, 1, QN_KIND_IN_PLACE),
    kind<infer_test, is_nan>("is_nan", {1, 1}, 1),
    kind<infer_test, is_inf>("is_inf", {1, 1}, 1),
    kind<infer_mask, all_true>("all_true", {1, 1}, 1),
};

}  // namespace
}  // namespace elementwise_functions

Kinds elementwise_kinds() { return needed<elementwise_functions::kinds>(); }

}  // namespace quern::extra

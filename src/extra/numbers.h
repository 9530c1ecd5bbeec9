// Conversions and arithmetic that are defined for all numbers of all types.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "extra/node.h"

namespace quern::extra {

// with_type() for tensors that may not be bool.
template <class Visit>
decltype(auto) with_number(qn_type type, Visit&& visit) {
  switch (type) {
    case QN_S64: return visit(Tag<int64_t>());
    case QN_S32: return visit(Tag<int32_t>());
    case QN_S8: return visit(Tag<int8_t>());
    case QN_U8: return visit(Tag<uint8_t>());
    default: return visit(Tag<float>());
  }
}

inline void expect_numbers(const Node& node, size_t input) {
  if (node.type(input) == QN_BOOL) node.fail("input " + std::to_string(input) + " is bool");
}

// Converts a number. Integers that do not fit lose their upper bits. Floats lose their fraction; those beyond the range
// of an integer become its nearest, and NaN becomes 0.
template <class To, class From>
To number(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x)) return 0;
    if (static_cast<double>(x) <= static_cast<double>(Limits::min())) return Limits::min();
    if (static_cast<double>(x) >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// Computes f(a, b) with floats, or with integers that wrap around.
template <class T, class Function>
T wrapped(T a, T b, const Function& f) {
  if constexpr (std::is_floating_point_v<T>) {
    return f(a, b);
  } else {
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }
}

// Integers: division by 0 gives 0, and the least one divided by -1 stays as it is.
template <class T>
T quotient(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
  }
}

}  // namespace quern::extra

// The formulas of eltwise.h, written once for one float and for a vector of floats.
//
// Every level compiles this file with its own instructions, so everything here has internal linkage. The formulas use
// only +, -, *, / and comparisons, and no FMA, so they give the same bits on every level.
#pragma once

#include <cstdint>

namespace quern {
namespace {

// The unsigned integers that have the size of a float, or of a vector of floats.
template <class V>
struct BitsOf {
  typedef uint32_t type __attribute__((vector_size(sizeof(V))));
};
template <>
struct BitsOf<float> {
  typedef uint32_t type;
};
template <class V>
using Bits = typename BitsOf<V>::type;

template <class V>
inline Bits<V> to_bits(V x) {
  return __builtin_bit_cast(Bits<V>, x);
}
template <class V>
inline V from_bits(Bits<V> bits) {
  return __builtin_bit_cast(V, bits);
}
// Puts a scalar into every lane.
template <class V>
inline V splat(float x) {
  return x - V{};
}

// If one operand is NaN, or both are zero, `larger` and `smaller` return the second one, as x86's instructions do.
template <class V>
inline V larger(V a, V b) {
  return a > b ? a : b;
}
template <class V>
inline V smaller(V a, V b) {
  return a < b ? a : b;
}

// Keeps a NaN.
template <class V>
inline V clamp_to(V x, V min, V max) {
  return smaller(max, larger(min, x));
}

// The maximum of many values; NaN if one of them is NaN. It remembers NaNs in a variable of their own, so each value
// lengthens the chain of dependent instructions by only one.
template <class V>
struct Maximum {
  V value;  // begins as the first value, or as -infinity
  decltype(V{} != V{}) nan = value != value;

  inline void add(V x) {
    value = larger(x, value);
    nan |= x != x;
  }
  inline V get() const { return nan ? splat<V>(__builtin_nanf("")) : value; }
};

// e^x = 2^n * (1 + u) with -150 <= n <= 128 and |u| <= 0.42, for -104 <= x <= 89 (or NaN, then u is NaN).
// ln 2 = ln2_high + ln2_low, and ln2_high has 15 bits, so that n * ln2_high and x - n * ln2_high are exact.
// u = r + r^2 * q(r) with the minimax polynomial q for |r| <= ln(2) / 2: relative error of 1 + u below 3.1e-9.
template <class V>
struct ExpParts {
  Bits<V> n_plus_256;  // above 0 for every n
  V u;
};
template <class V>
inline ExpParts<V> exp_parts(V x) {
  constexpr float log2_e = 0x1.715476p+0f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  constexpr float round = 0x1.8p+23f;           // adding it rounds to an integer, which is then in the low bits
  constexpr uint32_t round_bits = 0x4b400000u;  // the bits of `round`
  const V shifted = x * log2_e + round;
  const V n = shifted - round;
  const V r = (x - n * ln2_high) - n * ln2_low;
  V q = r * 0x1.6a23dep-10f + 0x1.123a20p-7f;
  q = q * r + 0x1.5558f2p-5f;
  q = q * r + 0x1.555492p-3f;
  q = q * r + 0x1.fffffcp-2f;
  return {to_bits(shifted) - (round_bits - 256), r + r * r * q};
}

// Below -104 the result is 0, above 89 it is infinity. 2^n is multiplied in as two factors, so that a denormal result
// is rounded only once.
template <class V>
inline V exp_of(V x) {
  const auto [n_plus_256, u] = exp_parts(clamp_to(x, splat<V>(-104), splat<V>(89)));
  const Bits<V> half = n_plus_256 >> 1;  // floor(n / 2) + 128
  const V factor1 = from_bits<V>((half - 1) << 23);
  const V factor2 = from_bits<V>((n_plus_256 - half - 1) << 23);
  return (1.0f + u) * factor1 * factor2;
}

// With e = e^-|x|, which cannot overflow: 1 / (1 + e) for x >= 0, e / (1 + e) below.
template <class V>
inline V sigmoid_of(V x) {
  const V e = exp_of(from_bits<V>(to_bits(x) | 0x80000000u));
  return (x < 0 ? e : splat<V>(1)) / (1.0f + e);
}

// |tanh x| = -m / (m + 2) with m = e^(-2|x|) - 1. Computed as 2^n * u + (2^n - 1), m loses no digits to cancellation.
// From |x| = 10 on the result is 1.
template <class V>
inline V tanh_of(V x) {
  const V minus_abs = from_bits<V>(to_bits(x) | 0x80000000u);
  const auto [n_plus_256, u] = exp_parts(clamp_to(minus_abs + minus_abs, splat<V>(-20), splat<V>(0)));
  const V power = from_bits<V>((n_plus_256 - 129) << 23);
  const V m = power * u + (power - 1.0f);
  return from_bits<V>((to_bits(m / (m + 2.0f)) & 0x7fffffffu) | (to_bits(x) & 0x80000000u));
}

template <class V>
inline V hswish_of(V x) {
  return x * (clamp_to(x + 3.0f, splat<V>(0), splat<V>(6)) * (1.0f / 6.0f));
}

// Sums 16 floats in a fixed order: it adds the upper half to the lower half until one float is left.
inline float tree_sum(float* partial) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) partial[i] += partial[i + half];
  }
  return partial[0];
}

}  // namespace
}  // namespace quern

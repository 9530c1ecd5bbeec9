// The kernels of eltwise.h for bytes, for one level of vectors; see vector_qs8.h.
#include "kernel/eltwise.h"
#include "kernel/vector_qs8.h"

namespace quern {
namespace {

struct Ending {
  Vec low, high;
  int32_t zero;

  explicit Ending(const qn_binary_qs8& p)
      : low(splat<Vec>(static_cast<float>(p.min - p.zero))),
        high(splat<Vec>(static_cast<float>(p.max - p.zero))),
        zero(p.zero) {}
  inline Ints operator()(Vec x) const { return round_within(x, low, high) + zero; }
};

// f(a, b) computes a vector of outputs from vectors of both operands, widened.
template <class F>
inline void binary(size_t n, const void* left, const void* right, void* to, F f) {
  const int8_t *a = bytes(left), *b = bytes(right);
  int8_t* y = bytes(to);
  for (size_t i = 0; i < n; i += panel_channels) {
    const size_t count = n - i;
    const Sums u = widen_some(a + i, count), v = widen_some(b + i, count);
    narrow_some({f(u.low, v.low), f(u.high, v.high)}, y + i, count);
  }
}

template <class F>
inline void binary_scalar(size_t n, const void* left, const void* right, void* to, F f) {
  const int8_t* a = bytes(left);
  const Ints scalar = Ints{} + bytes(right)[0];
  int8_t* y = bytes(to);
  for (size_t i = 0; i < n; i += panel_channels) {
    const Sums u = widen_some(a + i, n - i);
    narrow_some({f(u.low, scalar), f(u.high, scalar)}, y + i, n - i);
  }
}

inline auto adder(const void* parameters) {
  const auto& p = *static_cast<const qn_binary_qs8*>(parameters);
  return [=, end = Ending(p)](Ints a, Ints b) {
    return end(__builtin_convertvector(a - p.zero_a, Vec) * p.scale_a +
               __builtin_convertvector(b - p.zero_b, Vec) * p.scale_b);
  };
}

inline auto multiplier(const void* parameters) {
  const auto& p = *static_cast<const qn_binary_qs8*>(parameters);
  return [=, end = Ending(p)](Ints a, Ints b) {
    return end(__builtin_convertvector((a - p.zero_a) * (b - p.zero_b), Vec) * p.scale_a);
  };
}

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(vadd_qs8)(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary(n, a, b, y, quern::adder(p));
}

void QN_LEVEL_NAME(vaddc_qs8)(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary_scalar(n, a, b, y, quern::adder(p));
}

void QN_LEVEL_NAME(vmul_qs8)(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary(n, a, b, y, quern::multiplier(p));
}

void QN_LEVEL_NAME(vmulc_qs8)(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary_scalar(n, a, b, y, quern::multiplier(p));
}

}  // extern "C"

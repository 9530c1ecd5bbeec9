// The kernels of eltwise.h for bytes, but the lookup, for one level of vectors; see vector_bytes.h.
#include "kernel/eltwise.h"
#include "kernel/vector_bytes.h"

namespace quern {
namespace {

// f(a, b) computes a vector of outputs from vectors of both operands.
template <class F>
inline void binary(size_t n, const void* left, const void* right, void* to, F f) {
  const int8_t *a = bytes(left), *b = bytes(right);
  int8_t* y = bytes(to);
  size_t i = 0;
  for (; i + byte_lanes <= n; i += byte_lanes) store_bytes(y + i, f(load_bytes(a + i), load_bytes(b + i)));
  if (i < n) store_some_bytes(y + i, f(load_some_bytes(a + i, n - i), load_some_bytes(b + i, n - i)), n - i);
}

template <class F>
inline void unary(size_t n, const void* from, void* to, F f) {
  const int8_t* x = bytes(from);
  int8_t* y = bytes(to);
  size_t i = 0;
  for (; i + byte_lanes <= n; i += byte_lanes) store_bytes(y + i, f(load_bytes(x + i)));
  if (i < n) store_some_bytes(y + i, f(load_some_bytes(x + i, n - i)), n - i);
}

inline const qn_binary_qs8& binary_of(const void* p) { return *static_cast<const qn_binary_qs8*>(p); }
inline Ending ending_of(const qn_binary_qs8& p) { return {p.zero, p.min, p.max}; }

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(vadd_qs8)(size_t n, const void* a, const void* b, void* y, const void* parameters) {
  using namespace quern;
  const qn_binary_qs8& p = binary_of(parameters);
  binary(n, a, b, y,
         [end = ending_of(p), zero_a = p.zero_a, zero_b = p.zero_b, scale_a = p.scale_a, scale_b = p.scale_b](
             Bytes left, Bytes right) {
           return end(each(differences(left, zero_a), differences(right, zero_b),
                           [=](Vec u, Vec v) { return u * scale_a + v * scale_b; }));
         });
}

void QN_LEVEL_NAME(vaddc_qs8)(size_t n, const void* a, const void* b, void* y, const void* parameters) {
  using namespace quern;
  const qn_binary_qs8& p = binary_of(parameters);
  const float added = static_cast<float>(bytes(b)[0] - p.zero_b) * p.scale_b;
  unary(n, a, y, [added, end = ending_of(p), zero = p.zero_a, scale = p.scale_a](Bytes x) {
    return end(each(differences(x, zero), [=](Vec v) { return v * scale + added; }));
  });
}

// Products of two differences have less than 24 bits, so that floats hold them.
void QN_LEVEL_NAME(vmul_qs8)(size_t n, const void* a, const void* b, void* y, const void* parameters) {
  using namespace quern;
  const qn_binary_qs8& p = binary_of(parameters);
  binary(n, a, b, y,
         [end = ending_of(p), zero_a = p.zero_a, zero_b = p.zero_b, scale = p.scale_a](Bytes left, Bytes right) {
           return end(each(differences(left, zero_a), differences(right, zero_b),
                           [=](Vec u, Vec v) { return u * v * scale; }));
         });
}

void QN_LEVEL_NAME(vmulc_qs8)(size_t n, const void* a, const void* b, void* y, const void* parameters) {
  using namespace quern;
  const qn_binary_qs8& p = binary_of(parameters);
  const auto factor = static_cast<float>(bytes(b)[0] - p.zero_b);
  unary(n, a, y, [factor, end = ending_of(p), zero = p.zero_a, scale = p.scale_a](Bytes x) {
    return end(each(differences(x, zero), [=](Vec v) { return v * factor * scale; }));
  });
}

}  // extern "C"

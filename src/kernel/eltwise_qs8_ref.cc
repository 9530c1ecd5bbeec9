#include "kernel/eltwise.h"
#include "kernel/requantize.h"

namespace quern {
namespace {

const qn_binary_qs8& binary_of(const void* p) { return *static_cast<const qn_binary_qs8*>(p); }

int8_t end(float x, const qn_binary_qs8& p) {
  return static_cast<int8_t>(round_within(x, p.min - p.zero, p.max - p.zero) + p.zero);
}

int8_t add(int8_t a, int8_t b, const qn_binary_qs8& p) {
  return end(static_cast<float>(a - p.zero_a) * p.scale_a + static_cast<float>(b - p.zero_b) * p.scale_b, p);
}

int8_t multiply(int8_t a, int8_t b, const qn_binary_qs8& p) {
  return end(static_cast<float>((a - p.zero_a) * (b - p.zero_b)) * p.scale_a, p);
}

// f(a, b, p) computes one output.
template <class F>
void binary(size_t n, const void* a, const void* b, void* y, const void* p, F f) {
  for (size_t i = 0; i < n; ++i) bytes(y)[i] = f(bytes(a)[i], bytes(b)[i], binary_of(p));
}
template <class F>
void binary_scalar(size_t n, const void* a, const void* b, void* y, const void* p, F f) {
  const int8_t scalar = bytes(b)[0];
  for (size_t i = 0; i < n; ++i) bytes(y)[i] = f(bytes(a)[i], scalar, binary_of(p));
}

}  // namespace
}  // namespace quern

extern "C" {

void qn_vlookup_qs8_ref(size_t n, const void* x, void* y, const void* p) {
  const int8_t* from = quern::bytes(x);
  int8_t* to = quern::bytes(y);
  for (size_t i = 0; i < n; ++i) to[i] = quern::bytes(p)[from[i] + 128];
}

void qn_vquantize_qs8_ref(size_t n, const void* x, void* y, const void* parameters) {
  const auto& p = *static_cast<const qn_convert_qs8*>(parameters);
  for (size_t i = 0; i < n; ++i) {
    const float steps = static_cast<const float*>(x)[i] / p.scale;
    const int32_t step = quern::round_within(steps, INT8_MIN - p.zero, INT8_MAX - p.zero) + p.zero;
    quern::bytes(y)[i] = static_cast<int8_t>(step ^ p.flip);
  }
}

void qn_vdequantize_qs8_ref(size_t n, const void* x, void* y, const void* parameters) {
  const auto& p = *static_cast<const qn_convert_qs8*>(parameters);
  for (size_t i = 0; i < n; ++i) {
    const auto step = static_cast<int8_t>(quern::bytes(x)[i] ^ p.flip);
    static_cast<float*>(y)[i] = static_cast<float>(step - p.zero) * p.scale;
  }
}

void qn_vadd_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary(n, a, b, y, p, quern::add);
}

void qn_vaddc_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary_scalar(n, a, b, y, p, quern::add);
}

void qn_vmul_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary(n, a, b, y, p, quern::multiply);
}

void qn_vmulc_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary_scalar(n, a, b, y, p, quern::multiply);
}

}  // extern "C"

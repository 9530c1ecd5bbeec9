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

}  // namespace
}  // namespace quern

extern "C" {

void qn_vlookup_qs8_ref(size_t n, const void* x, void* y, const void* p) {
  const int8_t* from = quern::bytes(x);
  int8_t* to = quern::bytes(y);
  for (size_t i = 0; i < n; ++i) to[i] = quern::bytes(p)[from[i] + 128];
}

void qn_vadd_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  for (size_t i = 0; i < n; ++i) {
    quern::bytes(y)[i] = quern::add(quern::bytes(a)[i], quern::bytes(b)[i], quern::binary_of(p));
  }
}

void qn_vaddc_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  const int8_t scalar = quern::bytes(b)[0];
  for (size_t i = 0; i < n; ++i) quern::bytes(y)[i] = quern::add(quern::bytes(a)[i], scalar, quern::binary_of(p));
}

void qn_vmul_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  for (size_t i = 0; i < n; ++i) {
    quern::bytes(y)[i] = quern::multiply(quern::bytes(a)[i], quern::bytes(b)[i], quern::binary_of(p));
  }
}

void qn_vmulc_qs8_ref(size_t n, const void* a, const void* b, void* y, const void* p) {
  const int8_t scalar = quern::bytes(b)[0];
  for (size_t i = 0; i < n; ++i) quern::bytes(y)[i] = quern::multiply(quern::bytes(a)[i], scalar, quern::binary_of(p));
}

}  // extern "C"

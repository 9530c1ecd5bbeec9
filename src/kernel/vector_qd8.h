// Floats that products with quantized weights become, in vectors, for kernels that store floats. See vector.h for how
// these are compiled.
#pragma once

#include "kernel/vector_qs8.h"

namespace quern {
namespace {

// Numbers of two vectors of channels, those of a panel.
struct Floats {
  Vec low, high;
};

// a * b + sum, which rounds once where the level has FMA.
#if QN_VECTOR_BYTES == 64
inline Vec multiply_add(Vec a, Vec b, Vec sum) { return _mm512_fmadd_ps(a, b, sum); }
#elif QN_VECTOR_BYTES == 32
inline Vec multiply_add(Vec a, Vec b, Vec sum) { return _mm256_fmadd_ps(a, b, sum); }
#elif defined(__aarch64__)
inline Vec multiply_add(Vec a, Vec b, Vec sum) { return vfmaq_f32(sum, a, b); }
#else  // SSE4.1, and NEON on 32-bit ARM, have no FMA
inline Vec multiply_add(Vec a, Vec b, Vec sum) { return sum + a * b; }
#endif

inline void store_up_to(float* p, Vec v, size_t count) { count >= width ? store(p, v) : store_some(p, v, count); }

// Stores the first `count` results of a panel, from n0 on in row m of C. end_of(i) returns vector i of two.
template <class End>
inline void store_row(void* c, size_t c_stride, size_t m, size_t n0, size_t count, End&& end_of) {
  auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + m * c_stride) + n0;
  store_up_to(out, end_of(0), count);
  if (count > width) store_up_to(out + width, end_of(1), count - width);
}

}  // namespace
}  // namespace quern

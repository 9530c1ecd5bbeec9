#include <immintrin.h>

#include "kernel/gather.h"

namespace quern {
namespace {

typedef __m256 Pixels;
typedef __m256i Mask;
constexpr size_t vector_bytes = 32;

inline Mask lanes_of(const qn_gather_piece& piece) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(piece.lanes), bits), bits);
}
inline Pixels nothing() { return _mm256_setzero_ps(); }
inline void add(Pixels& pixels, const char* from, Mask mask) {
  pixels = _mm256_or_ps(pixels, _mm256_maskload_ps(reinterpret_cast<const float*>(from), mask));
}
inline void put(char* to, const Pixels& pixels) { _mm256_storeu_ps(reinterpret_cast<float*>(to), pixels); }

}  // namespace
}  // namespace quern

#include "kernel/gather_vec.h"

extern "C" void qn_gather_f32_8_avx2(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a,
                                     size_t a_stride, void* c, size_t c_stride) {
  quern::gather(rows, vectors, pieces, a, a_stride, c, c_stride);
}

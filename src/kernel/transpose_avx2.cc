#include <immintrin.h>

#include <algorithm>

#include "kernel/transpose.h"

namespace {

constexpr size_t block = 8, half = 4;

inline __m256i first(size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Loads four floats of row i into the lower half of a vector and four of row i + 4 into the upper half. If the columns
// are not `whole`, it loads only the floats that the mask names.
inline __m256 pair(const void* const* a, size_t i, size_t column, bool whole, __m128i mask) {
  const auto at = [&](size_t row) {
    const float* p = static_cast<const float*>(a[row]) + column;
    return whole ? _mm_loadu_ps(p) : _mm_maskload_ps(p, mask);
  };
  return _mm256_insertf128_ps(_mm256_castps128_ps256(at(i)), at(i + 4), 1);
}

inline __m256 low(__m256 a, __m256 b) {
  return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
inline __m256 high(__m256 a, __m256 b) {
  return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}

// Transposes up to 8 rows and up to 4 columns.
inline void columns_of(const void* const* a, size_t column, size_t count, char* c, size_t c_stride, size_t rows) {
  const bool whole = count == half;
  const __m128i mask = _mm256_castsi256_si128(first(count));
  const __m256 r0 = pair(a, 0, column, whole, mask), r1 = pair(a, 1, column, whole, mask);
  const __m256 r2 = pair(a, 2, column, whole, mask), r3 = pair(a, 3, column, whole, mask);
  const __m256 even_low = _mm256_unpacklo_ps(r0, r1), even_high = _mm256_unpackhi_ps(r0, r1);
  const __m256 odd_low = _mm256_unpacklo_ps(r2, r3), odd_high = _mm256_unpackhi_ps(r2, r3);
  const auto store = [&](size_t j, __m256 v) {
    if (j >= count) return;
    auto* to = reinterpret_cast<float*>(c + j * c_stride);
    if (rows == block) {
      _mm256_storeu_ps(to, v);
    } else {
      _mm256_maskstore_ps(to, first(rows), v);
    }
  };
  store(0, low(even_low, odd_low));
  store(1, high(even_low, odd_low));
  store(2, low(even_high, odd_high));
  store(3, high(even_high, odd_high));
}

}  // namespace

extern "C" void qn_transpose_f32_8x8_avx2(size_t rows, size_t columns, const void* const* a, void* c, size_t c_stride) {
  for (size_t i = 0; i < rows; i += block) {
    const size_t count = std::min(rows - i, block);
    const void* from[block];
    for (size_t r = 0; r < block; ++r) from[r] = a[i + std::min(r, count - 1)];
    char* to = static_cast<char*>(c) + i * sizeof(float);
    size_t j = 0;
    if (count == block) {
      for (; j + half <= columns; j += half) columns_of(from, j, half, to + j * c_stride, c_stride, block);
    }
    for (; j < columns; j += half) {
      columns_of(from, j, std::min(columns - j, half), to + j * c_stride, c_stride, count);
    }
  }
}

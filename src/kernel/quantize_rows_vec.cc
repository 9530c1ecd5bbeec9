// The kernel of quantize_rows.h for one level of vectors; see vector.h.
#include "kernel/quantize_rows.h"

#include <cmath>
#include <cstring>

#include "kernel/vector_qs8.h"

namespace quern {
namespace {

// Returns round(x) + zero of two vectors, limited to bytes. |x| is at most 256, so no conversion overflows.
#if QN_VECTOR_BYTES == 64
inline void store_bytes(Vec low, Vec high, Ints zero, int8_t* p) {
  const auto store_one = [&](Vec x, int8_t* to) {
    const __m512i steps = _mm512_maskz_cvtps_epi32(all_lanes, x);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_maskz_cvtsepi32_epi8(all_lanes, __m512i(Ints(steps) + zero)));
  };
  store_one(low, p);
  store_one(high, p + width);
}

// The same of four vectors, with fewer instructions. Packing takes turns between its operands in each 16 bytes.
constexpr size_t quantized_together = 4 * width;
inline void store_four(const float* x, Vec inverse, Ints zero, int8_t* p) {
  const auto steps = [&](size_t i) { return _mm512_maskz_cvtps_epi32(all_lanes, load(x + i * width) * inverse); };
  const __m512i zeros = _mm512_packs_epi32(__m512i(zero), __m512i(zero));
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(steps(0), steps(1)), zeros);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(steps(2), steps(3)), zeros);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(p, _mm512_maskz_permutexvar_epi32(all_lanes, order, _mm512_packs_epi16(low, high)));
}
#elif QN_VECTOR_BYTES == 32
inline void store_bytes(Vec low, Vec high, Ints zero, int8_t* p) {
  narrow({Ints(_mm256_cvtps_epi32(low)) + zero, Ints(_mm256_cvtps_epi32(high)) + zero}, p);
}
#elif defined(__aarch64__) || defined(__arm__)
#if defined(__aarch64__)
inline int32x4_t rounded(Vec x) { return vcvtnq_s32_f32(x); }
#else
inline int32x4_t rounded(Vec x) { return vcvtq_s32_f32(x + 0x1.8p23f - 0x1.8p23f); }
#endif
inline void store_bytes(Vec low, Vec high, Ints zero, int8_t* p) {
  const int32x4_t a = vaddq_s32(rounded(low), int32x4_t(zero)), b = vaddq_s32(rounded(high), int32x4_t(zero));
  vst1_s8(p, vqmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
}
#else
inline void store_bytes(Vec low, Vec high, Ints zero, int8_t* p) {
  narrow({Ints(_mm_cvtps_epi32(low)) + zero, Ints(_mm_cvtps_epi32(high)) + zero}, p);
}
#endif

inline Vec load_up_to(const float* p, size_t count) {
  return count >= width ? load(p) : count > 0 ? load_some(p, count) : Vec{};
}

// Keeps a vector in a register: three operations with an operand in memory would load it three times.
inline Vec in_register(Vec v) {
#if QN_VECTOR_BYTES == 64
  asm("" : "+v"(v));
#elif defined(__x86_64__)
  asm("" : "+x"(v));
#endif
  return v;
}

// f of all lanes, in any order.
template <class F>
inline float across(Vec v, F f) {
#if QN_VECTOR_BYTES == 64
  const auto half = f(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const auto half = v;
#endif
#if QN_VECTOR_BYTES > 16
  const auto four = f(__builtin_shufflevector(half, half, 0, 1, 2, 3), __builtin_shufflevector(half, half, 4, 5, 6, 7));
#else
  const auto four = half;
#endif
  return f(f(four[0], four[1]), f(four[2], four[3]));
}

// The numbers of a row. A sum tells quickly that all its elements are finite; if it is not, the elements are looked at.
inline RowSteps steps_of(const float* x, size_t k) {
  constexpr size_t vectors = 4;  // so that no operation waits for the one before it
  Vec least[vectors] = {}, most[vectors] = {}, sum[vectors] = {};
  const auto add = [&](size_t i, Vec v) {
    least[i] = smaller(least[i], v);
    most[i] = larger(most[i], v);
    sum[i] += v;
  };
  size_t i = 0;
  for (; i + vectors * width <= k; i += vectors * width) {
#pragma GCC unroll 4
    for (size_t j = 0; j < vectors; ++j) add(j, in_register(load(x + i + j * width)));
  }
  for (; i < k; i += width) add(0, load_up_to(x + i, k - i));
#pragma GCC unroll 4
  for (size_t j = 1; j < vectors; ++j) {
    least[0] = smaller(least[0], least[j]);
    most[0] = larger(most[0], most[j]);
    sum[0] += sum[j];
  }
  float low = across(least[0], [](auto a, auto b) { return a < b ? a : b; });
  float high = across(most[0], [](auto a, auto b) { return a > b ? a : b; });
  const float all = across(sum[0], [](auto a, auto b) { return a + b; });
  bool finite = std::isfinite(all);
  if (!finite) {
    finite = true;
    low = high = 0;  // a NaN may have hidden some elements
    for (i = 0; i < k; ++i) {
      finite = finite && std::isfinite(x[i]);
      low = x[i] < low ? x[i] : low;
      high = x[i] > high ? x[i] : high;
    }
  }
  return row_steps(low, high, finite);
}

inline void quantize(const float* x, size_t k, const RowSteps& steps, int8_t* to) {
  const Vec inverse = splat<Vec>(steps.inverse);
  const Ints zero = Ints{} + steps.numbers.zero;
  size_t i = 0;
#if QN_VECTOR_BYTES == 64
  for (; i + quantized_together <= k; i += quantized_together) store_four(x + i, inverse, zero, to + i);
#endif
  for (; i + panel_channels <= k; i += panel_channels) {
    store_bytes(load(x + i) * inverse, load(x + i + width) * inverse, zero, to + i);
  }
  if (i == k) return;
  int8_t some[panel_channels];
  const size_t count = k - i;
  store_bytes(load_up_to(x + i, count) * inverse,
              load_up_to(x + (count > width ? i + width : i), count > width ? count - width : 0) * inverse, zero, some);
  std::memcpy(to + i, some, count);
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(quantize_rows_qd8c)(size_t rows, size_t k, const void* a, size_t a_stride, void* c,
                                                  size_t c_stride) {
  using namespace quern;
  for (size_t m = 0; m < rows; ++m) {
    const auto* x = reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride);
    int8_t* const to = bytes(c) + m * c_stride;
    const RowSteps steps = steps_of(x, k);
    reinterpret_cast<qn_quantized_row*>(to)[-1] = steps.numbers;
    steps.inverse == 0 ? static_cast<void>(std::memset(to, 0, k)) : quantize(x, k, steps, to);
  }
}

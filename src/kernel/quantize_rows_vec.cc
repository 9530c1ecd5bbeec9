// The kernels of quantize_rows.h for one level of vectors; see vector.h.
#include "kernel/quantize_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/shuffle.h"
#include "kernel/vector_qs8.h"

// What the kernels of both types have in common. With the longest vectors each has a copy, which is 2% of a product
// faster.
#if QN_VECTOR_BYTES == 64
#define COMMON [[gnu::always_inline]] inline
#else
#define COMMON [[gnu::noinline]]
#endif

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
inline __m512i bytes_of_four(const float* x, Vec inverse, Ints zero) {
  const auto steps = [&](size_t i) { return _mm512_maskz_cvtps_epi32(all_lanes, load(x + i * width) * inverse); };
  const __m512i zeros = _mm512_packs_epi32(__m512i(zero), __m512i(zero));
  const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(steps(0), steps(1)), zeros);
  const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(steps(2), steps(3)), zeros);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_maskz_permutexvar_epi32(all_lanes, order, _mm512_packs_epi16(low, high));
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

// The bits of floats, which as integers have the order of the numbers: as signed ones those from 0 on, beyond all of
// them the infinity, then NaNs; as unsigned ones likewise the negative numbers, away from 0, beyond all others.
typedef uint32_t Unsigned __attribute__((vector_size(QN_VECTOR_BYTES)));

#if QN_VECTOR_BYTES == 64
inline Ints greater_of(Ints a, Ints b) { return Ints(_mm512_maskz_max_epi32(all_lanes, __m512i(a), __m512i(b))); }
inline Unsigned greater_of(Unsigned a, Unsigned b) {
  return Unsigned(_mm512_maskz_max_epu32(all_lanes, __m512i(a), __m512i(b)));
}
#endif
template <class T>
inline T greater_of(T a, T b) {
  return a > b ? a : b;
}

// The greatest of all lanes.
template <class V>
inline auto greatest(V v) {
#if QN_VECTOR_BYTES == 64
  const auto half = greater_of(shuffle<0, 1, 2, 3, 4, 5, 6, 7>(v, v), shuffle<8, 9, 10, 11, 12, 13, 14, 15>(v, v));
#else
  const auto half = v;
#endif
#if QN_VECTOR_BYTES > 16
  const auto four = greater_of(shuffle<0, 1, 2, 3>(half, half), shuffle<4, 5, 6, 7>(half, half));
#else
  const auto four = half;
#endif
  const auto two = greater_of(four, shuffle<2, 3, 0, 1>(four, four));
  return greater_of(two, shuffle<1, 0, 3, 2>(two, two))[0];
}

// Keeps a vector in a register: two operations with an operand in memory would load it twice.
inline Vec in_register(Vec v) {
#if QN_VECTOR_BYTES == 64
  asm("" : "+v"(v));
#elif defined(__x86_64__)
  asm("" : "+x"(v));
#endif
  return v;
}

// The bits of the least and the greatest of 0 and the elements of a row. Integers have no NaN that comparisons lose, and
// are compared faster than floats.
constexpr uint32_t minus = 0x80000000, infinity = 0x7f800000;
struct Range {
  uint32_t least, most;

  RowSteps steps() const {
    return row_steps(std::bit_cast<float>(least), std::bit_cast<float>(most),
                     most < infinity && least < minus + infinity);
  }
};
inline Range range_of(const float* x, size_t k) {
  constexpr size_t vectors = 2;  // so that no operation waits for the one before it
  Ints most[vectors] = {};
  Unsigned least[vectors];
  for (Unsigned& bits : least) bits = Unsigned{} + minus;
  const auto add = [&](size_t i, Vec v) {
    most[i] = greater_of(most[i], Ints(v));
    least[i] = greater_of(least[i], Unsigned(v));
  };
  size_t i = 0;
  for (; i + 2 * vectors * width <= k; i += 2 * vectors * width) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 2 * vectors; ++j) add(j % vectors, in_register(load(x + i + j * width)));
  }
  for (; i < k; i += width) add(0, load_up_to(x + i, k - i));
  return {greatest(greater_of(least[0], least[1])), static_cast<uint32_t>(greatest(greater_of(most[0], most[1])))};
}

// Fewer elements than `to` has room for. What stands behind them is arbitrary.
inline void quantize_some(const float* x, size_t count, Vec inverse, Ints zero, int8_t (&to)[panel_channels]) {
  store_bytes(load_up_to(x, count) * inverse,
              load_up_to(x + (count > width ? width : 0), count > width ? count - width : 0) * inverse, zero, to);
}

COMMON void quantize(const float* x, size_t k, const RowSteps& steps, int8_t* to) {
  const Vec inverse = splat<Vec>(steps.inverse);
  const Ints zero = Ints{} + steps.numbers.zero;
  size_t i = 0;
#if QN_VECTOR_BYTES == 64
  for (; i + quantized_together <= k; i += quantized_together) {
    _mm512_storeu_si512(to + i, bytes_of_four(x + i, inverse, zero));
  }
#endif
  for (; i + panel_channels <= k; i += panel_channels) {
    store_bytes(load(x + i) * inverse, load(x + i + width) * inverse, zero, to + i);
  }
  if (i == k) return;
  int8_t some[panel_channels];
  quantize_some(x + i, k - i, inverse, zero, some);
  std::memcpy(to + i, some, k - i);
}

#if QN_VECTOR_BYTES == 64
// What a block begins with: two sums, of the lower and the upper half of these bytes, as 32-bit integers in the first
// place of each half. Sums of bytes are those of unsigned ones, so 128 is added to each.
inline __m512i starts_of(__m512i both) {
  const __m512i unsigned_bytes = __m512i(Ints(both) ^ Ints(_mm512_set1_epi8(-128)));
  __m512i sums = _mm512_sad_epu8(unsigned_bytes, _mm512_setzero_si512());
  sums = _mm512_add_epi64(sums, _mm512_maskz_permutex_epi64(0xff, sums, 0x4e));
  sums = _mm512_add_epi64(sums, _mm512_maskz_permutex_epi64(0xff, sums, 0xb1));
  return __m512i(8 * (Ints{} + 128 * static_cast<int32_t>(scale_block) - Ints(sums)));
}

inline void store_blocks(__m512i both, size_t blocks, qn_quantized_block* to) {
  constexpr __mmask8 all_longs = 0xf;
  const __m512i starts = starts_of(both);
  const auto store_one = [](qn_quantized_block* block, int32_t start, __m256i elements) {
    block->start = start;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(block->elements), elements);
  };
  store_one(to, Ints(starts)[0], _mm512_maskz_extracti64x4_epi64(all_longs, both, 0));
  if (blocks == 1) return;
  store_one(to + 1, Ints(starts)[width / 2], _mm512_maskz_extracti64x4_epi64(all_longs, both, 1));
}

inline void quantize_blocks(const float* x, size_t k, const RowSteps& steps, qn_quantized_block* to) {
  const Vec inverse = splat<Vec>(steps.inverse);
  const Ints zero = Ints{} + steps.numbers.zero;
  size_t i = 0;
  for (; i + quantized_together <= k; i += quantized_together, to += 2) {
    store_blocks(bytes_of_four(x + i, inverse, zero), 2, to);
  }
  for (; i < k; i += scale_block, ++to) {
    alignas(64) int8_t some[panel_channels];
    const size_t count = std::min(scale_block, k - i);
    quantize_some(x + i, count, inverse, zero, some);
    std::memset(some + count, 0, scale_block - count);
    store_blocks(_mm512_maskz_loadu_epi32(0xff, some), 1, to);
  }
}
#else
inline void quantize_blocks(const float* x, size_t k, const RowSteps& steps, qn_quantized_block* to) {
  for (size_t i = 0; i < k; i += scale_block, ++to) {
    const size_t count = std::min(scale_block, k - i);
    quantize(x + i, count, steps, to->elements);
    std::memset(to->elements + count, 0, scale_block - count);
    to->start = 0;
    for (const int8_t element : to->elements) to->start -= 8 * element;
  }
}
#endif

using Quantize = void(const float* x, size_t k, const RowSteps& steps, int8_t* to);

// Calls `quantize` for each row. Looks at the ranges of several rows first, as many as stay in the L1 cache:
// to conclude from a range takes long, but then that of several rows goes on at the same time.
COMMON void each_row(size_t rows, size_t k, const void* a, size_t a_stride, void* c, size_t c_stride,
                     Quantize* quantize) {
  constexpr size_t most_together = small ? 1 : 8, cached_floats = 4096;
  const size_t together = std::clamp(cached_floats / k, size_t{1}, most_together);
  const auto row = [=](size_t m) { return reinterpret_cast<const float*>(static_cast<const char*>(a) + m * a_stride); };
  for (size_t m = 0; m < rows; m += together) {
    const size_t count = std::min(together, rows - m);
    Range ranges[most_together];
    RowSteps steps[most_together];
    for (size_t i = 0; i < count; ++i) ranges[i] = range_of(row(m + i), k);
    for (size_t i = 0; i < count; ++i) steps[i] = ranges[i].steps();
    for (size_t i = 0; i < count; ++i) {
      int8_t* const to = bytes(c) + (m + i) * c_stride;
      reinterpret_cast<qn_quantized_row*>(to)[-1] = steps[i].numbers;
      quantize(row(m + i), k, steps[i], to);
    }
  }
}

inline void quantize_row(const float* x, size_t k, const RowSteps& steps, int8_t* to) {
  steps.inverse == 0 ? static_cast<void>(std::memset(to, 0, k)) : quantize(x, k, steps, to);
}
inline void quantize_row_of_blocks(const float* x, size_t k, const RowSteps& steps, int8_t* to) {
  steps.inverse == 0 ? static_cast<void>(std::memset(to, 0, quantized_row_bytes(KernelType::qd8b4, k)))
                     : quantize_blocks(x, k, steps, reinterpret_cast<qn_quantized_block*>(to));
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(quantize_rows_qd8c)(size_t rows, size_t k, const void* a, size_t a_stride, void* c,
                                                  size_t c_stride) {
  quern::each_row(rows, k, a, a_stride, c, c_stride, quern::quantize_row);
}

extern "C" void QN_LEVEL_NAME(quantize_rows_qd8b4)(size_t rows, size_t k, const void* a, size_t a_stride, void* c,
                                                   size_t c_stride) {
  quern::each_row(rows, k, a, a_stride, c, c_stride, quern::quantize_row_of_blocks);
}

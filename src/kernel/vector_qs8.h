// Sums of products of bytes in vectors of 32-bit integers, for the files NAME_qs8_vec.cc. See vector.h for how these are
// compiled.
#pragma once

#include <cstring>

#include "kernel/requantize.h"
#include "kernel/vector.h"

namespace quern {
namespace {

typedef Mask Ints;  // as many as floats in a vector

// The sums of one panel for a row: two vectors, so that a product needs half as many loads of weights.
constexpr size_t panel_channels = 2 * width;
struct Sums {
  Ints low, high;
};

// widen() reads panel_channels bytes as numbers; narrow() writes numbers of -128 .. 127 as that many bytes.
#if defined(__aarch64__) || defined(__arm__)
inline Sums widen(const int8_t* p) {
  const int16x8_t halves = vmovl_s8(vld1_s8(p));
  return {Ints(vmovl_s16(vget_low_s16(halves))), Ints(vmovl_s16(vget_high_s16(halves)))};
}
inline void narrow(const Sums& numbers, int8_t* p) {
  const int16x8_t halves = vcombine_s16(vmovn_s32(int32x4_t(numbers.low)), vmovn_s32(int32x4_t(numbers.high)));
  vst1_s8(p, vmovn_s16(halves));
}
#elif QN_VECTOR_BYTES == 64
inline Ints widen_one(const int8_t* p) {
  return Ints(_mm512_maskz_cvtepi8_epi32(all_lanes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Sums widen(const int8_t* p) { return {widen_one(p), widen_one(p + width)}; }
inline void narrow(const Sums& numbers, int8_t* p) {
  auto* out = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(out, _mm512_maskz_cvtepi32_epi8(all_lanes, __m512i(numbers.low)));
  _mm_storeu_si128(out + 1, _mm512_maskz_cvtepi32_epi8(all_lanes, __m512i(numbers.high)));
}
#elif QN_VECTOR_BYTES == 32
inline Ints widen_one(const int8_t* p) {
  return Ints(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Sums widen(const int8_t* p) { return {widen_one(p), widen_one(p + width)}; }
inline void narrow(const Sums& numbers, int8_t* p) {
  const __m256i halves = _mm256_packs_epi32(__m256i(numbers.low), __m256i(numbers.high));  // low, high, low, high
  const __m256i ordered = _mm256_permute4x64_epi64(halves, 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}
#else
inline Ints widen_one(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, sizeof four);
  return Ints(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
}
inline Sums widen(const int8_t* p) { return {widen_one(p), widen_one(p + width)}; }
inline void narrow(const Sums& numbers, int8_t* p) {
  const __m128i halves = _mm_packs_epi32(__m128i(numbers.low), __m128i(numbers.high));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
}
#endif

// The same with the first `count` bytes only, if panel_channels are more.
inline Sums widen_some(const int8_t* p, size_t count) {
  if (count >= panel_channels) return widen(p);
  int8_t some[panel_channels] = {};
  std::memcpy(some, p, count);
  return widen(some);
}
inline void narrow_some(const Sums& numbers, int8_t* p, size_t count) {
  if (count >= panel_channels) return narrow(numbers, p);
  int8_t some[panel_channels];
  narrow(numbers, some);
  std::memcpy(p, some, count);
}

inline Sums load_sums(const void* p) {
  Sums sums;
  std::memcpy(&sums, p, sizeof sums);
  return sums;
}

// Those of channels that do not exist may wrap around.
inline void add_products(Sums* sums, const Sums& weights, int32_t a) {
  typedef uint32_t Bits __attribute__((vector_size(sizeof(Ints))));
  const auto factor = static_cast<uint32_t>(a);
  sums->low = Ints(Bits(sums->low) + Bits(weights.low) * factor);
  sums->high = Ints(Bits(sums->high) + Bits(weights.high) * factor);
}

// round_within() of requantize.h for a vector; low and high are integers.
inline Ints round_within(Vec x, Vec low, Vec high) {
  constexpr float large = 0x1.8p23f;
  return __builtin_convertvector(smaller(larger(x, low), high) + large - large, Ints);
}

// requantize() of requantize.h for a vector.
inline Ints requantize(Ints sums, Vec scales, const qn_requantize& p) {
  const Vec low = splat<Vec>(static_cast<float>(p.min - p.zero)), high = splat<Vec>(static_cast<float>(p.max - p.zero));
  return round_within(__builtin_convertvector(sums, Vec) * scales, low, high) + p.zero;
}

// Ends the sums of a panel, whose epilogue this is, and writes the first `count` of them.
inline void end_sums(const Sums& sums, const void* epilogue, int8_t* out, size_t count) {
  const qn_requantize& p = requantize_of(epilogue);
  const float* scales = scales_of(epilogue);
  narrow_some({requantize(sums.low, load(scales), p), requantize(sums.high, load(scales + width), p)}, out, count);
}

// The rows that a tile of gemm or igemm computes at once.
constexpr size_t tile_rows = 4;

// Adds the products of `count` elements of each row with rows of weights.
template <size_t together>
inline void add_tile(Sums (&sums)[together], const int8_t* const (&rows)[together], const int8_t* weights,
                     size_t count) {
  for (size_t i = 0; i < count; ++i, weights += panel_channels) {
    const Sums w = widen(weights);
#pragma GCC unroll 4
    for (size_t m = 0; m < together; ++m) add_products(&sums[m], w, rows[m][i]);
  }
}

}  // namespace
}  // namespace quern

// Vectors of bytes, and what turns them into vectors of numbers and back, for the files NAME_qs8_vec.cc without weights.
// See vector.h for how these are compiled.
#pragma once

#include <cstring>

#include "kernel/requantize.h"
#include "kernel/vector.h"

namespace quern {
namespace {

typedef int8_t Bytes __attribute__((vector_size(QN_VECTOR_BYTES)));
typedef int8_t UnalignedBytes __attribute__((vector_size(QN_VECTOR_BYTES), aligned(1), may_alias));
constexpr size_t byte_lanes = sizeof(Bytes);

inline Bytes load_bytes(const int8_t* p) { return *reinterpret_cast<const UnalignedBytes*>(p); }
inline void store_bytes(int8_t* p, Bytes v) { *reinterpret_cast<UnalignedBytes*>(p) = v; }
inline Bytes splat_byte(int32_t x) { return Bytes{} + static_cast<int8_t>(x); }

// load_some_bytes reads exactly p[0] .. p[count - 1], with 0 < count <= byte_lanes, and store_some_bytes writes as many.
// What the other bytes of the vector are nobody may rely on.
#if QN_VECTOR_BYTES == 64

inline __mmask64 first_bytes(size_t count) { return ~__mmask64{0} >> (byte_lanes - count); }
inline Bytes load_some_bytes(const int8_t* p, size_t count) {
  return Bytes(_mm512_maskz_loadu_epi8(first_bytes(count), p));
}
inline void store_some_bytes(int8_t* p, Bytes v, size_t count) {
  _mm512_mask_storeu_epi8(p, first_bytes(count), __m512i(v));
}

#else

template <class T>
inline T word_at(const int8_t* p) {
  T word;
  std::memcpy(&word, p, sizeof word);
  return word;
}
// The first bytes of a word of 8, 0 < count <= 8, from two loads that may overlap: a call of memcpy takes longer.
inline uint64_t load_some_of_8(const int8_t* p, size_t count) {
  if (count == 8) return word_at<uint64_t>(p);
  if (count < 4) {
    const auto at = [p](size_t i) { return uint64_t{static_cast<uint8_t>(p[i])} << 8 * i; };
    return at(0) | at(count / 2) | at(count - 1);
  }
  return word_at<uint32_t>(p) | uint64_t{word_at<uint32_t>(p + count - 4)} << 8 * (count - 4);
}
inline Bytes load_some_bytes(const int8_t* p, size_t count) {
  uint64_t words[byte_lanes / 8] = {};
  for (size_t i = 0; i < count; i += 8) words[i / 8] = load_some_of_8(p + i, count - i < 8 ? count - i : 8);
  Bytes v;
  std::memcpy(&v, words, sizeof v);
  return v;
}
template <class T>
inline void copy_ends(int8_t* to, const int8_t* from, size_t count) {
  const T first = word_at<T>(from), last = word_at<T>(from + count - sizeof(T));
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + count - sizeof(T), &last, sizeof last);
}
inline void store_some_bytes(int8_t* p, Bytes v, size_t count) {
  int8_t some[byte_lanes];
  std::memcpy(some, &v, sizeof v);
  const int8_t* from = some;
  for (; count >= 16; p += 8, from += 8, count -= 8) std::memcpy(p, from, 8);
  if (count >= 8) return copy_ends<uint64_t>(p, from, count);
  if (count >= 4) return copy_ends<uint32_t>(p, from, count);
  for (size_t i = 0; i < count; ++i) p[i] = from[i];
}

#endif

// ---- vectors of bytes as four vectors of numbers of 32 bits

// On x86 instructions that widen and narrow bytes do so within each 128 bits. So the numbers of a vector of bytes have an
// order of their own, in which narrowing puts them back where they belong. `Halves`: two vectors of 16 bits, likewise.
typedef Mask Ints;  // 32 bits
typedef int16_t Shorts __attribute__((vector_size(QN_VECTOR_BYTES)));
struct Halves {
  Shorts low, high;
};
struct Numbers {
  Vec part[4];
};
struct Integers {
  Ints part[4];
};

#if QN_VECTOR_BYTES == 64
#define QN_X86(name) _mm512_##name
typedef __m512i Word;
typedef __m512 Reals;
// Masked, because GCC 12 warns of an uninitialised operand of the plain ones.
inline Word unpack_low_bytes(Word a, Word b) { return _mm512_maskz_unpacklo_epi8(~__mmask64{0}, a, b); }
inline Word unpack_high_bytes(Word a, Word b) { return _mm512_maskz_unpackhi_epi8(~__mmask64{0}, a, b); }
inline Word unpack_low_shorts(Word a, Word b) { return _mm512_maskz_unpacklo_epi16(~__mmask32{0}, a, b); }
inline Word unpack_high_shorts(Word a, Word b) { return _mm512_maskz_unpackhi_epi16(~__mmask32{0}, a, b); }
inline Word rounded(Vec x) { return _mm512_maskz_cvtps_epi32(all_lanes, Reals(x)); }
inline Vec least(Vec a, Vec b) { return Vec(_mm512_maskz_min_ps(all_lanes, Reals(a), Reals(b))); }
inline Bytes larger_bytes(Bytes a, Bytes b) { return Bytes(_mm512_max_epi8(Word(a), Word(b))); }
inline Bytes smaller_bytes(Bytes a, Bytes b) { return Bytes(_mm512_min_epi8(Word(a), Word(b))); }
#elif QN_VECTOR_BYTES == 32 || defined(__x86_64__)
#if QN_VECTOR_BYTES == 32
#define QN_X86(name) _mm256_##name
typedef __m256i Word;
typedef __m256 Reals;
#else
#define QN_X86(name) _mm_##name
typedef __m128i Word;
typedef __m128 Reals;
#endif
inline Word unpack_low_bytes(Word a, Word b) { return QN_X86(unpacklo_epi8)(a, b); }
inline Word unpack_high_bytes(Word a, Word b) { return QN_X86(unpackhi_epi8)(a, b); }
inline Word unpack_low_shorts(Word a, Word b) { return QN_X86(unpacklo_epi16)(a, b); }
inline Word unpack_high_shorts(Word a, Word b) { return QN_X86(unpackhi_epi16)(a, b); }
inline Word rounded(Vec x) { return QN_X86(cvtps_epi32)(Reals(x)); }
inline Vec least(Vec a, Vec b) { return Vec(QN_X86(min_ps)(Reals(a), Reals(b))); }
inline Bytes larger_bytes(Bytes a, Bytes b) { return Bytes(QN_X86(max_epi8)(Word(a), Word(b))); }
inline Bytes smaller_bytes(Bytes a, Bytes b) { return Bytes(QN_X86(min_epi8)(Word(a), Word(b))); }
#endif

#ifdef QN_X86

// float(a - zero) of each byte. Behind the upper half of 2^23, the bits of a number of 16 bits are 2^23 more than that
// number as a float.
inline Numbers differences(Bytes a, int32_t zero) {
  const Word bytes_from_0 = Word(a ^ splat_byte(INT8_MIN)), zeros = Word(Bytes{}), upper = Word(Shorts{} + 0x4b00);
  const Word low = unpack_low_bytes(bytes_from_0, zeros), high = unpack_high_bytes(bytes_from_0, zeros);
  const Vec offset = splat<Vec>(static_cast<float>(0x800000 + 128 + zero));
  return {{Vec(unpack_low_shorts(low, upper)) - offset, Vec(unpack_high_shorts(low, upper)) - offset,
           Vec(unpack_low_shorts(high, upper)) - offset, Vec(unpack_high_shorts(high, upper)) - offset}};
}

inline Integers widen(const Halves& x) {
  const Word low = Word(x.low), high = Word(x.high);
  return {{Ints(unpack_low_shorts(low, low)) >> 16, Ints(unpack_high_shorts(low, low)) >> 16,
           Ints(unpack_low_shorts(high, high)) >> 16, Ints(unpack_high_shorts(high, high)) >> 16}};
}

// Makes bytes of real numbers: clamp(round(x) + zero, min, max), to nearest even; `min` for a NaN.
class Ending {
 public:
  Ending(int32_t zero, int32_t min, int32_t max)
      : high_(splat<Vec>(static_cast<float>(max - zero))),
        zero_(Shorts{} + static_cast<int16_t>(zero)),
        min_(splat_byte(min)) {}
  // Of a number that is too large the conversion makes the least integer, as of a NaN. So large numbers are limited
  // before, and a NaN is not: `least` returns the second of its operands if one is NaN.
  inline Bytes operator()(const Numbers& x) const {
    Word i[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) i[k] = rounded(least(high_, x.part[k]));
    const Word low = QN_X86(adds_epi16)(QN_X86(packs_epi32)(i[0], i[1]), Word(zero_));
    const Word high = QN_X86(adds_epi16)(QN_X86(packs_epi32)(i[2], i[3]), Word(zero_));
    return larger_bytes(Bytes(QN_X86(packs_epi16)(low, high)), min_);
  }

 private:
  Vec high_;
  Shorts zero_;
  Bytes min_;
};

#else

inline Bytes larger_bytes(Bytes a, Bytes b) { return Bytes(vmaxq_s8(int8x16_t(a), int8x16_t(b))); }
inline Bytes smaller_bytes(Bytes a, Bytes b) { return Bytes(vminq_s8(int8x16_t(a), int8x16_t(b))); }

inline Integers widen(const Halves& x) {
  const int16x8_t low = int16x8_t(x.low), high = int16x8_t(x.high);
  return {{Ints(vmovl_s16(vget_low_s16(low))), Ints(vmovl_s16(vget_high_s16(low))), Ints(vmovl_s16(vget_low_s16(high))),
           Ints(vmovl_s16(vget_high_s16(high)))}};
}

inline Numbers to_floats(const Integers& x) {
  Numbers y;
#pragma GCC unroll 4
  for (size_t k = 0; k < 4; ++k) y.part[k] = Vec(vcvtq_f32_s32(int32x4_t(x.part[k])));
  return y;
}

inline Numbers differences(Bytes a, int32_t zero) {
  const int8x16_t v = int8x16_t(a);
  const int8x8_t zeros = vdup_n_s8(static_cast<int8_t>(zero));
  return to_floats(widen({Shorts(vsubl_s8(vget_low_s8(v), zeros)), Shorts(vsubl_s8(vget_high_s8(v), zeros))}));
}

// Makes bytes of real numbers: clamp(round(x) + zero, min, max), to nearest even; `min` for a NaN.
class Ending {
 public:
  Ending(int32_t zero, int32_t min, int32_t max)
      : low_(vdupq_n_f32(static_cast<float>(min - zero))),
        high_(vdupq_n_f32(static_cast<float>(max - zero))),
        zero_(static_cast<int16_t>(zero)),
        max_(static_cast<int8_t>(max)) {}
  inline Bytes operator()(const Numbers& x) const {
    int16x4_t i[4];
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) i[k] = vqmovn_s32(rounded(float32x4_t(x.part[k])));
    const int16x8_t zero = vdupq_n_s16(zero_);
    const int8x8_t low = vqmovn_s16(vqaddq_s16(vcombine_s16(i[0], i[1]), zero));
    const int8x8_t high = vqmovn_s16(vqaddq_s16(vcombine_s16(i[2], i[3]), zero));
    return smaller_bytes(Bytes(vcombine_s8(low, high)), splat_byte(max_));
  }

 private:
#if defined(__aarch64__)
  inline int32x4_t rounded(float32x4_t x) const { return vcvtnq_s32_f32(vmaxnmq_f32(x, low_)); }
#else
  // 32-bit ARM converts to integers toward zero only. Of floats of this size the last bits are an integer. The comparison
  // is false for a NaN.
  inline int32x4_t rounded(float32x4_t x) const {
    x = vminq_f32(vbslq_f32(vcgtq_f32(x, low_), x, low_), high_);
    return vsubq_s32(vreinterpretq_s32_f32(vaddq_f32(x, vdupq_n_f32(0x1.8p23f))), vdupq_n_s32(0x4b400000));
  }
#endif
  float32x4_t low_, high_;
  int16_t zero_;
  int8_t max_;
};

#endif

template <class F>
inline Numbers each(const Numbers& x, F f) {
  return {{f(x.part[0]), f(x.part[1]), f(x.part[2]), f(x.part[3])}};
}
template <class F>
inline Numbers each(const Numbers& x, const Numbers& y, F f) {
  return {{f(x.part[0], y.part[0]), f(x.part[1], y.part[1]), f(x.part[2], y.part[2]), f(x.part[3], y.part[3])}};
}

}  // namespace
}  // namespace quern

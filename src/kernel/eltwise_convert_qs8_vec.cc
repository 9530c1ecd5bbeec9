// The kernels of eltwise.h between floats and bytes, for one level of vectors; see vector_bytes.h.
#include "kernel/eltwise.h"
#include "kernel/vector_bytes.h"

namespace quern {
namespace {

// Reads the floats of a vector of bytes, in order.
inline Numbers load_floats(const float* x) {
  return {{load(x), load(x + width), load(x + 2 * width), load(x + 3 * width)}};
}

// On x86 numbers of a vector of bytes have an order of their own (vector_bytes.h). Returns what an Ending made of numbers
// that were in order.
inline Bytes in_order(Bytes x) {
#if QN_VECTOR_BYTES == 64
  return Bytes(_mm512_maskz_permutexvar_epi32(
      all_lanes, _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), Word(x)));
#elif QN_VECTOR_BYTES == 32
  return Bytes(_mm256_permutevar8x32_epi32(Word(x), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
#else
  return x;
#endif
}

// Does not flush denormals on 32-bit ARM, where quotients are no vectors.
inline Vec divided(Vec x, float scale) {
#if defined(__arm__)
  return Vec{x[0] / scale, x[1] / scale, x[2] / scale, x[3] / scale};
#else
  return x / scale;
#endif
}

// The bytes at p as 32-bit integers, in order, a vector of them.
inline Ints widen_bytes(const int8_t* p, int8_t flip) {
#if QN_VECTOR_BYTES == 64
  return Ints(_mm512_maskz_cvtepi8_epi32(
      all_lanes, _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(flip))));
#elif QN_VECTOR_BYTES == 32
  return Ints(
      _mm256_cvtepi8_epi32(_mm_xor_si128(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(flip))));
#elif defined(QN_X86)
  int32_t four;
  std::memcpy(&four, p, sizeof four);
  return Ints(_mm_cvtepi8_epi32(_mm_xor_si128(_mm_cvtsi32_si128(four), _mm_set1_epi8(flip))));
#else
  int32_t four;
  std::memcpy(&four, p, sizeof four);
  const int8x8_t v = veor_s8(vreinterpret_s8_s32(vdup_n_s32(four)), vdup_n_s8(flip));
  return Ints(vmovl_s16(vget_low_s16(vmovl_s8(v))));
#endif
}

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(vquantize_qs8)(size_t n, const void* from, void* to, const void* parameters) {
  using namespace quern;
  const auto& p = *static_cast<const qn_convert_qs8*>(parameters);
  const float* x = floats(from);
  int8_t* y = bytes(to);
  const auto convert = [end = Ending(p.zero, INT8_MIN, INT8_MAX), flip = splat_byte(p.flip),
                        scale = p.scale](const Numbers& numbers) {
    return in_order(end(each(numbers, [scale](Vec v) { return divided(v, scale); })) ^ flip);
  };
  for (; n >= byte_lanes; n -= byte_lanes, x += byte_lanes, y += byte_lanes) {
    store_bytes(y, convert(load_floats(x)));
  }
  if (n == 0) return;
  float some[byte_lanes] = {};
  std::memcpy(some, x, n * sizeof(float));
  store_some_bytes(y, convert(load_floats(some)), n);
}

void QN_LEVEL_NAME(vdequantize_qs8)(size_t n, const void* from, void* to, const void* parameters) {
  using namespace quern;
  const auto& p = *static_cast<const qn_convert_qs8*>(parameters);
  const int8_t* x = bytes(from);
  float* y = floats(to);
  const auto convert = [flip = static_cast<int8_t>(p.flip), zero = p.zero, scale = p.scale](const int8_t* at) {
    return __builtin_convertvector(widen_bytes(at, flip) - zero, Vec) * scale;
  };
  for (; n >= width; n -= width, x += width, y += width) store(y, convert(x));
  if (n == 0) return;
  int8_t some[width] = {};
  std::memcpy(some, x, n);
  store_some(y, convert(some), n);
}

}  // extern "C"

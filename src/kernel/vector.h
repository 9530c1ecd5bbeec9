// One vector of floats, for the files NAME_vec.cc, whose kernels are written once with the compiler's vector types.
//
// The build compiles each of these files once per level, with the level's compiler flags and with QN_LEVEL set to the
// level's name (src/CMakeLists.txt lists the levels of each file). Only kernels may have external linkage, because
// their names end in the level. Of any other function with external linkage the linker would keep one copy for all
// levels.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__aarch64__) || defined(__arm__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "kernel/eltwise_math.h"

// For each level: the bytes of a vector, and the number of pixels in a block of a pixel-blocked image, which is 0 if
// the level has no kernels for such images.
#define QN_BYTES_sse41 16
#define QN_BYTES_avx2 32
#define QN_BYTES_avx512 64
#define QN_BYTES_avx512vbmi 64
#define QN_BYTES_neon 16
#define QN_BLOCK_sse41 0
#define QN_BLOCK_avx2 48
#define QN_BLOCK_avx512 64
#define QN_BLOCK_avx512vbmi 64
#define QN_BLOCK_neon 32

#define QN_JOIN(a, b) QN_JOIN2(a, b)
#define QN_JOIN2(a, b) a##b
#define QN_VECTOR_BYTES QN_JOIN(QN_BYTES_, QN_LEVEL)
#define QN_PLANE_BLOCK QN_JOIN(QN_BLOCK_, QN_LEVEL)

// qn_<stem>_<level>
#define QN_LEVEL_NAME(stem) QN_LEVEL_NAME2(stem, QN_LEVEL)
#define QN_LEVEL_NAME2(stem, level) QN_LEVEL_NAME3(stem, level)
#define QN_LEVEL_NAME3(stem, level) qn_##stem##_##level

// qn_<stem>_plane<pixels of a block>_<level>, for kernels of images in blocks of QN_PLANE_BLOCK pixels
#define QN_PLANE_NAME(stem) QN_PLANE_NAME2(stem, QN_PLANE_BLOCK, QN_LEVEL)
#define QN_PLANE_NAME2(stem, block, level) QN_PLANE_NAME3(stem, block, level)
#define QN_PLANE_NAME3(stem, block, level) qn_##stem##_plane##block##_##level

namespace quern {
namespace {

typedef float Vec __attribute__((vector_size(QN_VECTOR_BYTES)));
typedef float UnalignedVec __attribute__((vector_size(QN_VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t Mask __attribute__((vector_size(QN_VECTOR_BYTES)));
constexpr size_t width = sizeof(Vec) / sizeof(float);

inline Vec load(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
inline void store(float* p, Vec v) { *reinterpret_cast<UnalignedVec*>(p) = v; }

// load_some reads exactly p[0] .. p[count-1], with 0 < count < width. The other lanes repeat p[0], so that arithmetic
// with them raises no additional floating-point exceptions. store_some writes the first `count` lanes.
inline Vec load_some(const float* p, size_t count);
inline void store_some(float* p, Vec v, size_t count);
inline Vec square_root(Vec v);

// a / b. 32-bit ARM divides lane by lane with scalar instructions, which do not flush denormals. Multiplying by 1 first
// flushes them, as in all other vector arithmetic.
#if defined(__arm__)
[[gnu::noinline]] inline Vec quotient(Vec a, Vec b) { return vmulq_n_f32(a, 1) / vmulq_n_f32(b, 1); }
#else
inline Vec quotient(Vec a, Vec b) { return a / b; }
#endif

#if QN_VECTOR_BYTES == 64

inline __mmask16 first_lanes(size_t count) { return static_cast<__mmask16>((1u << count) - 1); }
inline Vec load_some(const float* p, size_t count) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(p[0]), first_lanes(count), p);
}
inline void store_some(float* p, Vec v, size_t count) { _mm512_mask_storeu_ps(p, first_lanes(count), v); }
// Lane i is p[i] if bit i is 1. Otherwise it is that of `other`, and p[i] is not read.
inline Vec load_masked(const float* p, uint32_t bits, Vec other) {
  return _mm512_mask_loadu_ps(other, static_cast<__mmask16>(bits), p);
}
inline void store_masked(float* p, uint32_t bits, Vec v) { _mm512_mask_storeu_ps(p, static_cast<__mmask16>(bits), v); }

// These use masked intrinsics because for the plain ones GCC 12 warns of an uninitialised operand. `larger` and
// `smaller` have versions of their own because GCC compiles the comparison to a mask, and not to one instruction as for
// other levels.
constexpr __mmask16 all_lanes = 0xffff;
inline Vec square_root(Vec v) { return _mm512_maskz_sqrt_ps(all_lanes, v); }
template <>
inline Vec larger(Vec a, Vec b) {
  return _mm512_maskz_max_ps(all_lanes, a, b);
}
template <>
inline Vec smaller(Vec a, Vec b) {
  return _mm512_maskz_min_ps(all_lanes, a, b);
}

#elif QN_VECTOR_BYTES == 32

inline Mask first_lanes(size_t count) { return Mask{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(count); }
inline Vec load_some(const float* p, size_t count) {
  const Mask mask = first_lanes(count);
  const Vec some = _mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask));
  return mask ? some : Vec(_mm256_set1_ps(p[0]));
}
inline void store_some(float* p, Vec v, size_t count) {
  _mm256_maskstore_ps(p, reinterpret_cast<__m256i>(first_lanes(count)), v);
}
// Lane i is p[i] if bit i is 1. Otherwise it is that of `other`, and p[i] is not read.
inline Vec load_masked(const float* p, uint32_t bits, Vec other) {
  const Mask each = {1, 2, 4, 8, 16, 32, 64, 128};
  const Mask mask = (static_cast<int32_t>(bits) & each) == each;
  return mask ? Vec(_mm256_maskload_ps(p, reinterpret_cast<__m256i>(mask))) : other;
}
inline Vec square_root(Vec v) { return _mm256_sqrt_ps(v); }

#elif defined(__aarch64__) || defined(__arm__)

inline Vec load_some(const float* p, size_t count) {
  Vec v = vld1q_dup_f32(p);
  if (count > 1) v = vld1q_lane_f32(p + 1, v, 1);
  if (count > 2) v = vld1q_lane_f32(p + 2, v, 2);
  return v;
}
// Does not read v[0], v[1] .. : GCC would then compute each lane alone with scalar instructions, which do not flush
// denormals on 32-bit ARM.
inline void store_some(float* p, Vec v, size_t count) {
  vst1q_lane_f32(p, v, 0);
  if (count > 1) vst1q_lane_f32(p + 1, v, 1);
  if (count > 2) vst1q_lane_f32(p + 2, v, 2);
}
inline Vec load_masked(const float* p, uint32_t bits, Vec other) {
  if (bits == 15) return load(p);
  for (size_t i = 0; i < width; ++i) {
    if ((bits >> i & 1) != 0) other[i] = p[i];
  }
  return other;
}
// The instruction itself gives NaN if either operand is NaN.
template <>
struct Maximum<Vec> {
  Vec value;
  inline void add(Vec x) { value = vmaxq_f32(x, value); }
  inline Vec get() const { return value; }
};
#if defined(__aarch64__)
inline Vec square_root(Vec v) { return vsqrtq_f32(v); }
#else
// 32-bit ARM has no vector instruction for square roots, so it computes them lane by lane.
inline Vec square_root(Vec v) {
  return Vec{__builtin_sqrtf(v[0]), __builtin_sqrtf(v[1]), __builtin_sqrtf(v[2]), __builtin_sqrtf(v[3])};
}
#endif

#else

inline Vec load_some(const float* p, size_t count) {
  return Vec{p[0], p[count > 1 ? 1 : 0], p[count > 2 ? 2 : 0], p[0]};
}
inline void store_some(float* p, Vec v, size_t count) {
  p[0] = v[0];
  if (count > 1) p[1] = v[1];
  if (count > 2) p[2] = v[2];
}
inline Vec square_root(Vec v) { return _mm_sqrt_ps(v); }

#endif

}  // namespace
}  // namespace quern

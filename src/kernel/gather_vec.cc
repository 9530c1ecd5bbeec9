// The kernels of gather.h for one level of vectors; see vector.h.
#include "kernel/gather.h"
#include "kernel/vector.h"

namespace quern {
namespace {

// Pixels is a vector of pixels, Lanes a mask of the lanes that a piece names. add() loads these lanes.
#if QN_VECTOR_BYTES == 64

#define QN_GATHER gather_f32_16
typedef __m512 Pixels;
typedef __mmask16 Lanes;

inline Lanes lanes_of(const qn_gather_piece& piece) { return piece.lanes; }
inline Pixels nothing() { return _mm512_setzero_ps(); }
inline void add(Pixels& pixels, const char* from, Lanes lanes) { pixels = _mm512_mask_loadu_ps(pixels, lanes, from); }
inline void put(char* to, const Pixels& pixels) { _mm512_storeu_ps(to, pixels); }

#elif QN_VECTOR_BYTES == 32

#define QN_GATHER gather_f32_8
typedef __m256 Pixels;
typedef __m256i Lanes;

inline Lanes lanes_of(const qn_gather_piece& piece) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(piece.lanes), bits), bits);
}
inline Pixels nothing() { return _mm256_setzero_ps(); }
inline void add(Pixels& pixels, const char* from, Lanes lanes) {
  pixels = _mm256_or_ps(pixels, _mm256_maskload_ps(reinterpret_cast<const float*>(from), lanes));
}
inline void put(char* to, const Pixels& pixels) { _mm256_storeu_ps(reinterpret_cast<float*>(to), pixels); }

#else

#define QN_GATHER gather_f32_4
typedef float32x4_t Pixels;
typedef uint32_t Lanes;

inline Lanes lanes_of(const qn_gather_piece& piece) { return piece.lanes; }
inline Pixels nothing() { return vdupq_n_f32(0); }
inline void add(Pixels& pixels, const char* from, Lanes lanes) {
  const auto* p = reinterpret_cast<const float*>(from);
  if (lanes == 15) {
    pixels = vld1q_f32(p);
    return;
  }
  if ((lanes & 1) != 0) pixels = vld1q_lane_f32(p, pixels, 0);
  if ((lanes & 2) != 0) pixels = vld1q_lane_f32(p + 1, pixels, 1);
  if ((lanes & 4) != 0) pixels = vld1q_lane_f32(p + 2, pixels, 2);
  if ((lanes & 8) != 0) pixels = vld1q_lane_f32(p + 3, pixels, 3);
}
inline void put(char* to, const Pixels& pixels) { vst1q_f32(reinterpret_cast<float*>(to), pixels); }

#endif

// Gathers `count` rows at a time: each piece is decoded once for all of them, and each row is read and written in
// order.
template <size_t count>
inline void gather_rows_of(size_t vectors, const qn_gather_piece* piece, const char* a, size_t a_stride, char* c,
                           size_t c_stride) {
  for (size_t v = 0; v < vectors; ++v, c += sizeof(Pixels)) {
    Pixels pixels[count];
    for (Pixels& p : pixels) p = nothing();
    do {
      const Lanes lanes = lanes_of(*piece);
      const char* from = a + piece->offset;
      for (size_t r = 0; r < count; ++r) add(pixels[r], from + r * a_stride, lanes);
    } while (piece++->last == 0);
    for (size_t r = 0; r < count; ++r) put(c + r * c_stride, pixels[r]);
  }
}

inline void gather(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a, size_t a_stride, void* c,
                   size_t c_stride) {
  constexpr size_t most = 4;
  const auto* from = static_cast<const char*>(a);
  auto* to = static_cast<char*>(c);
  for (; rows >= most; rows -= most, from += most * a_stride, to += most * c_stride) {
    gather_rows_of<most>(vectors, pieces, from, a_stride, to, c_stride);
  }
  for (; rows > 0; --rows, from += a_stride, to += c_stride) {
    gather_rows_of<1>(vectors, pieces, from, a_stride, to, c_stride);
  }
}

}  // namespace
}  // namespace quern

extern "C" void QN_LEVEL_NAME(QN_GATHER)(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a,
                                         size_t a_stride, void* c, size_t c_stride) {
  quern::gather(rows, vectors, pieces, a, a_stride, c, c_stride);
}

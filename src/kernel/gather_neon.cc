#include <arm_neon.h>

#include "kernel/gather.h"

namespace quern {
namespace {

typedef float32x4_t Pixels;
typedef uint32_t Mask;
constexpr size_t vector_bytes = 16;

inline Mask lanes_of(const qn_gather_piece& piece) { return piece.lanes; }
inline Pixels nothing() { return vdupq_n_f32(0); }
inline void add(Pixels& pixels, const char* from, Mask mask) {
  const auto* p = reinterpret_cast<const float*>(from);
  if (mask == 15) {
    pixels = vld1q_f32(p);
    return;
  }
  if ((mask & 1) != 0) pixels = vld1q_lane_f32(p, pixels, 0);
  if ((mask & 2) != 0) pixels = vld1q_lane_f32(p + 1, pixels, 1);
  if ((mask & 4) != 0) pixels = vld1q_lane_f32(p + 2, pixels, 2);
  if ((mask & 8) != 0) pixels = vld1q_lane_f32(p + 3, pixels, 3);
}
inline void put(char* to, const Pixels& pixels) { vst1q_f32(reinterpret_cast<float*>(to), pixels); }

}  // namespace
}  // namespace quern

#include "kernel/gather_vec.h"

extern "C" void qn_gather_f32_4_neon(size_t rows, size_t vectors, const qn_gather_piece* pieces, const void* a,
                                     size_t a_stride, void* c, size_t c_stride) {
  quern::gather(rows, vectors, pieces, a, a_stride, c, c_stride);
}

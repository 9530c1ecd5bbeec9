// What kernels of type f32 are given: arrays of floats, and as their epilogue the clamp that they end with.
#pragma once

extern "C" {

struct qn_minmax_f32 {
  float min, max;
};

}  // extern "C"

namespace quern {

// What the epilogue of a kernel of type f32 points to.
inline const qn_minmax_f32& minmax_of(const void* epilogue) { return *static_cast<const qn_minmax_f32*>(epilogue); }

// Operands and results of such kernels.
inline const float* floats(const void* p) { return static_cast<const float*>(p); }
inline float* floats(void* p) { return static_cast<float*>(p); }

// Comparisons with NaN are false, so a NaN stays what it is.
inline float clamp(float x, const qn_minmax_f32& p) {
  x = x < p.min ? p.min : x;
  return x > p.max ? p.max : x;
}

}  // namespace quern

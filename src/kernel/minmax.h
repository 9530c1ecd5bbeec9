// The arguments of f32 kernels: arrays of floats, and an epilogue that clamps their results.
#pragma once

extern "C" {

struct qn_minmax_f32 {
  float min, max;
};

}  // extern "C"

namespace quern {

// The clamp that the epilogue argument of an f32 kernel points to.
inline const qn_minmax_f32& minmax_of(const void* epilogue) { return *static_cast<const qn_minmax_f32*>(epilogue); }

// The operands and results of f32 kernels, which they take as void pointers.
inline const float* floats(const void* p) { return static_cast<const float*>(p); }
inline float* floats(void* p) { return static_cast<float*>(p); }

// Keeps a NaN, because comparisons with NaN are false.
inline float clamp(float x, const qn_minmax_f32& p) {
  x = x < p.min ? p.min : x;
  return x > p.max ? p.max : x;
}

}  // namespace quern

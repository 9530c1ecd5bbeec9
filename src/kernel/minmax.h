// The clamp that every kernel ends with.
#pragma once

extern "C" {

struct qn_minmax_f32 {
  float min, max;
};

}  // extern "C"

namespace quern {

// Comparisons with NaN are false, so a NaN stays what it is.
inline float clamp(float x, const qn_minmax_f32& p) {
  x = x < p.min ? p.min : x;
  return x > p.max ? p.max : x;
}

}  // namespace quern

// The epilogue of kernels that end sums of products of bytes as bytes (type qs8c): they multiply each sum by the scale
// of its channel, round, add the zero point, and clamp.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Begins the epilogue of each panel of NR output channels. The NR scales of these channels follow, as floats, then the
// epilogue of the next panel. So the epilogues of a call lie in memory like its panels.
struct qn_requantize {
  int32_t zero;      // the zero point of the outputs, -128 .. 127
  int32_t min, max;  // what outputs are clamped to, -128 <= min <= max <= 127
  int32_t reserved;  // 0
};

}  // extern "C"

namespace quern {

constexpr size_t requantize_bytes(size_t nr) { return sizeof(qn_requantize) + nr * sizeof(float); }

inline const qn_requantize& requantize_of(const void* epilogue) { return *static_cast<const qn_requantize*>(epilogue); }
inline const float* scales_of(const void* epilogue) {
  return reinterpret_cast<const float*>(static_cast<const char*>(epilogue) + sizeof(qn_requantize));
}

// Returns clamp(round(float(sum) * scale) + zero, min, max). The conversion and the product round to nearest even, and
// so does round(). Clamps before it rounds, which gives the same because the bounds are integers: then all numbers are
// small enough to be rounded by the addition of a large one.
inline int8_t requantize(int32_t sum, float scale, const qn_requantize& p) {
  constexpr float large = 0x1.8p23f;  // floats of this size have no fraction
  const auto low = static_cast<float>(p.min - p.zero), high = static_cast<float>(p.max - p.zero);
  float steps = static_cast<float>(sum) * scale;
  steps = steps < low ? low : steps;
  steps = steps > high ? high : steps;
  return static_cast<int8_t>(static_cast<int32_t>(steps + large - large) + p.zero);
}

// The operands of kernels of bytes, which they take as void pointers.
inline const int8_t* bytes(const void* p) { return static_cast<const int8_t*>(p); }
inline int8_t* bytes(void* p) { return static_cast<int8_t*>(p); }

}  // namespace quern

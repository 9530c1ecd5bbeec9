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

// Returns clamp(round(x), low, high); `low` for a NaN. round() is to nearest even. Limits x first, which gives the same
// because the bounds are integers: then x is small enough to be rounded by the addition of a large number.
inline int32_t round_within(float x, int32_t low, int32_t high) {
  constexpr float large = 0x1.8p23f;  // floats of this size have no fraction
  const auto least = static_cast<float>(low), most = static_cast<float>(high);
  x = x > least ? x : least;
  x = x < most ? x : most;
  return static_cast<int32_t>(x + large - large);
}

// Returns clamp(round(float(sum) * scale) + zero, min, max). The conversion and the product round to nearest even, too.
inline int8_t requantize(int32_t sum, float scale, const qn_requantize& p) {
  return static_cast<int8_t>(round_within(static_cast<float>(sum) * scale, p.min - p.zero, p.max - p.zero) + p.zero);
}

// The operands of kernels of bytes, which they take as void pointers.
inline const int8_t* bytes(const void* p) { return static_cast<const int8_t*>(p); }
inline int8_t* bytes(void* p) { return static_cast<int8_t*>(p); }

}  // namespace quern

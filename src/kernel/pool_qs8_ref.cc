#include <algorithm>

#include "kernel/pool.h"
#include "kernel/requantize.h"

namespace quern {
namespace {

const qn_pool_qs8& pool_of(const void* p) { return *static_cast<const qn_pool_qs8*>(p); }

// Combines the taps of every channel of every pixel with fold(); finish(value, x) makes the output of pixel x.
template <class Fold, class Finish>
void pool_qs8(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a, void* c,
              size_t c_stride, int32_t start, Fold fold, Finish finish) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    int8_t* const out = bytes(c) + x * c_stride;
    for (size_t i = 0; i < channels; ++i) {
      int32_t value = start;
      for (size_t t = 0; t < taps; ++t) {
        if (table[t] >= 0) value = fold(value, bytes(a)[static_cast<size_t>(table[t]) + i]);
      }
      out[i] = static_cast<int8_t>(finish(value, x));
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" void qn_maxpool_qs8_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                   const void* a, const void*, void* c, size_t c_stride, const void* p) {
  const qn_pool_qs8& limits = quern::pool_of(p);
  quern::pool_qs8(
      channels, pixels, taps, offsets, step, a, c, c_stride, INT8_MIN,
      [](int32_t max, int32_t value) { return std::max(max, value); },
      [&](int32_t max, size_t) { return std::clamp(max, limits.min, limits.max); });
}

extern "C" void qn_avgpool_qs8_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                   const void* a, const void* scale, void* c, size_t c_stride, const void* p) {
  const qn_pool_qs8& numbers = quern::pool_of(p);
  const qn_requantize ending = {numbers.zero, numbers.min, numbers.max, 0};
  quern::pool_qs8(
      channels, pixels, taps, offsets, step, a, c, c_stride, 0,
      [&](int32_t sum, int32_t value) { return sum + value - numbers.zero_in; },
      [&](int32_t sum, size_t x) { return quern::requantize(sum, static_cast<const float*>(scale)[x], ending); });
}

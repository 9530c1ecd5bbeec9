// The row kernels of pool.h for bytes, for one level of vectors; see vector_qs8.h.
#include "kernel/pool.h"
#include "kernel/vector_qs8.h"

namespace quern {
namespace {

// Combines the taps of each vector of channels with fold(); finish(value, x) makes the outputs of pixel x.
template <class Fold, class Finish>
inline void pool(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a,
                 void* c, size_t c_stride, int32_t start, Fold fold, Finish finish) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    for (size_t n = 0; n < channels; n += panel_channels) {
      Sums values = {Ints{} + start, Ints{} + start};
      for (size_t t = 0; t < taps; ++t) {
        if (table[t] < 0) continue;
        const Sums in = widen_some(bytes(a) + table[t] + n, channels - n);
        values = {fold(values.low, in.low), fold(values.high, in.high)};
      }
      narrow_some({finish(values.low, x), finish(values.high, x)}, bytes(c) + x * c_stride + n, channels - n);
    }
  }
}

}  // namespace
}  // namespace quern

extern "C" {

void QN_LEVEL_NAME(maxpool_qs8)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const void*, void* c, size_t c_stride, const void* p) {
  using namespace quern;
  const auto& limits = *static_cast<const qn_pool_qs8*>(p);
  const Ints min = Ints{} + limits.min, max = Ints{} + limits.max;
  pool(channels, pixels, taps, offsets, step, a, c, c_stride, INT8_MIN, larger<Ints>,
       [=](Ints value, size_t) { return smaller(larger(value, min), max); });
}

void QN_LEVEL_NAME(avgpool_qs8)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                const void* a, const void* scale, void* c, size_t c_stride, const void* p) {
  using namespace quern;
  const auto& numbers = *static_cast<const qn_pool_qs8*>(p);
  const qn_requantize ending = {numbers.zero, numbers.min, numbers.max, 0};
  pool(
      channels, pixels, taps, offsets, step, a, c, c_stride, 0,
      [zero = numbers.zero_in](Ints sum, Ints value) { return sum + value - zero; },
      [=, s = floats(scale)](Ints sum, size_t x) { return requantize(sum, splat<Vec>(s[x]), ending); });
}

}  // extern "C"

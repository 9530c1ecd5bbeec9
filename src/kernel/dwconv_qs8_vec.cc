// The row kernel of dwconv.h for bytes, for one level of vectors; see vector_qs8.h.
#include "kernel/dwconv.h"
#include "kernel/vector_qs8.h"

extern "C" void QN_LEVEL_NAME(dwconv_qs8c_vec)(size_t channels, size_t pixels, size_t taps, const int32_t* offsets,
                                               size_t step, const void* a, const void* zero, const void* w, void* c,
                                               size_t c_stride, const void* p) {
  using namespace quern;
  constexpr size_t nr = panel_channels;
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    const auto* panel = static_cast<const char*>(w);
    const auto* epilogue = static_cast<const char*>(p);
    for (size_t n0 = 0; n0 < channels; n0 += nr) {
      const size_t count = channels - n0;
      Sums sums = load_sums(panel);
      const int8_t* weights = bytes(panel + nr * sizeof(int32_t));
      for (size_t t = 0; t < taps; ++t, weights += nr) {
        const int8_t* pixel = (table[t] < 0 ? bytes(zero) : bytes(a) + table[t]) + n0;
        const Sums in = widen_some(pixel, count), factors = widen(weights);
        sums.low += in.low * factors.low;
        sums.high += in.high * factors.high;
      }
      end_sums(sums, epilogue, bytes(c) + x * c_stride + n0, count);
      panel += nr * (taps + sizeof(int32_t)), epilogue += requantize_bytes(nr);
    }
  }
}

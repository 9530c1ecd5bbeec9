#include "base/math.h"
#include "kernel/dwconv.h"
#include "kernel/requantize.h"

extern "C" void qn_dwconv_qs8c_np8_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                       const void* a, const void* zero, const void* w, void* c, size_t c_stride,
                                       const void* p) {
  using namespace quern;
  constexpr size_t nr = 8;
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    int8_t* const out = bytes(c) + x * c_stride;
    const auto* panel = static_cast<const char*>(w);
    const auto* epilogue = static_cast<const char*>(p);
    for (size_t n0 = 0; n0 < channels; n0 += nr) {
      const auto* bias = reinterpret_cast<const int32_t*>(panel);
      const int8_t* weights = bytes(bias + nr);
      for (size_t n = 0; n < nr && n0 + n < channels; ++n) {
        int32_t sum = bias[n];
        for (size_t t = 0; t < taps; ++t) {
          const int8_t* pixel = bytes(table[t] < 0 ? zero : static_cast<const char*>(a) + table[t]);
          sum = wrapping_add(sum, pixel[n0 + n] * weights[t * nr + n]);
        }
        out[n0 + n] = requantize(sum, scales_of(epilogue)[n], requantize_of(epilogue));
      }
      panel += nr * (taps + sizeof(int32_t)), epilogue += requantize_bytes(nr);
    }
  }
}

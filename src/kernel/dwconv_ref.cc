#include "kernel/dwconv.h"

namespace quern {
namespace {

constexpr DwconvRow rows[] = {
#define QN_DWCONV_ROW(type, taps, nr, isa, layout, name) \
  {{#name, QN_##type, isa_##isa, QN_LAYOUT_##layout}, taps, nr, name},
#include "kernel/dwconv.inc"
#undef QN_DWCONV_ROW
};

}  // namespace

std::span<const DwconvRow> dwconv_rows() { return rows; }

}  // namespace quern

extern "C" void qn_dwconv_f32_np8_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                      const void* a, const void* zero, const void* w, void* c, size_t c_stride,
                                      const qn_minmax_f32* p) {
  constexpr size_t nr = 8;
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + x * c_stride);
    const auto* panel = static_cast<const float*>(w);
    for (size_t c0 = 0; c0 < channels; c0 += nr, panel += nr * (taps + 1)) {
      const size_t count = channels - c0 < nr ? channels - c0 : nr;
      float sum[nr];
      for (size_t i = 0; i < count; ++i) sum[i] = panel[i];
      for (size_t t = 0; t < taps; ++t) {
        const auto* row = static_cast<const float*>(table[t] < 0 ? zero : static_cast<const char*>(a) + table[t]) + c0;
        for (size_t i = 0; i < count; ++i) sum[i] += row[i] * panel[(t + 1) * nr + i];
      }
      for (size_t i = 0; i < count; ++i) out[c0 + i] = quern::clamp(sum[i], *p);
    }
  }
}

#include "kernel/dwconv.h"

namespace quern {
namespace {

constexpr DwconvRow row_rows[] = {
#define QN_DWCONV_ROW(type, nr, isa, layout, name) {{#name, QN_##type, isa_##isa, QN_LAYOUT_##layout}, nr, name},
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, isa, layout, name)
#include "kernel/dwconv.inc"
#undef QN_DWCONV_ROW
#undef QN_DWCONV_TILE_ROW
};

constexpr DwconvTileRow tile_rows[] = {
#define QN_DWCONV_ROW(type, nr, isa, layout, name)
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, isa, layout, name) \
  {{#name, QN_##type, isa_##isa, QN_LAYOUT_##layout}, kernel, stride, rows, nr, name},
#include "kernel/dwconv.inc"
#undef QN_DWCONV_ROW
#undef QN_DWCONV_TILE_ROW
};

constexpr size_t nr = 8;

// One pixel. Kernel columns of `kernel` offsets lie `column` entries apart. Without `zero`, padding is not read. One
// copy of it is enough.
[[gnu::noinline, gnu::noclone]] void pixel(size_t channels, size_t taps, size_t kernel, const int32_t* offsets,
                                           size_t column, const void* a, const void* zero, const void* w, void* c,
                                           const qn_minmax_f32& p) {
  const auto* panel = static_cast<const float*>(w);
  auto* out = static_cast<float*>(c);
  for (size_t c0 = 0; c0 < channels; c0 += nr, panel += nr * (taps + 1)) {
    const size_t count = channels - c0 < nr ? channels - c0 : nr;
    float sum[nr];
    for (size_t i = 0; i < count; ++i) sum[i] = panel[i];
    for (size_t t = 0; t < taps; ++t) {
      const int32_t offset = offsets[t / kernel * column + t % kernel];
      const auto* row = static_cast<const float*>(offset < 0 ? zero : static_cast<const char*>(a) + offset);
      for (size_t i = 0; i < count; ++i) sum[i] += (row == nullptr ? 0 : row[c0 + i]) * panel[(t + 1) * nr + i];
    }
    for (size_t i = 0; i < count; ++i) out[c0 + i] = clamp(sum[i], p);
  }
}

void tile(size_t kernel, size_t stride, size_t channels, size_t pixels, size_t rows, const int32_t* offsets,
          const void* a, const void* w, void* c, size_t row_stride, size_t c_stride, const qn_minmax_f32* p) {
  const size_t column = (2 - 1) * stride + kernel;
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < pixels; ++x) {
      pixel(channels, kernel * kernel, kernel, offsets + x * stride * column + y * stride, column, a, nullptr, w,
            static_cast<char*>(c) + y * row_stride + x * c_stride, *p);
    }
  }
}

}  // namespace

std::span<const DwconvRow> dwconv_rows() { return row_rows; }
std::span<const DwconvTileRow> dwconv_tile_rows() { return tile_rows; }

}  // namespace quern

extern "C" {

void qn_dwconv_f32_np8_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                           const void* a, const void* zero, const void* w, void* c, size_t c_stride,
                           const qn_minmax_f32* p) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    quern::pixel(channels, taps, taps, table, 0, a, zero, w, static_cast<char*>(c) + x * c_stride, *p);
  }
}

#define TILE(kernel, stride)                                                                                       \
  void qn_dwconv_f32_k##kernel##s##stride##_2x8_ref(size_t channels, size_t pixels, size_t rows,                   \
                                                    const int32_t* offsets, const void* a, const void* w, void* c, \
                                                    size_t row_stride, size_t c_stride, const qn_minmax_f32* p) {  \
    quern::tile(kernel, stride, channels, pixels, rows, offsets, a, w, c, row_stride, c_stride, p);                \
  }
TILE(3, 1)
TILE(3, 2)
TILE(5, 1)
TILE(5, 2)

}  // extern "C"

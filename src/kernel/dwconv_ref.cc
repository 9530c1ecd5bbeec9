#include "kernel/dwconv.h"

namespace quern {
namespace {

constexpr DwconvRow dwconv_table[] = {
#define QN_DWCONV_ROW(type, nr, isa, layout, name) {QN_ROW(type, isa, layout, name), nr, name},
#include "kernel/dwconv.inc"
};

constexpr DwconvTileRow dwconv_tile_table[] = {
#define QN_DWCONV_TILE_ROW(type, kernel, stride, rows, nr, panel, demands, isa, layout, name) \
  {QN_DEMANDING_ROW(type, demands, isa, layout, name), kernel, stride, rows, nr, panel_##panel, name},
#include "kernel/dwconv.inc"
};

constexpr DwconvPlaneRow dwconv_plane_table[] = {
#define QN_DWCONV_PLANE_ROW(type, kernel, block, lanes, isa, layout, name) \
  {QN_ROW(type, isa, layout, name), kernel, block, lanes, name},
#include "kernel/dwconv.inc"
};

constexpr DwconvImageRow dwconv_image_table[] = {
#define QN_DWCONV_IMAGE_ROW(type, lanes, isa, layout, name) {QN_ROW(type, isa, layout, name), lanes, name},
#include "kernel/dwconv.inc"
};

constexpr size_t nr = 8;

// Computes one pixel. Each kernel column has `kernel` offsets; from one column to the next it is `column` entries. The
// function is not inlined: one copy serves all kernels here.
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
      for (size_t i = 0; i < count; ++i) sum[i] += row[c0 + i] * panel[(t + 1) * nr + i];
    }
    for (size_t i = 0; i < count; ++i) out[c0 + i] = clamp(sum[i], p);
  }
}

void tile(size_t kernel, size_t stride, size_t channels, size_t pixels, size_t rows, const int32_t* offsets,
          const void* a, const void* w, void* c, size_t row_stride, size_t c_stride, const void* p, const void* zero) {
  const size_t column = (2 - 1) * stride + kernel;
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < pixels; ++x) {
      pixel(channels, kernel * kernel, kernel, offsets + x * stride * column + y * stride, column, a, zero, w,
            static_cast<char*>(c) + y * row_stride + x * c_stride, minmax_of(p));
    }
  }
}

}  // namespace

std::span<const DwconvRow> dwconv_rows() { return built<dwconv_table>(); }
std::span<const DwconvTileRow> dwconv_tile_rows() { return built<dwconv_tile_table>(); }
std::span<const DwconvPlaneRow> dwconv_plane_rows() { return built<dwconv_plane_table>(); }
std::span<const DwconvImageRow> dwconv_image_rows() { return built<dwconv_image_table>(); }

}  // namespace quern

extern "C" {

void qn_dwconv_f32_np8_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                           const void* a, const void* zero, const void* w, void* c, size_t c_stride, const void* p) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    quern::pixel(channels, taps, taps, table, 0, a, zero, w, static_cast<char*>(c) + x * c_stride, quern::minmax_of(p));
  }
}

#define TILE(kernel, stride)                                                                                      \
  void qn_dwconv_f32_k##kernel##s##stride##_2x8_ref(                                                              \
      size_t channels, size_t pixels, size_t rows, const int32_t* offsets, const void* a, const void* w, void* c, \
      size_t row_stride, size_t c_stride, const void* p, const void* zero) {                                      \
    quern::tile(kernel, stride, channels, pixels, rows, offsets, a, w, c, row_stride, c_stride, p, zero);         \
  }
TILE(3, 1)
TILE(3, 2)
TILE(5, 1)
TILE(5, 2)

void qn_dwconv_f32_plane_ref(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets, const void* masks,
                             size_t mask_stride, const void* a, const void* w, void* c, size_t c_stride,
                             const void* p) {
  constexpr size_t block = quern::reference_pixel_block;
  const auto* weights = static_cast<const float*>(w);
  for (size_t x = 0; x < pixels; ++x) {
    float sum = weights[0];
    for (size_t t = 0; t < kernel_h * kernel_w; ++t) {
      const auto* bits = static_cast<const uint8_t*>(masks) + t / kernel_h * mask_stride;
      const bool counts = (bits[x / 8] >> x % 8 & 1) != 0;
      const auto* in = reinterpret_cast<const float*>(static_cast<const char*>(a) + offsets[t]);
      sum += (counts ? in[x] : 0) * weights[t + 1];
    }
    reinterpret_cast<float*>(static_cast<char*>(c) + x / block * c_stride)[x % block] =
        quern::clamp(sum, quern::minmax_of(p));
  }
}

void qn_dwconv_f32_image_k3s2_ref(size_t rows, size_t columns, const void* a, size_t a_stride, const void* w, void* c,
                                  size_t c_stride, const void* p) {
  const auto* weights = static_cast<const float*>(w);
  for (size_t y = 0; y < rows; ++y) {
    for (size_t x = 0; x < columns; ++x) {
      float sum = weights[0];
      for (size_t t = 0; t < 9; ++t) {
        const auto* row = reinterpret_cast<const float*>(static_cast<const char*>(a) + (2 * y + t % 3) * a_stride);
        sum += (x == 0 && t < 3 ? 0 : row[2 * x + t / 3 - 1]) * weights[t + 1];
      }
      reinterpret_cast<float*>(static_cast<char*>(c) + y * c_stride)[x] = quern::clamp(sum, quern::minmax_of(p));
    }
  }
}

}  // extern "C"

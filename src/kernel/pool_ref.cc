#include "kernel/pool.h"

#include <limits>

namespace quern {
namespace {

constexpr PoolRow pool_table[] = {
#define QN_POOL_ROW(type, kind, isa, layout, name) {QN_ROW(type, isa, layout, name), PoolKind::kind, name},
#include "kernel/pool.inc"
};

constexpr PoolPlaneRow pool_plane_table[] = {
#define QN_POOL_PLANE_ROW(type, kind, block, lanes, isa, layout, name) \
  {QN_ROW(type, isa, layout, name), PoolKind::kind, block, lanes, name},
#include "kernel/pool.inc"
};

// The functions that combine the taps of a pixel; a maximum begins with `lowest`.
constexpr float lowest = -std::numeric_limits<float>::infinity();
float larger_or_nan(float max, float value) { return value > max || value != value ? value : max; }
float sum(float so_far, float value) { return so_far + value; }

// Combines the taps of every channel of every pixel with fold(); finish(value, x) makes the output of pixel x.
template <class Fold, class Finish>
void pool(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step, const void* a, void* c,
          size_t c_stride, float start, Fold fold, Finish finish) {
  for (size_t x = 0; x < pixels; ++x) {
    const auto* table = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(offsets) + x * step);
    auto* out = reinterpret_cast<float*>(static_cast<char*>(c) + x * c_stride);
    for (size_t i = 0; i < channels; ++i) {
      float value = start;
      for (size_t t = 0; t < taps; ++t) {
        if (table[t] < 0) continue;
        value = fold(value, reinterpret_cast<const float*>(static_cast<const char*>(a) + table[t])[i]);
      }
      out[i] = finish(value, x);
    }
  }
}

// Does the same for the pixels of one channel; the output lies in blocks.
template <class Fold, class Finish>
void pool_plane(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets, const void* masks,
                size_t mask_stride, const void* a, void* c, size_t c_stride, float start, Fold fold, Finish finish) {
  constexpr size_t block = reference_pixel_block;
  for (size_t x = 0; x < pixels; ++x) {
    float value = start;
    for (size_t t = 0; t < kernel_h * kernel_w; ++t) {
      const auto* bits = static_cast<const uint8_t*>(masks) + t / kernel_h * mask_stride;
      if ((bits[x / 8] >> x % 8 & 1) == 0) continue;
      value = fold(value, reinterpret_cast<const float*>(static_cast<const char*>(a) + offsets[t])[x]);
    }
    reinterpret_cast<float*>(static_cast<char*>(c) + x / block * c_stride)[x % block] = finish(value, x);
  }
}

}  // namespace

std::span<const PoolRow> pool_rows() { return built<pool_table>(); }
std::span<const PoolPlaneRow> pool_plane_rows() { return built<pool_plane_table>(); }

}  // namespace quern

extern "C" void qn_maxpool_f32_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                   const void* a, const void*, void* c, size_t c_stride, const void* p) {
  quern::pool(channels, pixels, taps, offsets, step, a, c, c_stride, quern::lowest, quern::larger_or_nan,
              [&](float max, size_t) { return quern::clamp(max, quern::minmax_of(p)); });
}

extern "C" void qn_avgpool_f32_ref(size_t channels, size_t pixels, size_t taps, const int32_t* offsets, size_t step,
                                   const void* a, const void* scale, void* c, size_t c_stride, const void* p) {
  quern::pool(channels, pixels, taps, offsets, step, a, c, c_stride, 0, quern::sum, [&](float sum, size_t x) {
    return quern::clamp(static_cast<const float*>(scale)[x] * sum, quern::minmax_of(p));
  });
}

extern "C" void qn_maxpool_f32_plane_ref(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                         const void* masks, size_t mask_stride, const void* a, const void*, void* c,
                                         size_t c_stride, const void* p) {
  quern::pool_plane(pixels, kernel_h, kernel_w, offsets, masks, mask_stride, a, c, c_stride, quern::lowest,
                    quern::larger_or_nan, [&](float max, size_t) { return quern::clamp(max, quern::minmax_of(p)); });
}

extern "C" void qn_avgpool_f32_plane_ref(size_t pixels, size_t kernel_h, size_t kernel_w, const int32_t* offsets,
                                         const void* masks, size_t mask_stride, const void* a, const void* scale,
                                         void* c, size_t c_stride, const void* p) {
  quern::pool_plane(pixels, kernel_h, kernel_w, offsets, masks, mask_stride, a, c, c_stride, 0, quern::sum,
                    [&](float sum, size_t x) {
                      return quern::clamp(static_cast<const float*>(scale)[x] * sum, quern::minmax_of(p));
                    });
}

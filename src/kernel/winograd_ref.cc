#include "kernel/winograd.h"

#include "kernel/winograd_math.h"

namespace quern {
namespace {

constexpr WinogradRow table[] = {
#define QN_WINOGRAD_ROW(type, outputs, isa, layout, name) \
  {{#name, QN_##type, isa_##isa, QN_LAYOUT_##layout}, outputs, name##_input, name##_output},
#include "kernel/winograd.inc"
#undef QN_WINOGRAD_ROW
};

const float* floats(const void* base, size_t bytes) {
  return reinterpret_cast<const float*>(static_cast<const char*>(base) + bytes);
}
float* floats(void* base, size_t bytes) { return reinterpret_cast<float*>(static_cast<char*>(base) + bytes); }

template <size_t m>
void input(size_t channels, const void* a, size_t row_stride, size_t pixel_stride, size_t top, size_t bottom,
           size_t left, size_t right, const void* zero, void* v, size_t v_stride) {
  constexpr size_t n = m + 2;
  for (size_t channel = 0; channel < channels; ++channel) {
    float half[n][n], d[n], t[n];
    for (size_t x = 0; x < n; ++x) {
      for (size_t y = 0; y < n; ++y) {
        const bool inside = y >= top && y < bottom && x >= left && x < right;
        d[y] = (inside ? floats(a, (y - top) * row_stride + (x - left) * pixel_stride) : floats(zero, 0))[channel];
      }
      Winograd<m>::input(d, t);
      for (size_t i = 0; i < n; ++i) half[i][x] = t[i];
    }
    for (size_t i = 0; i < n; ++i) {
      Winograd<m>::input(half[i], t);
      for (size_t j = 0; j < n; ++j) floats(v, (i * n + j) * v_stride)[channel] = t[j];
    }
  }
}

template <size_t m>
void output(size_t channels, const void* products, size_t m_stride, const float* bias, void* c, size_t row_stride,
            size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32* p) {
  constexpr size_t n = m + 2;
  for (size_t channel = 0; channel < channels; ++channel) {
    float half[m][n], d[n], t[m];
    for (size_t x = 0; x < n; ++x) {
      for (size_t i = 0; i < n; ++i) d[i] = floats(products, (i * n + x) * m_stride)[channel];
      Winograd<m>::output(d, t);
      for (size_t y = 0; y < m; ++y) half[y][x] = t[y];
    }
    for (size_t y = 0; y < rows; ++y) {
      Winograd<m>::output(half[y], t);
      for (size_t x = 0; x < columns; ++x) {
        floats(c, y * row_stride + x * pixel_stride)[channel] = clamp(t[x] + bias[channel], *p);
      }
    }
  }
}

}  // namespace

std::span<const WinogradRow> winograd_rows() { return table; }

}  // namespace quern

#define QN_KERNELS(outputs, name)                                                                                      \
  void name##_input(size_t channels, const void* a, size_t row_stride, size_t pixel_stride, size_t top, size_t bottom, \
                    size_t left, size_t right, const void* zero, void* v, size_t v_stride) {                           \
    quern::input<outputs>(channels, a, row_stride, pixel_stride, top, bottom, left, right, zero, v, v_stride);         \
  }                                                                                                                    \
  void name##_output(size_t channels, const void* m, size_t m_stride, const float* bias, void* c, size_t row_stride,   \
                     size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32* p) {                       \
    quern::output<outputs>(channels, m, m_stride, bias, c, row_stride, pixel_stride, rows, columns, p);                \
  }

extern "C" {

QN_KERNELS(2, qn_winograd_f32_2x2_ref)
QN_KERNELS(4, qn_winograd_f32_4x4_ref)
QN_KERNELS(6, qn_winograd_f32_6x6_ref)

}  // extern "C"

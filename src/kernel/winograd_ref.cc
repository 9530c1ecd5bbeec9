#include "kernel/winograd.h"

#include "kernel/winograd_math.h"

namespace quern {
namespace {

constexpr WinogradRow winograd_table[] = {
#define QN_WINOGRAD_ROW(type, outputs, isa, layout, name) \
  {QN_ROW(type, isa, layout, name), outputs, name##_input, name##_output},
#include "kernel/winograd.inc"
};

const float* floats(const void* base, size_t bytes) {
  return reinterpret_cast<const float*>(static_cast<const char*>(base) + bytes);
}
float* floats(void* base, size_t bytes) { return reinterpret_cast<float*>(static_cast<char*>(base) + bytes); }

constexpr size_t max_n = 8;

// Transforms the inputs of a tile along one direction. Values at points that the tile does not have mean nothing. As
// elsewhere in this file, one function serves all sizes where possible, to keep the code small: few machines run it.
template <size_t m, size_t k = m>
void input_line(size_t outputs, const float* d, float* v) {
  if constexpr (k > 2) {
    if (outputs <= k - 2) return input_line<m, k - 2>(outputs, d, v);
  }
  float in[k + 2], out[k + 2];
  for (size_t i = 0; i < k + 2; ++i) in[i] = d[i];
  Winograd<m, k>::input(in, out);
  for (size_t i = 0; i < k + 2; ++i) v[i <= k ? i : m + 1] = out[i];
}
using InputLine = void(size_t outputs, const float* d, float* v);

template <size_t m, size_t k = m>
void output_line(size_t outputs, const float* p, float* y) {
  if constexpr (k > 2) {
    if (outputs <= k - 2) return output_line<m, k - 2>(outputs, p, y);
  }
  float in[k + 2], out[k];
  for (size_t i = 0; i < k + 2; ++i) in[i] = p[i <= k ? i : m + 1];
  Winograd<m, k>::output(in, out);
  for (size_t i = 0; i < k; ++i) y[i] = out[i];
}
using OutputLine = void(size_t outputs, const float* p, float* y);

void input(InputLine* transform, size_t m, size_t channels, const void* a, size_t row_stride, size_t pixel_stride,
           const qn_winograd_tile& tile, const void* zero, void* v, size_t v_stride) {
  const size_t n = m + 2;
  for (size_t channel = 0; channel < channels; ++channel) {
    float halfway[max_n][max_n], d[max_n] = {}, t[max_n] = {};
    for (size_t x = 0; x < winograd_even(tile.columns) + 2; ++x) {
      for (size_t y = 0; y < winograd_even(tile.rows) + 2; ++y) {
        const bool inside = y >= tile.top && y < tile.bottom && x >= tile.left && x < tile.right;
        d[y] = (inside ? floats(a, (y - tile.top) * row_stride + (x - tile.left) * pixel_stride)
                       : floats(zero, 0))[channel];
      }
      transform(tile.rows, d, t);
      for (size_t i = 0; i < n; ++i) halfway[i][x] = t[i];
    }
    for (size_t i = 0; i < n; ++i) {
      if (!winograd_has(m, tile.rows, i)) continue;
      transform(tile.columns, halfway[i], t);
      for (size_t j = 0; j < n; ++j) {
        if (winograd_has(m, tile.columns, j)) floats(v, (i * n + j) * v_stride)[channel] = t[j];
      }
    }
  }
}

void output(OutputLine* transform, size_t m, size_t channels, const void* products, size_t m_stride, const float* bias,
            void* c, size_t row_stride, size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32& p) {
  const size_t n = m + 2;
  for (size_t channel = 0; channel < channels; ++channel) {
    float halfway[max_n][max_n] = {}, d[max_n] = {}, t[max_n];
    for (size_t x = 0; x < n; ++x) {
      if (!winograd_has(m, columns, x)) continue;
      for (size_t i = 0; i < n; ++i) {
        if (winograd_has(m, rows, i)) d[i] = floats(products, (i * n + x) * m_stride)[channel];
      }
      transform(rows, d, t);
      for (size_t y = 0; y < rows; ++y) halfway[y][x] = t[y];
    }
    for (size_t y = 0; y < rows; ++y) {
      transform(columns, halfway[y], t);
      for (size_t x = 0; x < columns; ++x) {
        floats(c, y * row_stride + x * pixel_stride)[channel] = clamp(t[x] + bias[channel], p);
      }
    }
  }
}

}  // namespace

std::span<const WinogradRow> winograd_rows() { return built<winograd_table>(); }

}  // namespace quern

#define QN_KERNELS(outputs, name)                                                                                   \
  void name##_input(size_t channels, const void* a, size_t row_stride, size_t pixel_stride,                         \
                    const qn_winograd_tile* tile, const void* zero, void* v, size_t v_stride) {                     \
    quern::input(quern::input_line<outputs>, outputs, channels, a, row_stride, pixel_stride, *tile, zero, v,        \
                 v_stride);                                                                                         \
  }                                                                                                                 \
  void name##_output(size_t channels, const void* m, size_t m_stride, const void* bias, void* c, size_t row_stride, \
                     size_t pixel_stride, size_t rows, size_t columns, const void* p) {                             \
    quern::output(quern::output_line<outputs>, outputs, channels, m, m_stride, quern::floats(bias), c, row_stride,  \
                  pixel_stride, rows, columns, quern::minmax_of(p));                                                \
  }

extern "C" {

QN_KERNELS(2, qn_winograd_f32_2x2_ref)
QN_KERNELS(4, qn_winograd_f32_4x4_ref)
QN_KERNELS(6, qn_winograd_f32_6x6_ref)

}  // extern "C"

// The kernels of winograd.h for one vector level; see vector.h for how a level's file includes this.
#include "kernel/vector.h"
#include "kernel/winograd.h"
#include "kernel/winograd_math.h"

namespace quern {
namespace {

inline const char* at(const void* base, size_t bytes) { return static_cast<const char*>(base) + bytes; }
inline char* at(void* base, size_t bytes) { return static_cast<char*>(base) + bytes; }
inline const float* floats(const char* address) { return reinterpret_cast<const float*>(address); }
inline float* floats(char* address) { return reinterpret_cast<float*>(address); }

// Code stays small: there is one body per kernel, for a whole vector of channels, whose loops over lines stay loops;
// what is left of the channels goes through it by way of arrays of vectors; what is around the bodies is shared by all
// sizes.

constexpr size_t max_points = 8 * 8, max_outputs = 6 * 6;

// ---- input ----

template <size_t m>
[[gnu::noinline, gnu::noclone]] void input_vec(const float* const* pixels, size_t channel, char* v, size_t v_stride) {
  constexpr size_t n = m + 2;
  Vec half[n][n];  // columns are transformed
#pragma GCC unroll 1
  for (size_t x = 0; x < n; ++x) {
    Vec d[n], t[n];
#pragma GCC unroll 8
    for (size_t y = 0; y < n; ++y) d[y] = load(pixels[y * n + x] + channel);
    Winograd<m>::input(d, t);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; ++i) half[i][x] = t[i];
  }
#pragma GCC unroll 1
  for (size_t i = 0; i < n; ++i) {
    Vec d[n], t[n];
#pragma GCC unroll 8
    for (size_t x = 0; x < n; ++x) d[x] = half[i][x];
    Winograd<m>::input(d, t);
#pragma GCC unroll 8
    for (size_t j = 0; j < n; ++j, v += v_stride) store(floats(v), t[j]);
  }
}

// Where the n x n pixels are.
[[gnu::noinline, gnu::noclone]] void find_pixels(size_t n, const void* a, size_t row_stride, size_t pixel_stride,
                                                 size_t top, size_t bottom, size_t left, size_t right, const void* zero,
                                                 const float** pixels) {
  const auto* zeros = static_cast<const float*>(zero);
  for (size_t i = 0; i < n * n; ++i) pixels[i] = zeros;
  for (size_t y = top; y < bottom; ++y) {
    const char* pixel = at(a, (y - top) * row_stride);
#pragma GCC unroll 1
    for (size_t x = left; x < right; ++x, pixel += pixel_stride) pixels[y * n + x] = floats(pixel);
  }
}

using InputVec = void(const float* const* pixels, size_t channel, char* v, size_t v_stride);

[[gnu::noinline, gnu::noclone]] void input(InputVec* input_vec, size_t n, size_t channels, const void* a,
                                           size_t row_stride, size_t pixel_stride, size_t top, size_t bottom,
                                           size_t left, size_t right, const void* zero, void* v, size_t v_stride) {
  const size_t points = n * n;
  const float* pixels[max_points];
  find_pixels(n, a, row_stride, pixel_stride, top, bottom, left, right, zero, pixels);
  const float* rest_pixels[max_points];
  Vec rest_in[max_points], rest_out[max_points];
  for (size_t channel = 0; channel < channels; channel += width) {
    char* to = at(v, channel * sizeof(float));
    const size_t count = channels - channel;
    if (count >= width) {
      input_vec(pixels, channel, to, v_stride);
      continue;
    }
    for (size_t i = 0; i < points; ++i) {
      rest_in[i] = load_some(pixels[i] + channel, count);
      rest_pixels[i] = reinterpret_cast<const float*>(&rest_in[i]);
    }
    input_vec(rest_pixels, 0, reinterpret_cast<char*>(rest_out), sizeof(Vec));
    for (size_t i = 0; i < points; ++i) store_some(floats(to + i * v_stride), rest_out[i], count);
  }
}

// ---- output ----

struct Place {
  char* c;
  size_t row_stride, pixel_stride, rows, columns;
};

template <size_t m>
[[gnu::noinline, gnu::noclone]] void output_vec(const char* products, size_t m_stride, const Vec& bias, const Place& to,
                                                const qn_minmax_f32* p) {
  constexpr size_t n = m + 2;
  const Vec min = splat<Vec>(p->min), max = splat<Vec>(p->max);
  Vec half[m][n];  // columns are transformed
#pragma GCC unroll 1
  for (size_t x = 0; x < n; ++x) {
    Vec d[n], t[m];
#pragma GCC unroll 8
    for (size_t i = 0; i < n; ++i) d[i] = load(floats(products + (i * n + x) * m_stride));
    Winograd<m>::output(d, t);
#pragma GCC unroll 8
    for (size_t i = 0; i < m; ++i) half[i][x] = t[i];
  }
#pragma GCC unroll 1
  for (size_t y = 0; y < to.rows; ++y) {
    Vec d[n], t[m];
#pragma GCC unroll 8
    for (size_t x = 0; x < n; ++x) d[x] = half[y][x];
    Winograd<m>::output(d, t);
    char* c = to.c + y * to.row_stride;
#pragma GCC unroll 8
    for (size_t x = 0; x < m; ++x, c += to.pixel_stride) {
      if (x < to.columns) store(floats(c), clamp_to(t[x] + bias, min, max));
    }
  }
}

using OutputVec = void(const char* products, size_t m_stride, const Vec& bias, const Place& to, const qn_minmax_f32* p);

[[gnu::noinline, gnu::noclone]] void output(OutputVec* output_vec, size_t m, size_t channels, const void* products,
                                            size_t m_stride, const float* bias, void* c, size_t row_stride,
                                            size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32* p) {
  const size_t points = (m + 2) * (m + 2);
  Vec rest_in[max_points], rest_out[max_outputs];
  for (size_t channel = 0; channel < channels; channel += width) {
    const char* from = at(products, channel * sizeof(float));
    char* to = at(c, channel * sizeof(float));
    const size_t count = channels - channel;
    if (count >= width) {
      output_vec(from, m_stride, load(bias + channel), {to, row_stride, pixel_stride, rows, columns}, p);
      continue;
    }
    for (size_t i = 0; i < points; ++i) rest_in[i] = load_some(floats(from + i * m_stride), count);
    output_vec(reinterpret_cast<const char*>(rest_in), sizeof(Vec), load_some(bias + channel, count),
               {reinterpret_cast<char*>(rest_out), m * sizeof(Vec), sizeof(Vec), rows, columns}, p);
    for (size_t y = 0; y < rows; ++y) {
      for (size_t x = 0; x < columns; ++x) {
        store_some(floats(to + y * row_stride + x * pixel_stride), rest_out[y * m + x], count);
      }
    }
  }
}

}  // namespace
}  // namespace quern

#define QN_KERNELS(outputs, name) QN_KERNELS2(outputs, name)
#define QN_KERNELS2(outputs, name)                                                                                     \
  void name##_input(size_t channels, const void* a, size_t row_stride, size_t pixel_stride, size_t top, size_t bottom, \
                    size_t left, size_t right, const void* zero, void* v, size_t v_stride) {                           \
    quern::input(quern::input_vec<outputs>, outputs + 2, channels, a, row_stride, pixel_stride, top, bottom, left,     \
                 right, zero, v, v_stride);                                                                            \
  }                                                                                                                    \
  void name##_output(size_t channels, const void* m, size_t m_stride, const float* bias, void* c, size_t row_stride,   \
                     size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32* p) {                       \
    quern::output(quern::output_vec<outputs>, outputs, channels, m, m_stride, bias, c, row_stride, pixel_stride, rows, \
                  columns, p);                                                                                         \
  }

extern "C" {

QN_KERNELS(2, QN_LEVEL_NAME(winograd_f32_2x2))
QN_KERNELS(4, QN_LEVEL_NAME(winograd_f32_4x4))
QN_KERNELS(6, QN_LEVEL_NAME(winograd_f32_6x6))

}  // extern "C"

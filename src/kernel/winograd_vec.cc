// The kernels of winograd.h for one level of vectors; see vector.h.
#include <algorithm>

#include "kernel/vector.h"
#include "kernel/winograd.h"
#include "kernel/winograd_math.h"

namespace quern {
namespace {

inline const char* at(const void* base, size_t bytes) { return static_cast<const char*>(base) + bytes; }

// The code is arranged to stay small. Each kernel has one body, which works on a whole vector of channels; its loops
// over the lines of a tile are not unrolled. Channels that do not fill a vector are copied to arrays of whole vectors
// and go through the same body. All sizes share the code around the bodies.

constexpr size_t max_n = 8, max_points = max_n * max_n;
using Column = const float* [max_n];  // the addresses of its pixels

// One direction of a tile.
struct Extent {
  size_t m, outputs, inputs;
  uint32_t points;  // bit i: it has point i

  [[gnu::noinline]] Extent(size_t max, size_t count)
      : m(max), outputs(count), inputs(winograd_even(count) + 2), points(0) {
#pragma GCC unroll 1
    for (size_t i = 0; i < m + 2; ++i) points |= uint32_t{winograd_has(m, outputs, i)} << i;
  }
  bool has(size_t point) const { return (points >> point & 1) != 0; }
  bool has_infinity() const { return has(m + 1); }
};

// A tile, transformed in one direction.
template <size_t m>
using Halfway = Vec[m + 2][m + 2];

// ---- input ----

// For each direction the functions choose the transform Winograd<m, k> with the smallest k that makes all outputs of
// the tile.

template <size_t m, size_t k = m>
[[gnu::always_inline]] inline void input_columns(const Extent& h, const Extent& w, const Column* columns,
                                                 size_t channel, Halfway<m>& halfway) {
  if constexpr (k > 2) {
    if (h.outputs <= k - 2) return input_columns<m, k - 2>(h, w, columns, channel, halfway);
  }
#pragma GCC unroll 1
  for (size_t x = 0; x < w.inputs; ++x) {
    Vec d[k + 2], t[k + 2];
#pragma GCC unroll 8
    for (size_t y = 0; y < k + 2; ++y) d[y] = load(columns[x][y] + channel);
    Winograd<m, k>::input(d, t);
#pragma GCC unroll 8
    for (size_t i = 0; i < k + 2; ++i) halfway[i <= k ? i : m + 1][x] = t[i];
  }
}

template <size_t m, size_t k = m>
[[gnu::always_inline]] inline void input_rows(const Extent& h, const Extent& w, const Halfway<m>& halfway, char* v,
                                              size_t v_stride) {
  if constexpr (k > 2) {
    if (w.outputs <= k - 2) return input_rows<m, k - 2>(h, w, halfway, v, v_stride);
  }
  // If the tile has no point at infinity, that value is stored at the first point, whose own value then overwrites it.
  const size_t infinity = w.has_infinity() ? (m + 1) * v_stride : 0;
#pragma GCC unroll 1
  for (size_t i = 0; i < m + 2; ++i, v += (m + 2) * v_stride) {
    if (!h.has(i)) continue;
    Vec d[k + 2], t[k + 2];
#pragma GCC unroll 8
    for (size_t x = 0; x < k + 2; ++x) d[x] = halfway[i][x];
    Winograd<m, k>::input(d, t);
    store(floats(v + infinity), t[k + 1]);
#pragma GCC unroll 8
    for (size_t j = 0; j <= k; ++j) store(floats(v + j * v_stride), t[j]);
  }
}

template <size_t m>
[[gnu::noinline, gnu::noclone]] void input_vec(const Extent& h, const Extent& w, const Column* columns, size_t channel,
                                               char* v, size_t v_stride) {
  Halfway<m> halfway;
  input_columns<m>(h, w, columns, channel, halfway);
  input_rows<m>(h, w, halfway, v, v_stride);
}
using InputVec = void(const Extent& h, const Extent& w, const Column* columns, size_t channel, char* v,
                      size_t v_stride);

[[gnu::noinline, gnu::noclone]] void find_pixels(const void* a, size_t row_stride, size_t pixel_stride,
                                                 const qn_winograd_tile& tile, const void* zero, Column* columns) {
  for (size_t x = 0; x < max_n; ++x) {
    for (size_t y = 0; y < max_n; ++y) columns[x][y] = static_cast<const float*>(zero);
  }
  for (size_t y = tile.top; y < tile.bottom; ++y) {
    const char* pixel = at(a, (y - tile.top) * row_stride);
#pragma GCC unroll 1
    for (size_t x = tile.left; x < tile.right; ++x, pixel += pixel_stride) columns[x][y] = floats(pixel);
  }
}

// Transforms the last `count` channels, which do not fill a vector.
[[gnu::noinline, gnu::cold]] void input_rest(InputVec* input_vec, const Extent& h, const Extent& w, size_t count,
                                             const Column* columns, size_t channel, char* v, size_t v_stride) {
  Column rest_columns[max_n];
  Vec in[max_points], out[max_points];
  for (size_t x = 0; x < w.inputs; ++x) {
    for (size_t y = 0; y < h.inputs; ++y) {
      Vec& pixel = in[x * max_n + y];
      pixel = load_some(columns[x][y] + channel, count);
      rest_columns[x][y] = reinterpret_cast<const float*>(&pixel);
    }
  }
  input_vec(h, w, rest_columns, 0, reinterpret_cast<char*>(out), sizeof(Vec));
  const Vec* from = out;
  for (size_t i = 0; i < h.m + 2; ++i) {
    for (size_t j = 0; j < w.m + 2; ++j, ++from, v += v_stride) {
      if (h.has(i) && w.has(j)) store_some(floats(v), *from, count);
    }
  }
}

[[gnu::noinline, gnu::noclone]] void input(InputVec* input_vec, size_t m, size_t channels, const void* a,
                                           size_t row_stride, size_t pixel_stride, const qn_winograd_tile& tile,
                                           const void* zero, void* v, size_t v_stride) {
  const Extent h(m, tile.rows), w(m, tile.columns);
  Column columns[max_n];
  find_pixels(a, row_stride, pixel_stride, tile, zero, columns);
  auto* to = static_cast<char*>(v);
  size_t channel = 0;
  for (; channel + width <= channels; channel += width, to += sizeof(Vec)) {
    input_vec(h, w, columns, channel, to, v_stride);
  }
  if (channel < channels) input_rest(input_vec, h, w, channels - channel, columns, channel, to, v_stride);
}

// ---- output ----

// The address and strides of a tile's outputs.
struct Place {
  char* c;
  size_t row_stride, pixel_stride;
};

// If a tile has no point at infinity, the functions use the product of the first point in its place. This spoils only
// the last output, which the tile does not have: it is stored first, in the place of the first output, which then
// overwrites it.

template <size_t m, size_t k = m>
[[gnu::always_inline]] inline void output_columns(const Extent& h, const Extent& w, const char* products,
                                                  size_t m_stride, Halfway<m>& halfway) {
  if constexpr (k > 2) {
    if (h.outputs <= k - 2) return output_columns<m, k - 2>(h, w, products, m_stride, halfway);
  }
  const size_t row = (m + 2) * m_stride, infinity = h.has_infinity() ? (m + 1) * row : 0;
#pragma GCC unroll 1
  for (size_t x = 0; x < m + 2; ++x, products += m_stride) {
    if (!w.has(x)) continue;
    Vec d[k + 2], t[k];
#pragma GCC unroll 8
    for (size_t i = 0; i <= k; ++i) d[i] = load(floats(products + i * row));
    d[k + 1] = load(floats(products + infinity));
    Winograd<m, k>::output(d, t);
#pragma GCC unroll 8
    for (size_t i = 0; i < k; ++i) halfway[i][x] = t[i];
  }
}

template <size_t m, size_t k = m>
[[gnu::always_inline]] inline void output_rows(const Extent& h, const Extent& w, const Halfway<m>& halfway,
                                               const Vec& bias, const Place& to, const qn_minmax_f32* p) {
  if constexpr (k > 2) {
    if (w.outputs <= k - 2) return output_rows<m, k - 2>(h, w, halfway, bias, to, p);
  }
  // Local copies: the compiler would load values behind references again after every store.
  const Vec min = splat<Vec>(p->min), max = splat<Vec>(p->max), b = bias;
  const auto [c, row_stride, pixel_stride] = to;
  const size_t infinity = w.has_infinity() ? m + 1 : 0, last = w.has_infinity() ? (k - 1) * pixel_stride : 0;
  const size_t rows = h.outputs;
  char* row = c;
#pragma GCC unroll 1
  for (size_t y = 0; y < rows; ++y, row += row_stride) {
    Vec d[k + 2], t[k];
#pragma GCC unroll 8
    for (size_t x = 0; x <= k; ++x) d[x] = halfway[y][x];
    d[k + 1] = halfway[y][infinity];
    Winograd<m, k>::output(d, t);
#pragma GCC unroll 8
    for (size_t x = 0; x < k; ++x) t[x] = clamp_to(t[x] + b, min, max);
    store(floats(row + last), t[k - 1]);
    char* pixel = row;
#pragma GCC unroll 8
    for (size_t x = 0; x < k - 1; ++x, pixel += pixel_stride) store(floats(pixel), t[x]);
  }
}

template <size_t m>
[[gnu::noinline, gnu::noclone]] void output_vec(const Extent& h, const Extent& w, const char* products, size_t m_stride,
                                                const Vec& bias, const Place& to, const qn_minmax_f32* p) {
  Halfway<m> halfway;
  output_columns<m>(h, w, products, m_stride, halfway);
  output_rows<m>(h, w, halfway, bias, to, p);
}
using OutputVec = void(const Extent& h, const Extent& w, const char* products, size_t m_stride, const Vec& bias,
                       const Place& to, const qn_minmax_f32* p);

[[gnu::noinline, gnu::cold]] void output_rest(OutputVec* output_vec, const Extent& h, const Extent& w, size_t count,
                                              const char* products, size_t m_stride, const float* bias, const Place& to,
                                              const qn_minmax_f32* p) {
  Vec in[max_points], out[max_points];
  Vec* next = in;
  for (size_t i = 0; i < h.m + 2; ++i) {
    for (size_t j = 0; j < w.m + 2; ++j, ++next, products += m_stride) {
      if (h.has(i) && w.has(j)) *next = load_some(floats(products), count);
    }
  }
  output_vec(h, w, reinterpret_cast<const char*>(in), sizeof(Vec), load_some(bias, count),
             {reinterpret_cast<char*>(out), max_n * sizeof(Vec), sizeof(Vec)}, p);
  for (size_t y = 0; y < h.outputs; ++y) {
    for (size_t x = 0; x < w.outputs; ++x) {
      store_some(floats(to.c + y * to.row_stride + x * to.pixel_stride), out[y * max_n + x], count);
    }
  }
}

[[gnu::noinline, gnu::noclone]] void output(OutputVec* output_vec, size_t m, size_t channels, const void* products,
                                            size_t m_stride, const float* bias, void* c, size_t row_stride,
                                            size_t pixel_stride, size_t rows, size_t columns, const qn_minmax_f32* p) {
  const Extent h(m, rows), w(m, columns);
  const auto* from = static_cast<const char*>(products);
  Place to = {static_cast<char*>(c), row_stride, pixel_stride};
  for (; channels >= width; channels -= width, from += sizeof(Vec), to.c += sizeof(Vec), bias += width) {
    output_vec(h, w, from, m_stride, load(bias), to, p);
  }
  if (channels > 0) output_rest(output_vec, h, w, channels, from, m_stride, bias, to, p);
}

}  // namespace
}  // namespace quern

#define QN_KERNELS(outputs, name) QN_KERNELS2(outputs, name)
#define QN_KERNELS2(outputs, name)                                                                                     \
  void name##_input(size_t channels, const void* a, size_t row_stride, size_t pixel_stride,                            \
                    const qn_winograd_tile* tile, const void* zero, void* v, size_t v_stride) {                        \
    quern::input(quern::input_vec<outputs>, outputs, channels, a, row_stride, pixel_stride, *tile, zero, v, v_stride); \
  }                                                                                                                    \
  void name##_output(size_t channels, const void* m, size_t m_stride, const void* bias, void* c, size_t row_stride,    \
                     size_t pixel_stride, size_t rows, size_t columns, const void* p) {                                \
    quern::output(quern::output_vec<outputs>, outputs, channels, m, m_stride, quern::floats(bias), c, row_stride,      \
                  pixel_stride, rows, columns, &quern::minmax_of(p));                                                  \
  }

extern "C" {

QN_KERNELS(2, QN_LEVEL_NAME(winograd_f32_2x2))
QN_KERNELS(4, QN_LEVEL_NAME(winograd_f32_4x4))
QN_KERNELS(6, QN_LEVEL_NAME(winograd_f32_6x6))

}  // extern "C"

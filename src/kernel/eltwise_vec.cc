// The kernels of eltwise.h for one level of vectors; see vector.h.
#include "kernel/eltwise.h"
#include "kernel/vector.h"

namespace quern {
namespace {

// Works on four vectors at a time, so that the instructions for one vector need not wait for those of another. The
// pragmas unroll these loops also where a level is compiled for size.
template <class F>
inline void unary(size_t n, const void* from, void* to, F f) {
  const float* x = floats(from);
  float* y = floats(to);
  for (; n >= 4 * width; n -= 4 * width, x += 4 * width, y += 4 * width) {
    Vec v[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) v[i] = load(x + i * width);
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) store(y + i * width, f(v[i]));
  }
  for (; n >= width; n -= width, x += width, y += width) store(y, f(load(x)));
  if (n > 0) store_some(y, f(load_some(x, n)), n);
}

template <class F>
inline void binary(size_t n, const void* left, const void* right, void* to, const void* p, F f) {
  const float *a = floats(left), *b = floats(right);
  float* y = floats(to);
  const Vec min = splat<Vec>(minmax_of(p).min), max = splat<Vec>(minmax_of(p).max);
  const auto g = [=](Vec u, Vec v) { return clamp_to(f(u, v), min, max); };
  for (; n >= 4 * width; n -= 4 * width, a += 4 * width, b += 4 * width, y += 4 * width) {
    Vec v[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) v[i] = g(load(a + i * width), load(b + i * width));
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) store(y + i * width, v[i]);
  }
  for (; n >= width; n -= width, a += width, b += width, y += width) store(y, g(load(a), load(b)));
  if (n > 0) store_some(y, g(load_some(a, n), load_some(b, n)), n);
}

// The second operand is one scalar.
template <class F>
inline void binary_scalar(size_t n, const void* a, const void* b, void* y, const void* p, F f) {
  const Vec min = splat<Vec>(minmax_of(p).min), max = splat<Vec>(minmax_of(p).max), scalar = splat<Vec>(floats(b)[0]);
  unary(n, a, y, [=](Vec v) { return clamp_to(f(v, scalar), min, max); });
}

// Computes f(x, c, count), where x is a vector with `count` channels, the first of which is channel c.
template <class F>
inline void channel(size_t rows, size_t channels, const void* from, size_t x_stride, void* to, size_t y_stride, F f) {
  const float* x = floats(from);
  float* y = floats(to);
  for (; rows > 0; --rows) {
    size_t c = 0;
    for (; c + 4 * width <= channels; c += 4 * width) {
      Vec v[4];
      for (size_t i = 0; i < 4; ++i) v[i] = f(load(x + c + i * width), c + i * width, width);
      for (size_t i = 0; i < 4; ++i) store(y + c + i * width, v[i]);
    }
    for (; c + width <= channels; c += width) store(y + c, f(load(x + c), c, width));
    const size_t rest = channels - c;
    if (rest > 0) store_some(y + c, f(load_some(x + c, rest), c, rest), rest);
    x = reinterpret_cast<const float*>(reinterpret_cast<const char*>(x) + x_stride);
    y = reinterpret_cast<float*>(reinterpret_cast<char*>(y) + y_stride);
  }
}
// function(r) returns the function that is applied to every x of row r.
template <class Function>
inline void by_row(size_t rows, size_t columns, const void* from, size_t x_stride, void* to, size_t y_stride,
                   Function function) {
  const auto* x = static_cast<const char*>(from);
  auto* y = static_cast<char*>(to);
  for (size_t r = 0; r < rows; ++r) {
    channel(1, columns, x, 0, y, 0, [f = function(r)](Vec v, size_t, size_t) { return f(v); });
    x += x_stride;
    y += y_stride;
  }
}
inline Vec load_channels(const void* p, size_t c, size_t count) {
  return count == width ? load(floats(p) + c) : load_some(floats(p) + c, count);
}

}  // namespace
}  // namespace quern

extern "C" {

#define QN_UNARY(kind, function)                                                     \
  void QN_LEVEL_NAME(v##kind##_f32)(size_t n, const void* x, void* y, const void*) { \
    quern::unary(n, x, y, [](quern::Vec v) { return function(v); });                 \
  }
QN_UNARY(sigmoid, quern::sigmoid_of)
QN_UNARY(tanh, quern::tanh_of)
QN_UNARY(hswish, quern::hswish_of)
QN_UNARY(exp, quern::exp_of)
#undef QN_UNARY

void QN_LEVEL_NAME(vclamp_f32)(size_t n, const void* x, void* y, const void* p) {
  const auto& limits = *static_cast<const qn_unary_f32*>(p);
  const quern::Vec min = quern::splat<quern::Vec>(limits.alpha), max = quern::splat<quern::Vec>(limits.beta);
  quern::unary(n, x, y, [=](quern::Vec v) { return quern::clamp_to(v, min, max); });
}

void QN_LEVEL_NAME(vpower_f32)(size_t n, const void* x, void* y, const void* p) {
  const auto& c = *static_cast<const qn_unary_f32*>(p);
  const float alpha = c.alpha, beta = c.beta, gamma = c.gamma;
  if (gamma == 1) {
    quern::unary(n, x, y, [=](quern::Vec v) { return alpha * v + beta; });
  } else if (gamma == 2) {
    quern::unary(n, x, y, [=](quern::Vec v) { return (alpha * v + beta) * (alpha * v + beta); });
  } else if (gamma == 0.5f) {
    quern::unary(n, x, y, [=](quern::Vec v) { return quern::square_root(alpha * v + beta); });
  } else if (gamma == -1) {
    quern::unary(n, x, y, [=](quern::Vec v) { return 1 / (alpha * v + beta); });
  } else {
    qn_vpower_f32_ref(n, x, y, p);  // calls the C library's pow for each element
  }
}

#define QN_BINARY(kind, expression)                                                                    \
  void QN_LEVEL_NAME(v##kind##_f32)(size_t n, const void* a, const void* b, void* y, const void* p) {  \
    quern::binary(n, a, b, y, p, [](quern::Vec u, quern::Vec v) { return expression; });               \
  }                                                                                                    \
  void QN_LEVEL_NAME(v##kind##c_f32)(size_t n, const void* a, const void* b, void* y, const void* p) { \
    quern::binary_scalar(n, a, b, y, p, [](quern::Vec u, quern::Vec v) { return expression; });        \
  }
QN_BINARY(add, u + v)
QN_BINARY(sub, u - v)
QN_BINARY(mul, u* v)
QN_BINARY(div, quern::quotient(u, v))
#undef QN_BINARY
void QN_LEVEL_NAME(vrsubc_f32)(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary_scalar(n, a, b, y, p, [](quern::Vec u, quern::Vec v) { return v - u; });
}
void QN_LEVEL_NAME(vrdivc_f32)(size_t n, const void* a, const void* b, void* y, const void* p) {
  quern::binary_scalar(n, a, b, y, p, [](quern::Vec u, quern::Vec v) { return quern::quotient(v, u); });
}

void QN_LEVEL_NAME(vscale_f32)(size_t rows, size_t channels, const void* x, size_t x_stride, const void* scale,
                               const void* bias, void* y, size_t y_stride, const void* p) {
  const quern::Vec min = quern::splat<quern::Vec>(quern::minmax_of(p).min),
                   max = quern::splat<quern::Vec>(quern::minmax_of(p).max);
  quern::channel(rows, channels, x, x_stride, y, y_stride, [=](quern::Vec v, size_t c, size_t count) {
    const quern::Vec scales = quern::load_channels(scale, c, count);
    return quern::clamp_to(v * scales + quern::load_channels(bias, c, count), min, max);
  });
}
void QN_LEVEL_NAME(vprelu_f32)(size_t rows, size_t channels, const void* x, size_t x_stride, const void* scale,
                               const void*, void* y, size_t y_stride, const void*) {
  quern::channel(rows, channels, x, x_stride, y, y_stride, [=](quern::Vec v, size_t c, size_t count) {
    return v < 0 ? v * quern::load_channels(scale, c, count) : v;
  });
}

void QN_LEVEL_NAME(vscale_blocked_f32)(size_t rows, size_t columns, const void* x, size_t x_stride, const void* scale,
                                       const void* bias, void* y, size_t y_stride, const void* p) {
  using quern::Vec;
  const Vec min = quern::splat<Vec>(quern::minmax_of(p).min), max = quern::splat<Vec>(quern::minmax_of(p).max);
  quern::by_row(rows, columns, x, x_stride, y, y_stride, [=](size_t r) {
    return [=, s = quern::splat<Vec>(quern::floats(scale)[r]), b = quern::splat<Vec>(quern::floats(bias)[r])](Vec v) {
      return quern::clamp_to(v * s + b, min, max);
    };
  });
}
void QN_LEVEL_NAME(vprelu_blocked_f32)(size_t rows, size_t columns, const void* x, size_t x_stride, const void* scale,
                                       const void*, void* y, size_t y_stride, const void*) {
  using quern::Vec;
  quern::by_row(rows, columns, x, x_stride, y, y_stride, [=](size_t r) {
    return [s = quern::splat<Vec>(quern::floats(scale)[r])](Vec v) { return v < 0 ? v * s : v; };
  });
}

float QN_LEVEL_NAME(vmax_f32)(size_t n, const float* x, float*, float) {
  using quern::width, quern::load, quern::Vec;
  // Four separate maxima, so that a comparison need not wait for the one before it.
  quern::Maximum<Vec> max[4] = {
      {quern::splat<Vec>(x[0])}, {quern::splat<Vec>(x[0])}, {quern::splat<Vec>(x[0])}, {quern::splat<Vec>(x[0])}};
  for (; n >= 4 * width; n -= 4 * width, x += 4 * width) {
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) max[i].add(load(x + i * width));
  }
  for (; n >= width; n -= width, x += width) max[0].add(load(x));
  if (n > 0) max[0].add(quern::load_some(x, n));
  for (size_t i = 1; i < 4; ++i) max[0].add(max[i].get());
  const Vec lanes = max[0].get();
  quern::Maximum<float> result{lanes[0]};
  for (size_t i = 1; i < width; ++i) result.add(lanes[i]);
  return result.get();
}

float QN_LEVEL_NAME(vexpsum_f32)(size_t n, const float* x, float* y, float shift) {
  using quern::width;
  constexpr size_t vectors = 16 / width;  // this many vectors hold the 16 partial sums
  quern::Vec sum[vectors] = {};
  for (; n >= 16; n -= 16, x += 16, y += 16) {
    for (size_t i = 0; i < vectors; ++i) {
      const quern::Vec e = quern::exp_of(quern::load(x + i * width) - shift);
      quern::store(y + i * width, e);
      sum[i] += e;
    }
  }
  float partial[16];
  for (size_t i = 0; i < vectors; ++i) quern::store(partial + i * width, sum[i]);
  for (size_t i = 0; i < n; i += width) {
    const size_t count = n - i < width ? n - i : width;
    const quern::Vec e = quern::exp_of(quern::load_channels(x, i, count) - shift);
    float values[width];
    quern::store(values, e);
    for (size_t j = 0; j < count; ++j) partial[i + j] += y[i + j] = values[j];
  }
  return quern::tree_sum(partial);
}

}  // extern "C"

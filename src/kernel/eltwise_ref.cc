#include "kernel/eltwise.h"

#include <cmath>
#include <limits>

#include "kernel/eltwise_math.h"

namespace quern {
namespace {

// The list of rows makes one table for each type of function.
#define QN_ELTWISE_ENTRY(Kind, type, kind, isa, layout, name) {QN_ROW(type, isa, layout, name), Kind::kind, name},

constexpr UnaryRow unary_table[] = {
#define QN_VUNARY_ROW(...) QN_ELTWISE_ENTRY(UnaryKind, __VA_ARGS__)
#include "kernel/eltwise.inc"
};
constexpr BinaryRow binary_table[] = {
#define QN_VBINARY_ROW(...) QN_ELTWISE_ENTRY(BinaryKind, __VA_ARGS__)
#include "kernel/eltwise.inc"
};
constexpr ChannelRow channel_table[] = {
#define QN_VCHANNEL_ROW(...) QN_ELTWISE_ENTRY(ChannelKind, __VA_ARGS__)
#include "kernel/eltwise.inc"
};
constexpr ReduceRow reduce_table[] = {
#define QN_VREDUCE_ROW(...) QN_ELTWISE_ENTRY(ReduceKind, __VA_ARGS__)
#include "kernel/eltwise.inc"
};

template <class F>
void unary(size_t n, const void* from, void* to, F f) {
  const float* x = floats(from);
  float* y = floats(to);
  for (size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
void channel(size_t rows, size_t channels, const void* x, size_t x_stride, void* y, size_t y_stride, F f) {
  for (size_t r = 0; r < rows; ++r) {
    const float* in = floats(static_cast<const char*>(x) + r * x_stride);
    float* out = floats(static_cast<char*>(y) + r * y_stride);
    for (size_t c = 0; c < channels; ++c) out[c] = f(in[c], r, c);
  }
}

}  // namespace

std::span<const UnaryRow> unary_rows() { return built<unary_table>(); }
std::span<const BinaryRow> binary_rows() { return built<binary_table>(); }
std::span<const ChannelRow> channel_rows() { return built<channel_table>(); }
std::span<const ReduceRow> reduce_rows() { return built<reduce_table>(); }

}  // namespace quern

extern "C" {

void qn_vclamp_f32_ref(size_t n, const void* x, void* y, const void* p) {
  const auto& limits = *static_cast<const qn_unary_f32*>(p);
  quern::unary(n, x, y, [=](float v) { return quern::clamp_to(v, limits.alpha, limits.beta); });
}
void qn_vsigmoid_f32_ref(size_t n, const void* x, void* y, const void*) {
  quern::unary(n, x, y, [](float v) { return quern::sigmoid_of(v); });
}
void qn_vtanh_f32_ref(size_t n, const void* x, void* y, const void*) {
  quern::unary(n, x, y, [](float v) { return quern::tanh_of(v); });
}
void qn_vhswish_f32_ref(size_t n, const void* x, void* y, const void*) {
  quern::unary(n, x, y, [](float v) { return quern::hswish_of(v); });
}
void qn_vexp_f32_ref(size_t n, const void* x, void* y, const void*) {
  quern::unary(n, x, y, [](float v) { return quern::exp_of(v); });
}

void qn_vpower_f32_ref(size_t n, const void* x, void* y, const void* p) {
  const auto& c = *static_cast<const qn_unary_f32*>(p);
  const float alpha = c.alpha, beta = c.beta, gamma = c.gamma;
  // These exponents have a formula of their own and need no C library.
  if (gamma == 1) {
    quern::unary(n, x, y, [=](float v) { return alpha * v + beta; });
  } else if (gamma == 2) {
    quern::unary(n, x, y, [=](float v) { return (alpha * v + beta) * (alpha * v + beta); });
  } else if (gamma == 0.5f) {
    quern::unary(n, x, y, [=](float v) { return std::sqrt(alpha * v + beta); });
  } else if (gamma == -1) {
    quern::unary(n, x, y, [=](float v) { return 1 / (alpha * v + beta); });
  } else {
    quern::unary(n, x, y, [=](float v) { return std::pow(alpha * v + beta, gamma); });
  }
}

#define QN_BINARY(name, expression)                                                              \
  void qn_v##name##_f32_ref(size_t n, const void* a_, const void* b_, void* y_, const void* p) { \
    const float *a = quern::floats(a_), *b = quern::floats(b_);                                  \
    float* const y = quern::floats(y_);                                                          \
    [[maybe_unused]] const float b0 = b[0]; /* before y, which may be b, is written */           \
    for (size_t i = 0; i < n; ++i) y[i] = quern::clamp(expression, quern::minmax_of(p));         \
  }
QN_BINARY(add, a[i] + b[i])
QN_BINARY(sub, a[i] - b[i])
QN_BINARY(mul, a[i] * b[i])
QN_BINARY(div, a[i] / b[i])
QN_BINARY(addc, a[i] + b0)
QN_BINARY(subc, a[i] - b0)
QN_BINARY(mulc, a[i] * b0)
QN_BINARY(divc, a[i] / b0)
QN_BINARY(rsubc, b0 - a[i])
QN_BINARY(rdivc, b0 / a[i])
#undef QN_BINARY

void qn_vscale_f32_ref(size_t rows, size_t channels, const void* x, size_t x_stride, const void* scale,
                       const void* bias, void* y, size_t y_stride, const void* p) {
  quern::channel(rows, channels, x, x_stride, y, y_stride,
                 [s = quern::floats(scale), b = quern::floats(bias), &limits = quern::minmax_of(p)](
                     float v, size_t, size_t c) { return quern::clamp(v * s[c] + b[c], limits); });
}
void qn_vprelu_f32_ref(size_t rows, size_t channels, const void* x, size_t x_stride, const void* scale, const void*,
                       void* y, size_t y_stride, const void*) {
  quern::channel(rows, channels, x, x_stride, y, y_stride,
                 [s = quern::floats(scale)](float v, size_t, size_t c) { return v < 0 ? v * s[c] : v; });
}
void qn_vscale_blocked_f32_ref(size_t rows, size_t columns, const void* x, size_t x_stride, const void* scale,
                               const void* bias, void* y, size_t y_stride, const void* p) {
  quern::channel(rows, columns, x, x_stride, y, y_stride,
                 [s = quern::floats(scale), b = quern::floats(bias), &limits = quern::minmax_of(p)](
                     float v, size_t r, size_t) { return quern::clamp(v * s[r] + b[r], limits); });
}
void qn_vprelu_blocked_f32_ref(size_t rows, size_t columns, const void* x, size_t x_stride, const void* scale,
                               const void*, void* y, size_t y_stride, const void*) {
  quern::channel(rows, columns, x, x_stride, y, y_stride,
                 [s = quern::floats(scale)](float v, size_t r, size_t) { return v < 0 ? v * s[r] : v; });
}

float qn_vmax_f32_ref(size_t n, const float* x, float*, float) {
  quern::Maximum<float> max{x[0]};
  for (size_t i = 1; i < n; ++i) max.add(x[i]);
  return max.get();
}
float qn_vexpsum_f32_ref(size_t n, const float* x, float* y, float shift) {
  float partial[16] = {};
  for (size_t i = 0; i < n; ++i) partial[i % 16] += y[i] = quern::exp_of(x[i] - shift);
  return quern::tree_sum(partial);
}

}  // extern "C"

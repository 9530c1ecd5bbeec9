// eltwise: functions of one or two vectors, and their per-channel forms.
//
// vunary    y[i] = f(x[i])                      f: clamp, sigmoid, tanh, hswish, power, exp; parameters in qn_unary_f32
// vbinary   y[i] = clamp(a[i] op b[i])          op: add, sub, mul, div
// vbinaryc  y[i] = clamp(a[i] op b[0])          the same with a scalar; rsub, rdiv: b[0] op a[i]
// vchannel  y[r][c] = clamp(x[r][c] * scale[c] + bias[c])   (two roundings), or
//           y[r][c] = x[r][c] < 0 ? x[r][c] * scale[c] : x[r][c]   (prelu; bias not read)
//           Rows of layout PIXEL_BLOCKED have a channel in each row: scale[r] and bias[r].
// vreduce   max of x;  or  y[i] = exp(x[i] - shift) and the sum of y   (softmax)
//
// Arguments  n: elements, >= 1. rows, channels >= 1; strides in bytes.
// Memory     Reads and writes exactly the described elements; addresses are multiples of 4; y may be x (or a, or
//            b; b[0] of vbinaryc is read before y is written), else it overlaps nothing.
// Numbers    Only +, -, *, /, square root and comparisons in a stated order, without FMA: every level gives the bits of
//            the reference (but for the sign of a zero maximum and the payload of NaN). Power with an exponent other
//            than 1, 2, 0.5 (square root), -1 uses the C library everywhere. The sum of vreduce: element i is added to
//            partial sum i % 16, then these as a tree. exp: error below 1.1 ulp, denormal results included; 0 below
//            -104, inf above 89. sigmoid: below 3 ulp; tanh: below 3 ulp. NaN in, NaN out; the maximum is NaN if any
//            element is. hswish: x * (min(max(x + 3, 0), 6) * (1 / 6)).
//            The vectors of 32-bit ARM flush: denormals count as zeros of their sign, here and in what is computed, and
//            a result may be either.
// Machine    As gemm.h.
#pragma once

#include <cstddef>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

struct qn_unary_f32 {
  float alpha, beta, gamma;  // clamp: min, max. power: (alpha * x + beta) ^ gamma. Others: not read.
};

typedef void (*qn_vunary_fn)(size_t n, const void* x, void* y, const void* p);
typedef void (*qn_vbinary_fn)(size_t n, const void* a, const void* b, void* y, const void* p);
typedef void (*qn_vchannel_fn)(size_t rows, size_t channels, const void* x, size_t x_stride, const void* scale,
                               const void* bias, void* y, size_t y_stride, const void* p);
// Returns the maximum (x only; y and shift not used) or the sum.
typedef float (*qn_vreduce_fn)(size_t n, const float* x, float* y, float shift);

#define QN_VUNARY_ROW(type, kind, isa, layout, name) QN_DECLARE_KERNEL(qn_vunary_fn, name)
#define QN_VBINARY_ROW(type, kind, isa, layout, name) QN_DECLARE_KERNEL(qn_vbinary_fn, name)
#define QN_VCHANNEL_ROW(type, kind, isa, layout, name) QN_DECLARE_KERNEL(qn_vchannel_fn, name)
#define QN_VREDUCE_ROW(type, kind, isa, layout, name) QN_DECLARE_KERNEL(qn_vreduce_fn, name)
#include "kernel/eltwise.inc"

}  // extern "C"

namespace quern {

enum class UnaryKind { clamp, sigmoid, tanh, hswish, power, exp };
enum class BinaryKind { add, sub, mul, div, addc, subc, mulc, divc, rsubc, rdivc };
enum class ChannelKind { scale, prelu };
enum class ReduceKind { max, expsum };

template <class Kind, class Function>
struct EltwiseRow : Row {
  Kind kind;
  Function run;
};
using UnaryRow = EltwiseRow<UnaryKind, qn_vunary_fn>;
using BinaryRow = EltwiseRow<BinaryKind, qn_vbinary_fn>;
using ChannelRow = EltwiseRow<ChannelKind, qn_vchannel_fn>;
using ReduceRow = EltwiseRow<ReduceKind, qn_vreduce_fn>;

// Best first for each kind; the references are last and run everywhere.
std::span<const UnaryRow> unary_rows();
std::span<const BinaryRow> binary_rows();
std::span<const ChannelRow> channel_rows();
std::span<const ReduceRow> reduce_rows();

}  // namespace quern

// eltwise: functions of one or two vectors, and their per-channel forms.
//
// vunary    y[i] = f(x[i])                      f: clamp, sigmoid, tanh, hswish, power, exp; parameters in qn_unary_f32
// vbinary   y[i] = clamp(a[i] op b[i])          op: add, sub, mul, div
// vbinaryc  y[i] = clamp(a[i] op b[0])          the second operand is a scalar; rsub and rdiv compute b[0] op a[i]
// vchannel  y[r][c] = clamp(x[r][c] * scale[c] + bias[c])   (two roundings), or
//           y[r][c] = x[r][c] < 0 ? x[r][c] * scale[c] : x[r][c]   (prelu; bias not read)
//           In table rows of layout PIXEL_BLOCKED, each row r of x is one channel: they use scale[r] and bias[r].
// vreduce   max of x;  or  y[i] = exp(x[i] - shift) and the sum of y   (softmax)
//
// Arguments  n: elements, >= 1. rows, channels >= 1; strides in bytes.
// Memory     Reads and writes exactly the described elements. Addresses are multiples of 4. y may be the same as x (or
//            a, or b); otherwise it overlaps nothing. vbinaryc reads b[0] before it writes y.
// Numbers    Kernels use only +, -, *, /, square root and comparisons, in a fixed order and without FMA. So every level
//            gives the bits of the reference, except for the sign of a zero maximum and the payload of a NaN.
//            Power calls the C library on every level, except for the exponents 1, 2, 0.5 (square root) and -1.
//            The sum of vreduce adds element i to partial sum i % 16, then adds the 16 partial sums as a tree.
//            exp has an error below 1.1 ulp, also for denormal results; it is 0 below -104 and inf above 89. The errors
//            of sigmoid and tanh are below 3 ulp. hswish is x * (min(max(x + 3, 0), 6) * (1 / 6)).
//            A NaN gives a NaN; the maximum is NaN if any element is.
//            Vectors of 32-bit ARM flush denormals: a denormal input or intermediate result counts as a zero of its
//            sign, and where the result would be denormal it may be that denormal or the zero.
// Machine    As gemm.h.
//
// ---- bytes: the same for type qs8. All elements are int8; addresses have no alignment.
//
// vunary    lookup: y[i] = table[x[i] + 128]      the 256 bytes of the table are the parameter
//           quantize, dequantize: from floats to bytes, and back; parameters in qn_convert_qs8. y does not overlap x.
//             quantize    y[i] = (round(x[i] / scale) + zero, limited to -128 .. 127) ^ flip, to nearest even; a NaN
//                         counts as the least number. The quotient is rounded, and no denormal flushed, on all levels.
//             dequantize  y[i] = float((x[i] ^ flip) - zero) * scale
// vbinary   y[i] = end(f(a[i], b[i]))       f: add, mul; parameters in qn_binary_qs8; vbinaryc as above with addc, mulc
//           add: float(a - zero_a) * scale_a + float(b - zero_b) * scale_b, each operation rounds to nearest even
//           mul: float((a - zero_a) * (b - zero_b)) * scale_a
//           end(x) = clamp(round(x) + zero, min, max), to nearest even; `min` for a NaN
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/minmax.h"
#include "kernel/row.h"

extern "C" {

struct qn_unary_f32 {
  float alpha, beta, gamma;  // clamp: min, max. power: (alpha * x + beta) ^ gamma. Others: not read.
};

// Of kernels that convert. Bytes from 0 to 255 are the signed ones with the upper bit flipped (`flip` 128), and so with a
// zero point that is less by 128; of signed bytes `flip` is 0.
struct qn_convert_qs8 {
  float scale;  // above 0: the real number that a step stands for
  int32_t zero, flip;
};

// Of kernels of bytes. The scale of an operand is how many steps of the output are one of its own; a product has one
// scale, scale_a.
struct qn_binary_qs8 {
  float scale_a, scale_b;
  int32_t zero_a, zero_b, zero;  // zero points, -128 .. 127
  int32_t min, max;              // what outputs are clamped to, -128 <= min <= max <= 127
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

enum class UnaryKind {
  clamp,
  sigmoid,
  tanh,
  hswish,
  power,
  exp,
  lookup,
  quantize,
  dequantize
};  // from lookup on: bytes
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

// For each kind the best row comes first. The references are last and run everywhere.
std::span<const UnaryRow> unary_rows();
std::span<const BinaryRow> binary_rows();
std::span<const ChannelRow> channel_rows();
std::span<const ReduceRow> reduce_rows();

}  // namespace quern

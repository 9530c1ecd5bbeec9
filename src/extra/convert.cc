// Conversions between types, and between real numbers and quantized ones.
#include <algorithm>
#include <cmath>

#include "extra/copy.h"
#include "extra/numbers.h"

namespace quern::extra {
namespace conversions {
namespace {

// ---- cast

// Rounds to the nearest number that float16 has: 11 bits, the last of them no less than 2^-24.
float rounded_to_half(float x) {
  constexpr float too_large = 65520;
  if (std::fabs(x) >= too_large) return std::copysign(std::numeric_limits<float>::infinity(), x);
  if (std::isnan(x)) return x;
  int exponent;
  (void)std::frexp(x, &exponent);  // |x| < 2^exponent
  const float step = std::ldexp(1.0f, std::max(exponent - 11, -24));
  return std::nearbyint(x / step) * step;
}

void infer_cast(Inference& node) { node.set(0, node.wanted(0), node.shape(0)); }

// `half`: the result is to have the precision of float16.
void cast(const Run& node) {
  const size_t n = count(node.shape(0));
  with_type(node.type(0) == QN_BOOL ? QN_U8 : node.type(0), [&](auto from) {
    with_type(node.output_type(0), [&](auto to) {
      using To = typename decltype(to)::type;
      const auto* const x = node.data<typename decltype(from)::type>(0);
      To* const y = node.output<To>(0);
      for_parts(n, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) y[i] = number<To>(x[i]);
      });
    });
  });
  if (node.output_type(0) != QN_F32 || node.integer("half", 0) == 0) return;
  float* const y = node.output<float>(0);
  for_parts(n, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) y[i] = rounded_to_half(y[i]);
  });
}

// ---- quantized numbers: x = (q - zero point) * scale

// Which scale an element has: element (o, i, k) along an axis has number o * outer + i / block * size + k * inner.
struct Scaling {
  Lanes along;
  size_t outer = 0, size = 0, inner = 0, block = 1;
};

// Input 1 holds one scale; or one for each index of the axis; or, with block_size, one for each block along the axis and
// for each index of all other dimensions.
Scaling scaling_of(const Node& node) {
  const Shape shape = node.shape(0), scales = node.shape(1);
  if (scales.size() <= 1 && count(scales) == 1) return {Lanes(shape, 0, 0)};
  const size_t axis = node.axis(node.integer("axis", 1), shape.size());
  const Lanes along(shape, axis);
  const int64_t given = node.integer("block_size", 0);
  if (given < 0) node.fail("block_size is negative");
  const auto block = static_cast<size_t>(given);
  if (block == 0) {
    if (scales != Shape{shape[axis]}) node.fail("there is not one scale for each index of the axis");
    return {along, 0, 1, 0, 1};
  }
  const size_t blocks = shape[axis] / block + (shape[axis] % block != 0 ? 1 : 0);
  Shape wanted = shape;
  wanted[axis] = blocks;
  if (scales != wanted) node.fail("the scales do not fit the tensor and block_size");
  return {along, blocks * along.inner, along.inner, 1, block};
}

// Checks scales and zero points, which have type `quantized`.
void check_scaling(const Node& node, qn_type quantized) {
  node.expect(1, QN_F32);
  (void)scaling_of(node);
  if (!node.has(2)) return;
  node.expect(2, quantized);
  if (count(node.shape(2)) != count(node.shape(1))) node.fail("there are not as many zero points as scales");
}

// Computes function(x, scale, zero point) for each element. `zeros` may be null.
template <class X, class Zero, class Y, class Function>
void scaled(const Run& node, const Zero* zeros, const Function& function) {
  const X* x = node.data<X>(0);
  const float* const scales = node.data<float>(1);
  Y* y = node.output<Y>(0);
  const Scaling s = scaling_of(node);
  Pace pace;
  for (size_t o = 0; o < s.along.outer; ++o) {
    for (size_t i = 0; i < s.along.size; ++i) {
      pace.did(s.along.inner);
      const size_t first = o * s.outer + i / s.block * s.size;
      for (size_t k = 0; k < s.along.inner; ++k) {
        const size_t at = first + k * s.inner;
        *y++ = function(*x++, scales[at], zeros == nullptr ? Zero{0} : zeros[at]);
      }
    }
  }
}

template <class Visit>
void with_byte(qn_type type, Visit&& visit) {
  if (type == QN_S8) return visit(Tag<int8_t>());
  visit(Tag<uint8_t>());
}
bool is_byte(qn_type type) { return type == QN_S8 || type == QN_U8; }

// Divides, rounds halves to even, and limits the result to the range of T.
template <class T>
T quantized(float x, float scale, T zero) {
  return number<T>(std::nearbyint(x / scale) + static_cast<float>(zero));
}

void infer_quantize(Inference& node) {
  if (node.type(0) != QN_S32) node.expect(0, QN_F32);
  const qn_type type = node.wanted(0);
  if (!is_byte(type)) node.fail("the result is neither s8 nor u8");
  check_scaling(node, type);
  node.set(0, type, node.shape(0));
}
void quantize(const Run& node) {
  with_byte(node.output_type(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const zeros = node.has(2) ? node.data<T>(2) : nullptr;
    if (node.type(0) == QN_F32) return scaled<float, T, T>(node, zeros, quantized<T>);
    scaled<int32_t, T, T>(node, zeros,
                          [](int32_t x, float scale, T zero) { return quantized(static_cast<float>(x), scale, zero); });
  });
}

void infer_dequantize(Inference& node) {
  if (!is_byte(node.type(0))) node.expect(0, QN_S32);
  check_scaling(node, node.type(0));
  node.set(0, QN_F32, node.shape(0));
}
template <class T>
void dequantize_as(const Run& node) {
  scaled<T, T, float>(node, node.has(2) ? node.data<T>(2) : nullptr, [](T x, float scale, T zero) {
    return static_cast<float>(static_cast<int64_t>(x) - static_cast<int64_t>(zero)) * scale;
  });
}
void dequantize(const Run& node) {
  if (node.type(0) == QN_S32) return dequantize_as<int32_t>(node);
  with_byte(node.type(0), [&](auto tag) { dequantize_as<typename decltype(tag)::type>(node); });
}

// Quantizes a tensor with the scale that its own range needs, and 0 in this range. Outputs: bytes, scale, zero point.
void infer_dynamic(Inference& node) {
  node.expect(0, QN_F32);
  node.set(0, QN_U8, node.shape(0));
  node.set(1, QN_F32, {});
  node.set(2, QN_U8, {});
}
void dynamic_quantize(const Run& node) {
  const float* const x = node.data<float>(0);
  const size_t n = count(node.shape(0));
  float low = 0, high = 0;
  for (size_t i = 0; i < n; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  const float scale = low == high ? 1 : (high - low) / 255;
  const auto zero = number<uint8_t>(std::nearbyint(-low / scale));
  for (size_t i = 0; i < n; ++i) node.output<uint8_t>(0)[i] = quantized<uint8_t>(x[i], scale, zero);
  if (node.output_count() > 1 && node.output<float>(1) != nullptr) *node.output<float>(1) = scale;
  if (node.output_count() > 2 && node.output<uint8_t>(2) != nullptr) *node.output<uint8_t>(2) = zero;
}

constexpr qn_kind kinds[] = {
    kind<infer_cast, cast>("cast", {1, 1}, 1, QN_KIND_ELEMENTWISE),
    kind<infer_quantize, quantize>("quantize_linear", {2, 3}, 1),
    kind<infer_dequantize, dequantize>("dequantize_linear", {2, 3}, 1),
    kind<infer_dynamic, dynamic_quantize>("dynamic_quantize_linear", {1, 1}, 3),
};

}  // namespace
}  // namespace conversions

Kinds convert_kinds() { return needed<conversions::kinds>(); }

}  // namespace quern::extra

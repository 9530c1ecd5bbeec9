#include "convert/common/values.h"

#include <fp16.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace quern::convert {

size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::f64:
    case ElementType::i64: return 8;
    case ElementType::f32:
    case ElementType::s32: return 4;
    case ElementType::f16: return 2;
    case ElementType::s8:
    case ElementType::u8:
    case ElementType::boolean: break;
  }
  return 1;
}

bool is_float(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::f64;
}

qn_type port_type(ElementType type) { return type == ElementType::f16 ? QN_F16 : operand_type(type); }

qn_type operand_type(ElementType type) {
  switch (type) {
    case ElementType::i64: return QN_S64;
    case ElementType::s32: return QN_S32;
    case ElementType::s8: return QN_S8;
    case ElementType::u8: return QN_U8;
    case ElementType::boolean: return QN_BOOL;
    case ElementType::f16:
    case ElementType::f32:
    case ElementType::f64: break;
  }
  return QN_F32;
}

Array unpacked_int4(const std::vector<uint8_t>& halves, const Shape& shape, size_t count, bool is_signed) {
  Array array = {is_signed ? ElementType::s8 : ElementType::u8, shape, std::vector<uint8_t>(count)};
  for (size_t i = 0; i < count; ++i) {
    const int half = halves[i / 2] >> i % 2 * 4 & 15;
    array.bytes[i] = static_cast<uint8_t>(is_signed && half > 7 ? half - 16 : half);
  }
  return array;
}

namespace {

template <class Stored, class To>
std::vector<To> widened(const Array& array) {
  std::vector<To> out(array.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, array.bytes.data() + i * sizeof value, sizeof value);
    out[i] = static_cast<To>(value);
  }
  return out;
}

std::vector<float> floats_of(const Array& array) {
  if (array.type == ElementType::f64) return widened<double, float>(array);
  std::vector<float> floats;
  for (const uint16_t bits : widened<uint16_t, uint16_t>(array)) floats.push_back(fp16_ieee_to_fp32_value(bits));
  return floats;
}

std::vector<int64_t> integers_of(const Array& array) {
  switch (array.type) {
    case ElementType::s32: return widened<int32_t, int64_t>(array);
    case ElementType::s8: return widened<int8_t, int64_t>(array);
    case ElementType::u8: return widened<uint8_t, int64_t>(array);
    case ElementType::boolean: {
      std::vector<int64_t> truths = widened<uint8_t, int64_t>(array);
      for (int64_t& truth : truths) truth = truth != 0;
      return truths;
    }
    default: return widened<int64_t, int64_t>(array);
  }
}

}  // namespace

Value integer_value(Integers integers, ElementType type) {
  integers.symbols.resize(integers.values.size(), no_symbol);
  Value value;
  value.integers = std::make_shared<const Integers>(std::move(integers));
  value.type = type;
  return value;
}

namespace {
template <class T>
View constant_of(Builder& builder, const Integers& from, qn_type type) {
  std::vector<T> elements;
  for (const int64_t value : from.values) elements.push_back(static_cast<T>(value));
  return builder.constant(from.shape, type, elements.data());
}
}  // namespace

View integer_constant(Builder& builder, const Integers& integers, ElementType type) {
  switch (type) {
    case ElementType::i64: return constant_of<int64_t>(builder, integers, QN_S64);
    case ElementType::s32: return constant_of<int32_t>(builder, integers, QN_S32);
    case ElementType::s8: return constant_of<int8_t>(builder, integers, QN_S8);
    case ElementType::u8:
    case ElementType::boolean: return constant_of<uint8_t>(builder, integers, operand_type(type));
    default: return constant_of<float>(builder, integers, QN_F32);  // floats without elements
  }
}

View integers_in_run(Builder& builder, const std::string& name, const Integers& integers, ElementType type) {
  std::vector<View> inputs;
  std::vector<int64_t> factors;
  bool follows = false, known = type == ElementType::i64 || type == ElementType::s32;
  for (size_t i = 0; i < integers.values.size(); ++i) {
    follows |= integers.symbols[i] != no_symbol;
    known = known && builder.factors(integers.at(i), &inputs, &factors);
  }
  if (!follows || !known) {
    for (const Symbol symbol : integers.symbols) builder.fix(symbol, name);
    return integer_constant(builder, integers, type);
  }
  const std::vector<int64_t> shape(integers.shape.begin(), integers.shape.end());
  Parameters parameters = Parameters().integers("factors", factors).integers("shape", shape);
  return builder.custom("sizes", name, inputs, std::move(parameters), {operand_type(type)})[0];
}

Value constant_value(Builder& builder, const Array& array) {
  if (!is_float(array.type)) return integer_value({array.shape, integers_of(array), {}}, array.type);
  if (array.bytes.empty()) return integer_value({array.shape, {}, {}}, array.type);
  Value value = array.type == ElementType::f32 ? builder.constant(array.shape, QN_F32, array.bytes.data())
                                               : builder.constant(array.shape, floats_of(array).data());
  value.type = array.type;
  return value;
}

// ---- quantized numbers ------------------------------------------------------------------------

size_t Scales::channel(const Shape& shape, size_t element) const {
  if (scales.size() == 1) return 0;
  size_t inner = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  return element / inner % shape[axis];
}

namespace {

// How many bytes add up to each of these numbers?
size_t bytes_to_add(const std::vector<int32_t>& numbers) {
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  const int32_t below = divide_up(std::max(-*least, 1), -INT8_MIN), above = divide_up(std::max(*most, 1), INT8_MAX);
  return static_cast<size_t>(std::max(below, above));
}

// Makes constants of integers that our layers take as weights or bias: their zero points must be 0. None if the integers
// do not fit.
std::vector<View> quantized_constants(Builder& builder, const Integers& integers, ElementType type,
                                      const Scales& scales) {
  const Shape& shape = integers.shape;
  std::vector<int32_t> numbers(integers.values.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t value = integers.values[i] - scales.zero_point(scales.channel(shape, i));
    if (value < INT32_MIN || value > INT32_MAX) return {};
    numbers[i] = static_cast<int32_t>(value);
  }
  Quantization q;
  q.scales.assign(scales.scales.begin(), scales.scales.end());
  if (scales.scales.size() > 1) q.axis = static_cast<int>(scales.axis);
  if (type == ElementType::s32) return {builder.constant(shape, QN_S32, numbers.data(), std::move(q))};
  std::vector<View> list;
  for (size_t left = bytes_to_add(numbers); left > 0; --left) {
    std::vector<int8_t> bytes(numbers.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<int8_t>(std::clamp(numbers[i], INT8_MIN, INT8_MAX));
      numbers[i] -= bytes[i];
    }
    list.push_back(builder.constant(shape, QN_S8, bytes.data(), q));
  }
  return list;
}

}  // namespace

Value dequantized_constant(Builder& builder, const Integers& integers, ElementType type, const Scales& scales) {
  std::vector<float> real(integers.values.size());
  for (size_t i = 0; i < real.size(); ++i) {
    const size_t c = scales.channel(integers.shape, i);
    real[i] = static_cast<float>(integers.values[i] - scales.zero_point(c)) * scales.scales[c];
  }
  Value value = builder.constant(integers.shape, real.data());
  value.quantized = quantized_constants(builder, integers, type, scales);
  return value;
}

Integers quantized_integers(const Shape& shape, const float* data, ElementType type, const Scales& scales) {
  const int64_t low = type == ElementType::s8 ? INT8_MIN : 0;
  Integers integers{shape, {}, {}};
  size_t count = 1;
  for (const size_t d : shape) count *= d;
  for (size_t i = 0; i < count; ++i) {
    const size_t c = scales.channel(shape, i);
    const auto zero = static_cast<double>(scales.zero_point(c));
    const double x = std::nearbyint(double{data[i] / scales.scales[c]}) + zero;
    integers.values.push_back(
        static_cast<int64_t>(std::clamp(std::isnan(x) ? 0.0 : x, double(low), double(low + 255))));
  }
  return integers;
}

void charge_reading(Builder& builder, const Value& value) {
  if (value.integers != nullptr) builder.charge(value.integers->values.size() * element_size(value.type));
}

void charge_integers(Builder& builder, const Value& value) {
  if (value.integers != nullptr) builder.charge(value.integers->values.size() * sizeof(int64_t));
}

}  // namespace quern::convert

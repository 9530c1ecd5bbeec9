#include "convert/common/values.h"

#include <fp16.h>

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

qn_type port_type(ElementType type) {
  if (type == ElementType::f32 || type == ElementType::f64) return QN_F32;
  if (type == ElementType::f16) return QN_F16;
  throw Unsupported{"integers at the border of a model"};
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
    case ElementType::u8:
    case ElementType::boolean: return widened<uint8_t, int64_t>(array);
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

Value constant_value(Builder& builder, const Array& array) {
  if (!is_float(array.type)) return integer_value({array.shape, integers_of(array), {}}, array.type);
  if (array.bytes.empty()) return integer_value({array.shape, {}, {}}, array.type);
  Value value = array.type == ElementType::f32 ? builder.constant(array.shape, QN_F32, array.bytes.data())
                                               : builder.constant(array.shape, floats_of(array).data());
  value.type = array.type;
  return value;
}

void charge_integers(Builder& builder, const Value& value) {
  if (value.integers != nullptr) builder.charge(value.integers->values.size() * sizeof(int64_t));
}

}  // namespace quern::convert

#include "convert/common/quantized.h"

#include <cmath>

namespace quern::convert {
namespace {

// The zero point that the tensor has in our graph, where all bytes have a sign.
int32_t zero_in_graph(const SourceNode& node, const Scales& s, ElementType type) {
  if (s.scales.size() != 1) throw Unsupported{"several scales of a computed tensor"};
  if (!is_byte(type)) node.fail("elements of another type than int8 or uint8");
  return static_cast<int32_t>(s.zero_point(0)) - (type == ElementType::u8 ? 128 : 0);
}

}  // namespace

bool is_byte(ElementType type) { return type == ElementType::s8 || type == ElementType::u8; }

void check_scales(const SourceNode& node, const Scales& s, ElementType type) {
  if (s.scales.empty()) node.fail("the scale has no elements");
  for (const float x : s.scales) {
    if (!(x > 0 && std::isfinite(x))) node.fail("a scale is not a positive number");
  }
  if (s.zero_points.empty()) return;
  if (s.zero_points.size() != s.scales.size()) node.fail("there are not as many zero points as scales");
  const int64_t low = type == ElementType::s8 ? INT8_MIN : 0;
  for (const int64_t z : s.zero_points) {
    if (type == ElementType::s32 ? z != 0 : z < low || z > low + UINT8_MAX) node.fail("a zero point is out of range");
  }
}

void check_axis(const SourceNode& node, const Scales& s, const Shape& shape) {
  if (s.scales.size() == 1) return;
  if (s.axis >= shape.size() || shape[s.axis] != s.scales.size()) node.fail("the scales do not fit the tensor");
}

Value dequantized(const SourceNode& node, size_t input, const Scales& s) {
  const Value& x = node.value(input);
  check_axis(node, s, node.dims(input));
  if (node.is_integer(input)) {
    if (!is_byte(x.type) && x.type != ElementType::s32) throw Unsupported{"of integers with more than 32 bits"};
    if (x.integers->values.empty()) throw Unsupported{"of no elements"};
    return dequantized_constant(node.builder, node.integers(input), x.type, s);
  }
  if (!is_byte(x.type)) node.fail("the input is not quantized");
  const std::string name = node.name + "/input" + std::to_string(input);
  const View bytes = node.builder.as_quantized(name, x.view, s.scales[0], zero_in_graph(node, s, x.type));
  if (!bytes) throw Unsupported{"an input whose elements have got another scale, or none, where they are computed"};
  return node.builder.dequantize(name, bytes);
}

Value quantized(const SourceNode& node, const std::string& name, const View& x, const Scales& s, ElementType type) {
  Value value = node.builder.quantize(name, x, s.scales[0], zero_in_graph(node, s, type));
  value.type = type;
  return value;
}

}  // namespace quern::convert

// Casts, quantized numbers, and products of them.
#include <string>

#include "convert/common/quantized.h"
#include "convert/onnx/general/general.h"
#include "convert/onnx/tensor.h"

namespace quern::onnx {
namespace {

// ---- conversions

Values cast_to(const OnnxNode& node, ElementType to) {
  node.ignore("saturate");  // these are only about types of 8-bit floats
  node.ignore("round_mode");
  return {make(node, "cast", {node.value(0)}, Parameters().integer("half", to == ElementType::f16 ? 1 : 0), to)};
}

Values cast(const OnnxNode& node) {
  const auto number = static_cast<int32_t>(node.integer("to", 0));
  const std::optional<ElementType> to = element_type(number);
  if (!to) throw Unsupported{"to type " + type_name(number)};
  return cast_to(node, *to);
}

// The second input only has a type.
Values cast_like(const OnnxNode& node) { return cast_to(node, node.value(1).type); }

Values quantize(const OnnxNode& node) {
  const auto wanted = static_cast<int32_t>(node.integer("output_dtype", 0));
  std::optional<ElementType> type = wanted == 0 ? ElementType::u8 : element_type(wanted);
  if (node.has(2)) {
    if (wanted != 0 && type != node.value(2).type) node.fail("output_dtype is not the type of the zero point");
    type = node.value(2).type;
  }
  if (!type || !is_byte(*type)) throw Unsupported{"to other types than bytes"};
  if (node.integer("precision", 0) > 1) throw Unsupported{"precision"};
  node.ignore("saturate");  // only about types of 8-bit floats
  return of_kind(
      node, "quantize_linear",
      Parameters().integer("axis", node.integer("axis", 1)).integer("block_size", node.integer("block_size", 0)),
      {*type});
}

Values dequantize(const OnnxNode& node) {
  ElementType type = node.value(1).type;
  if (const auto wanted = static_cast<int32_t>(node.integer("output_dtype", 0)); wanted != 0) {
    const std::optional<ElementType> given = element_type(wanted);
    if (!given || !is_float(*given)) throw Unsupported{"output_dtype"};
    type = *given;
  }
  return of_kind(
      node, "dequantize_linear",
      Parameters().integer("axis", node.integer("axis", 1)).integer("block_size", node.integer("block_size", 0)),
      {type});
}

Values dynamic_quantize(const OnnxNode& node) {
  return of_kind(node, "dynamic_quantize_linear", {}, {ElementType::u8, ElementType::f32, ElementType::u8});
}

// ---- products

// Activations that layers of bytes quantize themselves are real numbers here.
void expect_bytes(const OnnxNode& node, size_t input) {
  if (!is_byte(node.value(input).type)) throw Unsupported{"of an input that is not quantized"};
}

// Reads what says where a convolution has its windows.
Parameters windows(const OnnxNode& node) {
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    node.fail("auto_pad is '" + mode + "'");
  }
  const std::vector<int64_t> pads = node.integer_list("pads");
  return Parameters()
      .integer("groups", node.integer("group", 1))
      .integers("dilations", node.integer_list("dilations"))
      .integers("kernel", node.integer_list("kernel_shape"))
      .integers("pads", mode == "NOTSET" ? pads : std::vector<int64_t>())
      .integer("same", mode == "SAME_UPPER"   ? 1
                       : mode == "SAME_LOWER" ? 2
                                              : 0)
      .integers("strides", node.integer_list("strides"));
}

Values conv_integer(const OnnxNode& node) {
  expect_bytes(node, 0);
  return of_kind(node, "conv_integer", windows(node), {ElementType::s32});
}
Values mat_mul_integer(const OnnxNode& node) {
  expect_bytes(node, 0);
  expect_bytes(node, 1);
  return of_kind(node, "mat_mul_integer", {}, {ElementType::s32});
}

// The result has the type of its zero point.
ElementType result_type(const OnnxNode& node) { return node.value(node.has(7) ? 7 : 0).type; }
Values qlinear_conv(const OnnxNode& node) {
  return of_kind(node, "conv_quantized", windows(node), {result_type(node)});
}
Values qlinear_mat_mul(const OnnxNode& node) { return of_kind(node, "mat_mul_quantized", {}, {result_type(node)}); }

}  // namespace

const OnnxTable& general_types() {
  static const OnnxTable table = {
      {"Cast", {cast, 1, 1}},
      {"CastLike", {cast_like, 2, 2}},
      {"ConvInteger", {conv_integer, 2, 4}},
      {"DequantizeLinear", {dequantize, 2, 3}},
      {"DynamicQuantizeLinear", {dynamic_quantize, 1, 1}},
      {"MatMulInteger", {mat_mul_integer, 2, 4}},
      {"QLinearConv", {qlinear_conv, 8, 9}},
      {"QLinearMatMul", {qlinear_mat_mul, 8, 8}},
      {"QuantizeLinear", {quantize, 2, 3}},
  };
  return table;
}

}  // namespace quern::onnx

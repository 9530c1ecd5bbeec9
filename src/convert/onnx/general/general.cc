#include "convert/onnx/general/general.h"

namespace quern::onnx {

Values of_kind(const OnnxNode& node, const char* kind, Parameters parameters, const std::vector<ElementType>& types) {
  Values inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.has(i) ? node.value(i) : Value());
  return make_all(node, kind, inputs, std::move(parameters), types);
}

Value list_value(const OnnxNode& node, const char* attribute, size_t input, int64_t since) {
  if (node.opset >= since) return node.has(input) ? node.value(input) : Value();
  return node.has_attribute(attribute) ? integer_list(node.integer_list(attribute)) : Value();
}

View list_operand(const OnnxNode& node, const char* attribute, size_t input, int64_t since) {
  if (node.opset >= since) return node.operand(input);
  const Value list = list_value(node, attribute, input, since);
  return list ? integer_constant(node.builder, *list.integers, ElementType::i64) : View();
}

Values same_type(const OnnxNode& node, const char* kind, Parameters parameters) {
  return of_kind(node, kind, std::move(parameters), {node.value(0).type});
}

const OnnxRow* find_general(const std::string& type) {
  for (const OnnxTable* table : {
           &general_elementwise(),
           &general_reductions(),
           &general_types(),
           &general_shapes(),
           &general_moving(),
           &general_products(),
           &general_recurrent(),
           &general_normalization(),
           &general_attention(),
           &general_images(),
           &general_detection(),
           &general_control(),
       }) {
    if (const OnnxRow* row = find_in(*table, type)) return row;
  }
  return nullptr;
}

}  // namespace quern::onnx

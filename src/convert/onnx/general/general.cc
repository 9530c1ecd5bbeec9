#include "convert/onnx/general/general.h"

#include "graph/ir/custom.h"

namespace quern::onnx {

// An input as a kind gets it. Known integers follow the sizes of the model's inputs if they come from these; but where the
// shapes of outputs depend on them they stay constants, so that these shapes are known before a run.
static View input_of(const OnnxNode& node, const char* kind, size_t index) {
  const qn_kind* const found = find_kind(kind);
  const bool sizes = found == nullptr || (index < 64 && (found->value_inputs >> index & 1) != 0);
  if (sizes || !node.is_integer(index)) return node.operand(index);
  const std::string name = node.name + "/" + std::to_string(index);
  return integers_in_run(node.builder, name, node.symbolic(index), node.value(index).type);
}

Values of_kind(const OnnxNode& node, const char* kind, Parameters parameters, const std::vector<ElementType>& types) {
  std::vector<View> inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(input_of(node, kind, i));
  return node.custom(kind, inputs, std::move(parameters), types);
}

View constant_operand(const OnnxNode& node, const Value& value) {
  return value.view ? value.view : integer_constant(node.builder, *value.integers, value.type);
}

View list_operand(const OnnxNode& node, const char* attribute, size_t input, int64_t since) {
  if (node.opset >= since) return node.operand(input);
  if (!node.has_attribute(attribute)) return {};
  const std::vector<int64_t> list = node.integer_list(attribute);
  return integer_constant(node.builder, {{list.size()}, list, {}}, ElementType::i64);
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

#include "convert/common/source_node.h"

namespace quern::convert {

void SourceNode::fail(const std::string& what) const { throw Error(what_ + ": " + what); }

float SourceNode::finite(float value, const std::string& what) const {
  return convert::finite(value, what_ + ": " + what);
}

size_t SourceNode::axis(int64_t axis, size_t rank, const char* tensor) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) {
    fail("axis " + std::to_string(axis) + " of a " + tensor + " of rank " + std::to_string(rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

void SourceNode::expect_inputs(size_t min, size_t max) const {
  if (input_count() < min || input_count() > max) fail("has " + std::to_string(input_count()) + " inputs");
}

const Value& SourceNode::value(size_t index) const {
  if (!has(index)) fail("input " + std::to_string(index) + " is missing");
  return *inputs_[index];
}

bool SourceNode::is_constant(size_t index) const {
  return has(index) && (is_integer(index) || builder.is_constant(inputs_[index]->view));
}

const View& SourceNode::any_view(size_t index) const {
  if (!value(index).view) throw Unsupported{"integer input"};
  if (!builder.is_sized(inputs_[index]->view)) throw Unsupported{"the shape of an input is known only in a run"};
  return inputs_[index]->view;
}

View SourceNode::operand(size_t index) const {
  if (!has(index)) return {};
  for (const Symbol symbol : is_integer(index) ? symbolic(index).symbols : std::vector<Symbol>()) fix(symbol);
  return operand(*inputs_[index], name + "/input" + std::to_string(index));
}

View SourceNode::operand(const Value& value, const std::string& at) const {
  if (value.integers != nullptr) return integer_constant(builder, *value.integers, value.type);
  if (builder.type(value.view) == operand_type(value.type)) return value.view;
  if (builder.type(value.view) != QN_S8 || value.type != ElementType::u8) throw Unsupported{"a quantized input"};
  // Kinds read bytes without a sign, which our graph has as bytes with one (Value::type), as the source has them.
  constexpr uint8_t sign = 128;
  const View bytes = builder.custom("bit_cast", at, {value.view}, {}, {QN_U8})[0];
  return builder.custom("bitwise_xor", at + "/sign", {bytes, builder.constant({}, QN_U8, &sign)}, {}, {QN_U8})[0];
}

const View& SourceNode::view(size_t index) const {
  if (!is_float(value(index).type)) throw Unsupported{"integer input"};
  return any_view(index);
}

const View& SourceNode::constant(size_t index) const {
  if (!builder.is_constant(view(index))) throw Unsupported{"input " + std::to_string(index) + " is not constant"};
  return inputs_[index]->view;
}

size_t SourceNode::elements(size_t index) const {
  if (is_integer(index) && integers(index).values.empty()) return 0;  // a constant without elements
  return builder.elements(constant(index));
}

std::vector<float> SourceNode::floats(size_t index) const {
  const size_t count = elements(index);
  if (count == 0) return {};
  builder.charge(count * sizeof(float));
  const float* data = builder.floats(constant(index));
  return std::vector<float>(data, data + count);
}

float SourceNode::scalar(size_t index) const {
  if (elements(index) != 1) fail("input " + std::to_string(index) + " is not one number");
  return builder.floats(constant(index))[0];
}

const Integers& SourceNode::integers(size_t index) const {
  for (const Symbol symbol : symbolic(index).symbols) fix(symbol);
  return symbolic(index);
}

const Integers& SourceNode::symbolic(size_t index) const {
  if (value(index).integers == nullptr) {
    throw Unsupported{"input " + std::to_string(index) + " is not known at import"};
  }
  return *inputs_[index]->integers;
}

void SourceNode::expect_closed(size_t index) const {
  for (const Symbol symbol : symbolic(index).symbols) {
    if (builder.is_open(symbol)) throw Unsupported{"input " + std::to_string(index) + " follows an open size"};
  }
}

Shape SourceNode::dims(size_t index) const {
  return is_integer(index) ? symbolic(index).shape : builder.shape(any_view(index));
}

Symbols::Number SourceNode::dimension(size_t index, size_t d) const {
  const Shape shape = dims(index);
  if (d >= shape.size()) throw Unsupported{"on a tensor of rank " + std::to_string(shape.size())};
  const auto size = static_cast<int64_t>(shape[d]);
  return {size, is_integer(index) ? no_symbol : builder.symbol(any_view(index), d)};
}

Values SourceNode::custom(const char* kind, const std::vector<View>& inputs, Parameters parameters,
                          const std::vector<ElementType>& types) const {
  std::vector<qn_type> ours;
  for (const ElementType type : types) ours.push_back(operand_type(type));
  Values values;
  for (const View& view : builder.custom(kind, name, inputs, std::move(parameters), ours)) {
    const ElementType type = types[values.size()];
    const bool known = !is_float(type) && builder.is_constant(view);
    values.push_back(known ? constant_value(builder, {type, builder.shape(view), builder.bytes(view)}) : Value(view));
    values.back().type = type;
  }
  return values;
}

Value SourceNode::result(View view) const {
  Value value(std::move(view));
  for (const Value* input : inputs_) {
    if (input == nullptr || !input->view) continue;
    value.type = input->type;
    break;
  }
  return value;
}

}  // namespace quern::convert

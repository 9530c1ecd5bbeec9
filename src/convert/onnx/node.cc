#include "convert/onnx/node.h"

namespace quern {

using onnx::AttributeProto;

Value integer_value(Integers integers, int32_t type) {
  integers.symbols.resize(integers.values.size(), no_symbol);
  Value value;
  value.integers = std::make_shared<const Integers>(std::move(integers));
  value.type = type;
  return value;
}

Value constant_value(Builder& builder, Numbers numbers) {
  if (is_integer_type(numbers.type) || numbers.floats.empty()) {
    return integer_value({numbers.shape, std::move(numbers.integers), {}}, numbers.type);
  }
  Value value;
  value.view = builder.constant(numbers.shape, numbers.floats.data());
  value.type = numbers.type;
  return value;
}

void OnnxNode::fail(const std::string& what) const {
  throw Error("node '" + name + "' (" + proto.op_type() + "): " + what);
}

size_t OnnxNode::axis(int64_t axis, size_t rank) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) fail("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank));
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

// ---- inputs -----------------------------------------------------------------------------------

const Value& OnnxNode::value(size_t index) const {
  if (!has(index)) fail("input " + std::to_string(index) + " is missing");
  return *inputs_[index];
}

bool OnnxNode::is_constant(size_t index) const {
  return has(index) && (is_integer(index) || builder.is_constant(inputs_[index]->view));
}

const View& OnnxNode::view(size_t index) const {
  if (!value(index).view) throw Unsupported{"integer input"};
  return inputs_[index]->view;
}

const View& OnnxNode::constant(size_t index) const {
  if (!builder.is_constant(view(index))) throw Unsupported{"input " + std::to_string(index) + " is not constant"};
  return inputs_[index]->view;
}

size_t OnnxNode::elements(size_t index) const {
  if (is_integer(index) && integers(index).values.empty()) return 0;  // no floats are kept like no integers
  return builder.elements(constant(index));
}

std::vector<float> OnnxNode::floats(size_t index) const {
  const size_t count = elements(index);
  if (count == 0) return {};
  builder.charge(count * sizeof(float));
  const float* data = builder.floats(constant(index));
  return std::vector<float>(data, data + count);
}

float OnnxNode::scalar(size_t index) const {
  if (elements(index) != 1) fail("input " + std::to_string(index) + " is not one number");
  return builder.floats(constant(index))[0];
}

const Integers& OnnxNode::integers(size_t index) const {
  for (const Symbol symbol : symbolic(index).symbols) fix(symbol);
  return symbolic(index);
}

const Integers& OnnxNode::symbolic(size_t index) const {
  if (value(index).integers == nullptr) {
    throw Unsupported{"input " + std::to_string(index) + " is not known at import"};
  }
  return *inputs_[index]->integers;
}

// ---- attributes -------------------------------------------------------------------------------

const AttributeProto* OnnxNode::find(const char* attribute) const {
  read_.insert(attribute);
  for (const AttributeProto& a : proto.attribute()) {
    if (a.name() == attribute) return &a;
  }
  return nullptr;
}

int64_t OnnxNode::integer(const char* attribute, int64_t otherwise) const {
  const AttributeProto* a = find(attribute);
  if (a == nullptr) return otherwise;
  if (!a->has_i() && a->type() != AttributeProto::INT) fail(std::string(attribute) + " is not an integer");
  return a->i();
}

float OnnxNode::any_number(const char* attribute, float otherwise) const {
  const AttributeProto* a = find(attribute);
  if (a == nullptr) return otherwise;
  if (!a->has_f() && a->type() != AttributeProto::FLOAT) fail(std::string(attribute) + " is not a number");
  return a->f();
}

float OnnxNode::number(const char* attribute, float otherwise) const {
  return finite(any_number(attribute, otherwise), "node '" + name + "' (" + proto.op_type() + "): " + attribute);
}

std::string OnnxNode::text(const char* attribute, const std::string& otherwise) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr ? otherwise : a->s();
}

std::vector<int64_t> OnnxNode::integer_list(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr ? std::vector<int64_t>{} : std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

std::vector<float> OnnxNode::number_list(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr ? std::vector<float>{} : std::vector<float>(a->floats().begin(), a->floats().end());
}

const onnx::TensorProto* OnnxNode::tensor(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr || !a->has_t() ? nullptr : &a->t();
}

std::string OnnxNode::unread_attribute() const {
  for (const AttributeProto& a : proto.attribute()) {
    if (read_.count(a.name()) == 0) return a.name();
  }
  return "";
}

bool OnnxNode::list(const char* attribute, size_t input, int64_t since, std::vector<int64_t>* values) const {
  std::vector<Symbols::Number> numbers;
  if (!symbolic_list(attribute, input, since, &numbers)) return false;
  values->clear();
  for (const Symbols::Number& number : numbers) {
    fix(number.symbol);
    values->push_back(number.value);
  }
  return true;
}

bool OnnxNode::symbolic_list(const char* attribute, size_t input, int64_t since,
                             std::vector<Symbols::Number>* values) const {
  values->clear();
  if (opset >= since) {
    if (!has(input)) return false;
    const Integers& from = symbolic(input);
    for (size_t i = 0; i < from.values.size(); ++i) values->push_back(from.at(i));
    return true;
  }
  if (!has_attribute(attribute)) return false;
  for (const int64_t value : integer_list(attribute)) values->push_back({value});
  return true;
}

Value OnnxNode::result(View view) const {
  Value value;
  value.view = std::move(view);
  for (const Value* input : inputs_) {
    if (input == nullptr || !input->view) continue;
    value.type = input->type;
    break;
  }
  return value;
}

}  // namespace quern

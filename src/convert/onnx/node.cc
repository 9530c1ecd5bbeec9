#include "convert/onnx/node.h"

namespace quern::onnx {

using schema::AttributeProto;

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
  return finite(any_number(attribute, otherwise), attribute);
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

std::vector<std::string> OnnxNode::text_list(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr ? std::vector<std::string>{} : std::vector<std::string>(a->strings().begin(), a->strings().end());
}

const schema::TensorProto* OnnxNode::tensor(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr || !a->has_t() ? nullptr : &a->t();
}

const schema::SparseTensorProto* OnnxNode::sparse_tensor(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  return a == nullptr || !a->has_sparse_tensor() ? nullptr : &a->sparse_tensor();
}

const schema::GraphProto& OnnxNode::graph(const char* attribute) const {
  const AttributeProto* a = find(attribute);
  if (a == nullptr || !a->has_g()) fail(std::string(attribute) + " is missing");
  return a->g();
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

}  // namespace quern::onnx

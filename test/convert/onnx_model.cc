#include "onnx_model.h"

#include <gtest/gtest.h>

#include <sstream>

namespace quern::test {

OnnxModel& OnnxModel::input(const std::string& name, const Dims& dims, onnx::schema::TensorProto::DataType type) {
  onnx::schema::ValueInfoProto* info = model.mutable_graph()->add_input();
  info->set_name(name);
  auto* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const size_t d : dims) tensor->mutable_shape()->add_dim()->set_dim_value(static_cast<int64_t>(d));
  return *this;
}

OnnxModel& OnnxModel::output(const std::string& name) {
  model.mutable_graph()->add_output()->set_name(name);
  return *this;
}

OnnxModel& OnnxModel::floats(const std::string& name, const Array& array) {
  onnx::schema::TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::schema::TensorProto::FLOAT);
  for (const size_t d : array.dims) tensor->add_dims(static_cast<int64_t>(d));
  tensor->set_raw_data(array.data.data(), array.data.size() * sizeof(float));
  return *this;
}

OnnxModel& OnnxModel::integers(const std::string& name, const std::vector<int64_t>& values) {
  onnx::schema::TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(onnx::schema::TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor->add_int64_data(value);
  return *this;
}

OnnxModel& OnnxModel::steps(const std::string& name, onnx::schema::TensorProto::DataType type, const Dims& dims,
                            const std::vector<int32_t>& values) {
  onnx::schema::TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  for (const size_t d : dims) tensor->add_dims(static_cast<int64_t>(d));
  for (const int32_t value : values) tensor->add_int32_data(value);
  return *this;
}

namespace {

void set_value(onnx::schema::AttributeProto* attribute, const std::string& text) {
  if (text[0] == '\'') {
    attribute->set_type(onnx::schema::AttributeProto::STRING);
    attribute->set_s(text.substr(1, text.size() - 2));
  } else if (text[0] == '[' && text[1] == '\'') {
    attribute->set_type(onnx::schema::AttributeProto::STRINGS);
    std::istringstream list(text.substr(1, text.size() - 2));
    for (std::string item; std::getline(list, item, ',');) attribute->add_strings(item.substr(1, item.size() - 2));
  } else if (text[0] == '[') {
    std::istringstream list(text.substr(1, text.size() - 2));
    attribute->set_type(text.find('f') == std::string::npos ? onnx::schema::AttributeProto::INTS
                                                            : onnx::schema::AttributeProto::FLOATS);
    for (std::string item; std::getline(list, item, ',');) {
      if (attribute->type() == onnx::schema::AttributeProto::INTS) {
        attribute->add_ints(std::stoll(item));
      } else {
        attribute->add_floats(std::stof(item));
      }
    }
  } else if (text.back() == 'f') {
    attribute->set_type(onnx::schema::AttributeProto::FLOAT);
    attribute->set_f(std::stof(text));
  } else {
    attribute->set_type(onnx::schema::AttributeProto::INT);
    attribute->set_i(std::stoll(text));
  }
}

}  // namespace

OnnxModel& OnnxModel::node(const std::string& type, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::string& attributes) {
  onnx::schema::NodeProto* node = model.mutable_graph()->add_node();
  node->set_op_type(type);
  node->set_name(outputs.at(0));
  for (const std::string& name : inputs) node->add_input(name);
  for (const std::string& name : outputs) node->add_output(name);
  std::istringstream items(attributes);
  for (std::string item; items >> item;) {
    const size_t equals = item.find('=');
    onnx::schema::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(item.substr(0, equals));
    set_value(attribute, item.substr(equals + 1));
  }
  return *this;
}

}  // namespace quern::test

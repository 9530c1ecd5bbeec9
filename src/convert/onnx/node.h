// What the functions that import ONNX operators see.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "convert/common/layout.h"
#include "convert/onnx/onnx.pb.h"
#include "convert/onnx/tensor.h"

namespace quern {

// Integers known at import: shapes, axes, sizes.
struct Integers {
  Shape shape;
  std::vector<int64_t> values;
  // Per value: what it is where inputs have other sizes, if it comes from the shape of a tensor.
  std::vector<Symbol> symbols;

  Symbols::Number at(size_t index) const { return {values[index], symbols[index]}; }
  void add(const Symbols::Number& number) {
    values.push_back(number.value);
    symbols.push_back(number.symbol);
  }
};

// A tensor of the source: floats, computed or constant, or known integers.
struct Value {
  View view;
  std::shared_ptr<const Integers> integers;
  int32_t type = onnx::TensorProto::FLOAT;

  explicit operator bool() const { return view || integers != nullptr; }
};
using Values = std::vector<Value>;

Value integer_value(Integers integers, int32_t type = onnx::TensorProto::INT64);
// A constant of the file. Without any elements, floats are kept like integers: a tensor of ours has no empty dimension.
Value constant_value(Builder& builder, Numbers numbers);

class OnnxNode {
 public:
  OnnxNode(Builder& to, const onnx::NodeProto& from, const std::string& its_name, int64_t its_opset,
           const std::string& model_folder, std::vector<const Value*> inputs)
      : builder(to), proto(from), name(its_name), opset(its_opset), folder(model_folder), inputs_(std::move(inputs)) {}

  Builder& builder;
  const onnx::NodeProto& proto;
  const std::string& name;
  const int64_t opset;
  const std::string& folder;

  [[noreturn]] void fail(const std::string& what) const;
  size_t axis(int64_t axis, size_t rank) const;

  size_t input_count() const { return inputs_.size(); }
  bool has(size_t index) const { return index < inputs_.size() && inputs_[index] != nullptr; }
  const Value& value(size_t index) const;
  bool is_integer(size_t index) const { return has(index) && inputs_[index]->integers != nullptr; }
  bool is_constant(size_t index) const;
  const View& view(size_t index) const;           // floats, computed or constant
  const View& constant(size_t index) const;       // floats
  std::vector<float> floats(size_t index) const;  // a copy of a constant; `{}` when it is empty
  size_t elements(size_t index) const;            // of a constant, as many as floats() has
  float scalar(size_t index) const;
  // Integers as they are at import: sizes that they come from cannot change any more. And as symbols, for who follows.
  const Integers& integers(size_t index) const;
  const Integers& symbolic(size_t index) const;
  // The node is imported for the present value alone.
  void fix(Symbol symbol) const { builder.fix(symbol, name); }

  // Attributes. Those that nobody asked for are found by unread_attribute().
  bool has_attribute(const char* attribute) const { return find(attribute) != nullptr; }
  int64_t integer(const char* attribute, int64_t otherwise) const;
  float number(const char* attribute, float otherwise) const;      // finite
  float any_number(const char* attribute, float otherwise) const;  // infinite and NaN too
  std::string text(const char* attribute, const std::string& otherwise) const;
  std::vector<int64_t> integer_list(const char* attribute) const;
  std::vector<float> number_list(const char* attribute) const;
  const onnx::TensorProto* tensor(const char* attribute) const;
  void ignore(const char* attribute) const { read_.insert(attribute); }
  std::string unread_attribute() const;

  // A list that was an attribute and became an input with opset `since`; false when it is absent.
  bool list(const char* attribute, size_t input, int64_t since, std::vector<int64_t>* values) const;
  bool symbolic_list(const char* attribute, size_t input, int64_t since, std::vector<Symbols::Number>* values) const;

  // The result of a node that computes floats, of the first input's type.
  Value result(View view) const;

 private:
  const onnx::AttributeProto* find(const char* attribute) const;

  std::vector<const Value*> inputs_;
  mutable std::set<std::string> read_;
};

struct OnnxKind {
  Values (*import)(const OnnxNode&);
  size_t min_inputs, max_inputs;
};

// Null for operators that the file of the name does not have.
const OnnxKind* find_onnx_layer(const std::string& op_type);  // onnx_layers.cc: what computes
const OnnxKind* find_onnx_shape(const std::string& op_type);  // onnx_shapes.cc: shapes, constants, views

// Constants that are small enough to be worked out at import.
bool can_fold(const OnnxNode& node);
Values fold_binary(const OnnxNode& node);

}  // namespace quern

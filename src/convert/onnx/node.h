// The form in which functions that import ONNX operators see a node, and the tables of these functions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "convert/common/source_node.h"
#include "convert/common/table.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// Namespace `schema` is the generated code of the file format. Names that all importers share need no prefix here.
using namespace convert;

class OnnxNode : public SourceNode {
 public:
  OnnxNode(Builder& to, const schema::NodeProto& from, const std::string& its_name, int64_t its_opset,
           const std::string& model_folder, std::vector<const Value*> inputs)
      : SourceNode(to, its_name, "node '" + its_name + "' (" + from.op_type() + ")", std::move(inputs)),
        proto(from),
        opset(its_opset),
        folder(model_folder) {}

  const schema::NodeProto& proto;
  const int64_t opset;
  const std::string& folder;

  // Attributes. `otherwise` is the value of an attribute that the node does not have. unread_attribute() returns the
  // name of an attribute for which nobody has asked, or "".
  bool has_attribute(const char* attribute) const { return find(attribute) != nullptr; }
  int64_t integer(const char* attribute, int64_t otherwise) const;
  float number(const char* attribute, float otherwise) const;      // must be finite
  float any_number(const char* attribute, float otherwise) const;  // may be infinite or NaN
  std::string text(const char* attribute, const std::string& otherwise) const;
  std::vector<int64_t> integer_list(const char* attribute) const;
  std::vector<float> number_list(const char* attribute) const;
  const schema::TensorProto* tensor(const char* attribute) const;
  void ignore(const char* attribute) const { read_.insert(attribute); }
  std::string unread_attribute() const;

  // Reads a list that was an attribute before opset `since` and is an input from it on. Returns false if the node does
  // not have it.
  bool list(const char* attribute, size_t input, int64_t since, std::vector<int64_t>* values) const;
  bool symbolic_list(const char* attribute, size_t input, int64_t since, std::vector<Symbols::Number>* values) const;

 private:
  const schema::AttributeProto* find(const char* attribute) const;

  mutable std::set<std::string> read_;
};

using OnnxRow = ImportRow<OnnxNode>;
using OnnxTable = ImportTable<OnnxNode>;

// Each finds the function that imports an operator, in the table of one file. Returns null if the table has none.
const OnnxRow* find_layer(const std::string& op_type);      // layers.cc: operators that compute
const OnnxRow* find_shape(const std::string& op_type);      // shapes.cc: shapes, constants, views
const OnnxRow* find_quantized(const std::string& op_type);  // quantized.cc: quantized numbers

// Operators that other operators contain. They read attributes of the node, but take their inputs as arguments. A
// `bias` without a view stands for none. (layers.cc)
View conv(const OnnxNode& node, const View& x, const Value& weights, const Value& bias);
View mat_mul(const OnnxNode& node, const View& x, const Value& weights);
View gemm(const OnnxNode& node, const View& x, const Value& weights, const Value& bias);
View pool(const OnnxNode& node, OpKind kind, const std::string& name, const View& x);
// `flattens`: over all dimensions from `axis` on, as if they were one.
View softmax(const OnnxNode& node, const View& x, bool flattens);

}  // namespace quern::onnx

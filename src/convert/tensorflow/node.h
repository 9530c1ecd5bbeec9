// The form in which functions that import TensorFlow's operators see a node, and the tables of these functions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "convert/common/source_node.h"
#include "convert/common/table.h"
#include "convert/tensorflow/tensor.h"

namespace quern::tensorflow {

// Namespace `schema` is the generated code of the file format. Names that all importers share need no prefix here.
using namespace convert;

class TfNode : public SourceNode {
 public:
  TfNode(Builder& to, const schema::NodeDef& from, const std::string& its_name, const std::string& op,
         std::vector<const Value*> inputs)
      : SourceNode(to, its_name, "node '" + its_name + "' (" + op + ")", std::move(inputs)), proto(from) {}

  const schema::NodeDef& proto;  // that has the attributes

  // Imports the nodes of a function into a builder. Returns the function's outputs.
  std::function<Values(Builder& to, const std::string& function, const Values& inputs)> call;
  // For each output of a function, whether it is the input of the same number.
  std::function<std::vector<bool>(const std::string& function)> passed_on;

  // Attributes. Graphs may leave out an attribute that has the value `otherwise`; those without must be there.
  // unread_attribute() returns the name of an attribute for which nobody has asked, or "".
  bool flag(const char* attribute, bool otherwise) const;
  bool flag(const char* attribute) const;
  int64_t integer(const char* attribute, int64_t otherwise) const;
  int64_t integer(const char* attribute) const;
  float number(const char* attribute, float otherwise) const;  // must be finite
  float number(const char* attribute) const;
  std::string text(const char* attribute, const std::string& otherwise) const;
  std::string text(const char* attribute) const;
  std::vector<int64_t> integer_list(const char* attribute) const;  // {} if it is not there
  schema::DataType type(const char* attribute, schema::DataType otherwise) const;
  schema::DataType type(const char* attribute) const;
  std::string function(const char* attribute) const;
  // The type of a result of integers.
  ElementType index_type(const char* attribute, ElementType otherwise) const;
  void ignore(const char* attribute) const { read_.insert(attribute); }
  std::string unread_attribute() const;

  // Whether images are N, C, H, W and not N, H, W, C: attribute data_format.
  bool channels_first() const;
  // Returns an input as an image N, C, H, W, as our builder wants it, and makes a result of such an image.
  View image(size_t input) const;
  Value image_result(const View& y) const;

  // Returns an input of one integer that is known at import.
  int64_t only_integer(size_t input) const;

 private:
  const schema::AttrValue* find(const char* attribute, schema::AttrValue::ValueCase kind) const;
  const schema::AttrValue& get(const char* attribute, schema::AttrValue::ValueCase kind) const;

  mutable std::set<std::string> read_;
};

using TfRow = ImportRow<TfNode>;
using TfTable = ImportTable<TfNode>;

// Each finds the function that imports an operator, in the table of one file. Returns null if the table has none.
const TfRow* find_layer(const std::string& op);  // layers.cc: operators that compute
const TfRow* find_group(const std::string& op);  // layers.cc: groups of nodes, see graph.h
const TfRow* find_shape(const std::string& op);  // shapes.cc: shapes, constants, views
// general/: operators of any type and shape, for what the others do not have or cannot express.
const TfRow* find_general(const std::string& op);
// general/spectra.cc: operators of complex numbers.
const TfRow* find_complex(const std::string& op);
// Whether the operator has inputs that are lists of tensors (Value::list), or that may be.
bool takes_lists(const std::string& op);

}  // namespace quern::tensorflow

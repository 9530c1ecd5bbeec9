// The form in which functions that import ONNX operators see a node, and the tables of these functions.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convert/common/source_node.h"
#include "convert/common/table.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

// Namespace `schema` is the generated code of the file format. Names that all importers share need no prefix here.
using namespace convert;

// An input of a graph that a node runs.
struct Formal {
  ElementType type;
  std::optional<Shape> shape;  // absent: it may change from run to run
  View whole = {};             // if not empty: the input is one row of this tensor, which the number of the run chooses
  size_t axis = 0;             // of the rows
};

// Graphs that a node runs, for OpKind::branch and loop.
struct Bodies {
  std::vector<Graph> graphs;
  std::vector<View> captured;        // what they read of the graph around them: their inputs after the formal ones
  std::vector<ElementType> outputs;  // types of their outputs
};

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
  // Imports graphs of the node. `counted`: they have the number of the run and a condition as first inputs, and give the
  // condition as first output, although the source's have not.
  std::function<Bodies(const std::vector<const schema::GraphProto*>&, const std::vector<Formal>&, bool counted)> bodies;
  // Imports the nodes of a graph without inputs, as if they stood in place of this node. Returns its outputs.
  std::function<Values(const schema::GraphProto&)> in_place;
  // Does the same for a graph of standard operators, of opset 23, which reads the inputs of this node (contrib.h).
  std::function<Values(const schema::GraphProto&)> expand;

  // Attributes. `otherwise` is the value of an attribute that the node does not have. unread_attribute() returns the
  // name of an attribute for which nobody has asked, or "".
  bool has_attribute(const char* attribute) const { return find(attribute) != nullptr; }
  int64_t integer(const char* attribute, int64_t otherwise) const;
  float number(const char* attribute, float otherwise) const;      // must be finite
  float any_number(const char* attribute, float otherwise) const;  // may be infinite or NaN
  std::string text(const char* attribute, const std::string& otherwise) const;
  std::vector<int64_t> integer_list(const char* attribute) const;
  std::vector<float> number_list(const char* attribute) const;
  std::vector<std::string> text_list(const char* attribute) const;
  const schema::TensorProto* tensor(const char* attribute) const;
  const schema::SparseTensorProto* sparse_tensor(const char* attribute) const;
  const schema::GraphProto& graph(const char* attribute) const;
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

// Each finds the function that imports an operator, in tables of the files. Returns null if they have none.
const OnnxRow* find_layer(const std::string& op_type);      // layers.cc, windows.cc, resize.cc: operators that compute
const OnnxRow* find_shape(const std::string& op_type);      // shapes.cc: shapes, constants, views
const OnnxRow* find_quantized(const std::string& op_type);  // quantized.cc: quantized numbers

// The tables that find_layer() has beside that of layers.cc.
const OnnxTable& window_layers();    // windows.cc
const OnnxTable& resizing_layers();  // resize.cc

// layers.cc: whether a batch normalization of before opset 14 computes with the statistics of its input. It gives them then.
bool gives_statistics(const OnnxNode& node);
// resize.cc: how Upsample, and Resize before opset 11, choose a pixel for a place between two. Resize of opset 10 does it
// by the scale of each dimension: up where this makes the image smaller. The numbers are those of the kind `resample`.
enum class OldRounding : int64_t { down = 2, up = 3, by_scale = 4 };
OldRounding old_rounding(const OnnxNode& node);

// activations.cc: the names of tensors that are outputs of the graph, or that some node reads for which activations
// cannot stay real numbers where the model quantizes them: all but products with weights that are known at import.
// Constants of the graph around this one are `known`.
std::set<std::string> read_as_integers(const schema::GraphProto& graph, std::set<std::string> known = {});

// general.cc: operators of any type and shape, for what the others do not have or cannot express.
const OnnxRow* find_general(const std::string& op_type);

// Operators that other operators contain. They read attributes of the node, but take their inputs as arguments. A
// `bias` without a view stands for none. (layers.cc, windows.cc)
View conv(const OnnxNode& node, const View& x, const Value& weights, const Value& bias);
View mat_mul(const OnnxNode& node, const View& x, const Value& weights);
View gemm(const OnnxNode& node, const View& x, const Value& weights, const Value& bias);
View pool(const OnnxNode& node, OpKind kind, const std::string& name, const View& x);
// `flattens`: over all dimensions from `axis` on, as if they were one.
View softmax(const OnnxNode& node, const View& x, bool flattens);

}  // namespace quern::onnx

// Writes one graph of ours as a graph of an ONNX file.
//
// ONNX images are N, C, H, W. As in the importers, each tensor has an order of dimensions: `Held` says which value of
// the ONNX graph stands for our tensor, and in which order. Image operators ask for channels first. The transposes that
// our graph has at its inputs and outputs only change the order, so most of them disappear.
//
// Quantized models are written in the form that other engines read best: each operator computes with floats between
// nodes DequantizeLinear and QuantizeLinear, and the engine replaces the three by an operator of bytes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convert/common/layout.h"
#include "convert/onnx/onnx.pb.h"

namespace quern::onnx {

using namespace convert;

constexpr int64_t base_opset = 13;
constexpr const char* too_large = "an ONNX file cannot be larger than 2 GiB";

// What all graphs of a file share.
struct ModelWriter {
  int64_t opset = base_opset;  // the lowest that has all operators so far
  bool extended = false;       // are there nodes of ONNX Runtime's own?
  bool open = false;           // are there dimensions that each run chooses, so that shapes of tensors are examples?
  UnsupportedList unsupported;
  std::set<std::string> taken;  // names that new_name() must not give
  size_t next_name = 0;
  std::map<std::string, size_t> node_names;  // how many nodes there would be of each name

  size_t nodes = 0, bytes = 0;  // in all graphs; bytes of constants only

  std::string new_name();
  // Counts a node and the bytes of a constant. Throws if there are too many: graphs that many nodes run are written
  // once for each of them.
  void charge(size_t more_nodes, size_t more_bytes);
  // Throws if rows of so many bytes cannot be added, before memory is taken for them.
  void expect_room(size_t rows, size_t bytes_of_row) const;
  // The name, with a number behind it if another node has it. ONNX Runtime demands different ones.
  std::string new_node_name(const std::string& name);
};

// The type of elements in an ONNX file.
schema::TensorProto::DataType data_type(qn_type type);

Order channels_first(size_t rank);

// Whether the node has this input, which is optional.
bool has(const Node& node, size_t input);
// The name of an operator that is one part of a node.
std::string node_name(const Node& node, const char* part = "");
// A parameter of a node of a registered kind; null if the node does not have it.
const Parameter* find_parameter(const Node& node, const char* name);
int64_t integer_of(const Node& node, const char* parameter, int64_t otherwise);
float number_of(const Node& node, const char* parameter, float otherwise);

class GraphWriter {
 public:
  GraphWriter(ModelWriter& file, Graph& graph, schema::GraphProto& to);

  ModelWriter& model;

  // ---- a whole graph

  // Writes the graph of the model. Nodes that ONNX cannot express go to model.unsupported.
  void write_model();
  // Makes `value` of the graph around this one an input of this graph, which the file's graph then does not have.
  void capture(size_t input, const std::string& value);
  // Adds an input to the file's graph. The tensor may be absent.
  void add_formal(int tensor, qn_type type, bool is_scalar);
  void write_nodes();
  // Adds output `index` of our graph to the file's graph.
  void add_result(size_t index);

  // ---- tensors of our graph

  Graph& graph() const { return graph_; }
  const Tensor& tensor(int index) const { return tensor_of(graph_, index); }
  bool is_constant(int index) const { return tensor(index).constant >= 0; }
  const Constant& constant_of(int index) const { return graph_.constants[at(tensor(index).constant)]; }
  // Whether some node or the graph's user reads it.
  bool is_read(int index) const { return read_.count(index) != 0; }
  bool is_quantized(int index) const { return tensor(index).type != QN_F32 && has_scales(index); }
  bool has_scales(int index) const { return !tensor(index).quantization.scales.empty(); }
  Order order_as_is(int index) const { return source_order(tensor(index).shape.size()); }

  // ---- values of the ONNX graph. Those of constants are written in any order that is asked for.

  // Returns the order of the value that stands for a tensor, which is no constant.
  const Order& order_of(int index) const { return held_.at(index).order; }
  // Returns the order of the node's first input that is not a constant.
  Order following(const Node& node) const;
  // Returns the value that stands for a tensor, with its dimensions in this order and its elements as they are stored.
  std::string stored(int index, const Order& order);
  // The same, with the real numbers that the elements stand for.
  std::string in_order(int index, const Order& order);
  // The same in the order of our tensor.
  std::string plain(int index) { return in_order(index, order_as_is(index)); }
  std::string stored_plain(int index) { return stored(index, order_as_is(index)); }

  std::string initializer(qn_type type, const Shape& shape, const void* data);
  std::string floats(const Shape& shape, const float* data) { return initializer(QN_F32, shape, data); }
  std::string number(float value) { return floats({}, &value); }
  std::string number(qn_type type, float value);  // of this type; throws Unsupported if that has no such number
  std::string integers(const Vector<int64_t>& values);
  std::string integer(int64_t value) { return initializer(QN_S64, {}, &value); }

  // ---- nodes

  schema::NodeProto* add_op(const char* type, const std::string& name, const std::vector<std::string>& inputs);
  // The same, for operators with one output, of which the result is the name.
  std::string add(const char* type, const std::string& name, const std::vector<std::string>& inputs) {
    return add_op(type, name, inputs)->output(0);
  }
  void need_opset(int64_t opset) { model.opset = std::max(model.opset, opset); }

  // Makes `value`, of floats, the result of one of our nodes, after a clamp if the node's attributes have one.
  void define(const Node& node, std::string value, const Order& order);
  // Makes `value` stand for an output of a node as its elements are stored.
  void define_stored(int tensor, std::string value, const Order& order);

  // Adds a node QuantizeLinear or DequantizeLinear for a tensor, which lies in this order. Returns its output.
  std::string convert(const char* type, const std::string& value, int index, const Order& order);

 private:
  // A value of the ONNX graph. Its dimension i is our tensor's dimension order[i].
  struct Held {
    std::string value;
    Order order;
  };

  std::string name_of(int index) const { return tensor(index).name.c_str(); }
  schema::TensorProto* new_initializer(schema::TensorProto::DataType type, const Shape& shape);
  std::string constant(int index, const Order& order);
  void write_node(const Node& node);
  void describe(const Port& port, bool is_input, schema::ValueInfoProto* info) const;
  void add_input(const Port& port);
  void add_output(const Port& port);

  Graph& graph_;
  schema::GraphProto& out_;
  std::set<int> read_;
  std::map<int, Held> held_;                                // per tensor of our graph
  std::map<int, qn_type> port_types_;                       // per tensor that is an input or output
  std::map<std::pair<int, Order>, std::string> reordered_;  // values that stored() added
  std::map<std::string, std::string> real_;                 // stored value -> the floats that in_order() added for it
};

// ---- attributes of a node

void set_integer(schema::NodeProto* node, const char* name, int64_t value);
void set_number(schema::NodeProto* node, const char* name, float value);
void set_text(schema::NodeProto* node, const char* name, const std::string& value);
schema::AttributeProto* add_attribute(schema::NodeProto* node, const char* name,
                                      schema::AttributeProto::AttributeType type);
template <class List>
void set_integers(schema::NodeProto* node, const char* name, const List& values) {
  schema::AttributeProto* a = add_attribute(node, name, schema::AttributeProto::INTS);
  for (const auto value : values) a->add_ints(static_cast<int64_t>(value));
}

}  // namespace quern::onnx

#include "convert/onnx/export/graph_writer.h"

#include <algorithm>
#include <limits>

#include "convert/onnx/export/rows.h"

namespace quern::onnx {

using schema::AttributeProto;

std::string ModelWriter::new_name() {
  std::string name;
  do {
    name = 'v';
    name += std::to_string(next_name++);
  } while (taken.count(name) > 0);
  return name;
}

void ModelWriter::charge(size_t more_nodes, size_t more_bytes) {
  constexpr size_t most_nodes = size_t{1} << 18;
  expect_room(1, more_bytes);
  nodes += more_nodes;
  bytes += more_bytes;
  if (nodes > most_nodes) throw Error("the ONNX file would have more than " + std::to_string(most_nodes) + " nodes");
}

void ModelWriter::expect_room(size_t rows, size_t bytes_of_row) const {
  const size_t left = size_t{std::numeric_limits<int>::max()} - bytes;
  if (bytes_of_row != 0 && rows > left / bytes_of_row) throw Error(too_large);
}

std::string ModelWriter::new_node_name(const std::string& name) {
  if (name.empty()) return name;
  std::string free = name;
  while (!node_names.try_emplace(free, 1).second) free = name + "_" + std::to_string(++node_names[name]);
  return free;
}

schema::TensorProto::DataType data_type(qn_type type) {
  switch (type) {
    case QN_F32: return schema::TensorProto::FLOAT;
    case QN_F16: return schema::TensorProto::FLOAT16;
    case QN_S64: return schema::TensorProto::INT64;
    case QN_S8: return schema::TensorProto::INT8;
    case QN_U8: return schema::TensorProto::UINT8;
    case QN_S32: return schema::TensorProto::INT32;
    case QN_BOOL: return schema::TensorProto::BOOL;
  }
  return schema::TensorProto::UNDEFINED;
}

Order channels_first(size_t rank) {
  Order order = source_order(rank);
  if (rank > 2) std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}

bool has(const Node& node, size_t input) { return input < node.inputs.size() && node.inputs[input] != no_tensor; }

std::string node_name(const Node& node, const char* part) {
  const std::string name = node.name.c_str();
  return name.empty() || *part == 0 ? name : name + "/" + part;
}

const Parameter* find_parameter(const Node& node, const char* name) {
  for (const Parameter& parameter : node.parameters) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

int64_t integer_of(const Node& node, const char* parameter, int64_t otherwise) {
  const Parameter* const found = find_parameter(node, parameter);
  return found == nullptr || found->integers.empty() ? otherwise : found->integers[0];
}

float number_of(const Node& node, const char* parameter, float otherwise) {
  const Parameter* const found = find_parameter(node, parameter);
  return found == nullptr || found->floats.empty() ? otherwise : found->floats[0];
}

// ---- attributes -------------------------------------------------------------------------------

AttributeProto* add_attribute(schema::NodeProto* node, const char* name, AttributeProto::AttributeType type) {
  AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(type);
  return a;
}
void set_integer(schema::NodeProto* node, const char* name, int64_t value) {
  add_attribute(node, name, AttributeProto::INT)->set_i(value);
}
void set_number(schema::NodeProto* node, const char* name, float value) {
  add_attribute(node, name, AttributeProto::FLOAT)->set_f(value);
}
void set_text(schema::NodeProto* node, const char* name, const std::string& value) {
  add_attribute(node, name, AttributeProto::STRING)->set_s(value);
}

// ---- constants --------------------------------------------------------------------------------

schema::TensorProto* GraphWriter::new_initializer(schema::TensorProto::DataType type, const Shape& shape) {
  schema::TensorProto* initializer = out_.add_initializer();
  initializer->set_name(model.new_name());
  initializer->set_data_type(type);
  for (const size_t d : shape) initializer->add_dims(static_cast<int64_t>(d));
  return initializer;
}

std::string GraphWriter::initializer(qn_type type, const Shape& shape, const void* data) {
  size_t bytes = qn_type_size(type);
  for (const size_t d : shape) bytes *= d;
  model.charge(0, bytes);
  schema::TensorProto* initializer = new_initializer(data_type(type), shape);
  initializer->set_raw_data(data, bytes);
  return initializer->name();
}

std::string GraphWriter::integers(const Vector<int64_t>& values) {
  return initializer(QN_S64, {values.size()}, values.data());
}

std::string GraphWriter::number(qn_type type, float value) {
  if (type == QN_F32) return number(value);
  if (!(value >= -0x1p63f && value < 0x1p63f)) throw Unsupported{"a value that its type does not have"};
  const auto whole = static_cast<int64_t>(value);  // little-endian: its first bytes are the number in smaller types
  return initializer(type, {}, &whole);
}

// Adds a constant as an initializer with its dimensions in this order. Returns its name.
std::string GraphWriter::constant(int index, const Order& order) {
  const Tensor& t = tensor(index);
  const Constant& constant = constant_of(index);
  Shape shape;
  for (const uint32_t d : order) shape.push_back(t.shape[d]);
  std::vector<uint8_t> data(constant.bytes);
  permute_elements(constant.data, qn_type_size(t.type), t.shape, order, data.data());
  return initializer(t.type, shape, data.data());
}

// ---- values -----------------------------------------------------------------------------------

std::string GraphWriter::convert(const char* type, const std::string& value, int index, const Order& order) {
  const Tensor& t = tensor(index);
  const Quantization& q = t.quantization;
  const Shape shape = q.axis < 0 ? Shape{} : Shape{q.scales.size()};
  std::vector<std::string> inputs = {value, floats(shape, q.scales.data())};
  if (t.type != QN_S32) {  // which has no zero point in ONNX
    std::vector<uint8_t> zeros(q.scales.size());
    for (size_t i = 0; i < q.zero_points.size(); ++i) zeros[i] = static_cast<uint8_t>(q.zero_points[i]);
    inputs.push_back(initializer(t.type, shape, zeros.data()));
  }
  schema::NodeProto* node = add_op(type, "", inputs);
  if (q.axis >= 0) set_integer(node, "axis", static_cast<int64_t>(position(order, static_cast<size_t>(q.axis))));
  return node->output(0);
}

Order GraphWriter::following(const Node& node) const {
  for (const int input : node.inputs) {
    if (input != no_tensor && !is_constant(input)) return order_of(input);
  }
  return order_as_is(node.inputs[0]);
}

std::string GraphWriter::stored(int index, const Order& order) {
  if (!is_constant(index) && order_of(index) == order) return held_.at(index).value;
  std::string& value = reordered_[{index, order}];
  if (!value.empty()) return value;
  if (is_constant(index)) return value = constant(index, order);
  const Held& held = held_.at(index);
  schema::NodeProto* node = add_op("Transpose", "", {held.value});
  set_integers(node, "perm", permutation_between(held.order, order));
  return value = node->output(0);
}

std::string GraphWriter::in_order(int index, const Order& order) {
  const std::string value = stored(index, order);
  if (!is_quantized(index)) return value;
  std::string& real = real_[value];
  if (real.empty()) real = convert("DequantizeLinear", value, index, order);
  return real;
}

// ---- nodes ------------------------------------------------------------------------------------

schema::NodeProto* GraphWriter::add_op(const char* type, const std::string& name,
                                       const std::vector<std::string>& inputs) {
  model.charge(1, 0);
  schema::NodeProto* node = out_.add_node();
  node->set_op_type(type);
  node->set_name(model.new_node_name(name));
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(model.new_name());
  return node;
}

void GraphWriter::define(const Node& node, std::string value, const Order& order) {
  const float min = node.attributes.min, max = node.attributes.max;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (min == 0 && max == infinity) {
    value = add("Relu", node_name(node, "relu"), {value});
  } else if (min != -infinity || max != infinity) {
    const std::string low = min == -infinity ? "" : number(min), high = max == infinity ? "" : number(max);
    value = add("Clip", node_name(node, "clip"), {value, low, high});
  }
  const int output = node.outputs[0];
  if (is_quantized(output)) value = convert("QuantizeLinear", value, output, order);
  define_stored(output, std::move(value), order);
}

void GraphWriter::define_stored(int index, std::string value, const Order& order) {
  held_[index] = {std::move(value), tensor(index).sized_by_run ? order_as_is(index) : order};
}

void GraphWriter::write_node(const Node& node) {
  try {
    const ExportRow* const row = find_row(node);
    if (row == nullptr) throw Unsupported{};
    expect_written(node, *row);
    const auto has_no_rank = [&](int input) { return input != no_tensor && tensor(input).sized_by_run; };
    if (row->needs_rank && std::any_of(node.inputs.begin(), node.inputs.end(), has_no_rank))
      throw Unsupported{"of an input that only a run sizes"};
    row->write(*this, node, *row);
  } catch (const Unsupported& unsupported) {
    model.unsupported.add(node.name.c_str(), kind_name(node), unsupported.reason);
    for (const int output : node.outputs) define_stored(output, model.new_name(), order_as_is(output));
  }
}

void GraphWriter::write_nodes() {
  for (const Node& node : graph_.nodes) write_node(node);
}

// ---- inputs and outputs -----------------------------------------------------------------------

GraphWriter::GraphWriter(ModelWriter& file, Graph& graph, schema::GraphProto& to)
    : model(file), graph_(graph), out_(to) {
  for (const Node& node : graph.nodes) read_.insert(node.inputs.begin(), node.inputs.end());
  for (const Port& port : graph.outputs) read_.insert(port.tensor);
}

void GraphWriter::write_model() {
  out_.set_name(graph_.name.empty() ? "quern" : graph_.name.c_str());
  for (const auto* ports : {&graph_.inputs, &graph_.outputs}) {
    for (const Port& port : *ports) model.taken.insert(name_of(port.tensor));
  }
  for (const Port& port : graph_.inputs) {
    const Shape& shape = tensor(port.tensor).shape;  // importers read a size of 0 as none
    model.open |= (port.open & ~port.fixed) != 0 || std::count(shape.begin(), shape.end(), 0) > 0;
    add_input(port);
  }
  write_nodes();
  for (const Port& port : graph_.outputs) add_output(port);
}

void GraphWriter::capture(size_t input, const std::string& value) {
  const int index = graph_.inputs[input].tensor;
  define_stored(index, value, order_as_is(index));
}

void GraphWriter::add_formal(int index, qn_type type, bool is_scalar) {
  schema::ValueInfoProto* info = out_.add_input();
  info->set_name(model.new_name());
  auto* of = info->mutable_type()->mutable_tensor_type();
  of->set_elem_type(data_type(type));
  if (is_scalar) of->mutable_shape();
  if (index != no_tensor) define_stored(index, info->name(), order_as_is(index));
}

void GraphWriter::add_result(size_t index) {
  const int result = graph_.outputs[index].tensor;
  schema::ValueInfoProto* info = out_.add_output();
  info->set_name(add("Identity", "", {stored_plain(result)}));
  info->mutable_type()->mutable_tensor_type()->set_elem_type(data_type(tensor(result).type));
}

// Dimensions that depend on open ones have no number.
void GraphWriter::describe(const Port& port, bool is_input, schema::ValueInfoProto* info) const {
  info->set_name(name_of(port.tensor));
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(data_type(port.type));
  const Tensor& t = tensor(port.tensor);
  if (t.sized_by_run) return;
  auto* shape = type->mutable_shape();
  const unsigned open = port.open & ~port.fixed;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    auto* dim = shape->add_dim();
    if (is_input && (open >> d & 1) != 0) {
      const bool named = d < port.dimensions.size() && !port.dimensions[d].empty();
      dim->set_dim_param(named ? port.dimensions[d].c_str() : name_of(port.tensor) + ":" + std::to_string(d));
    } else if (is_input || !model.open) {
      dim->set_dim_value(static_cast<int64_t>(t.shape[d]));
    }
  }
}

void GraphWriter::add_input(const Port& port) {
  describe(port, true, out_.add_input());
  port_types_[port.tensor] = port.type;
  std::string value = name_of(port.tensor);
  if (port.type == QN_F16) {
    schema::NodeProto* cast = add_op("Cast", "", {value});
    set_integer(cast, "to", schema::TensorProto::FLOAT);
    value = cast->output(0);
  }
  define_stored(port.tensor, value, order_as_is(port.tensor));
}

void GraphWriter::add_output(const Port& port) {
  describe(port, false, out_.add_output());
  const auto [at, fresh] = port_types_.try_emplace(port.tensor, port.type);
  if (!fresh && at->second == port.type) return;  // the port is also an input, or an output twice
  if (!fresh) throw Error("'" + name_of(port.tensor) + "' is an input or output in two types, which ONNX cannot say");
  schema::NodeProto* node = add_op(port.type == QN_F16 ? "Cast" : "Identity", "", {stored_plain(port.tensor)});
  if (port.type == QN_F16) set_integer(node, "to", schema::TensorProto::FLOAT16);
  node->set_output(0, name_of(port.tensor));
}

}  // namespace quern::onnx

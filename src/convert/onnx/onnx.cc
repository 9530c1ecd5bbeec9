// Imports ONNX models: connects nodes, inputs and outputs. layers.cc and shapes.cc import the single operators.
#include <google/protobuf/stubs/logging.h>

#include <climits>
#include <filesystem>
#include <set>

#include "convert/common/file.h"
#include "convert/common/wiring.h"
#include "convert/convert.h"
#include "convert/onnx/node.h"
#include "convert/onnx/tensor.h"

namespace quern::onnx {
namespace {

constexpr int64_t oldest_opset = 7, newest_opset = 21;

int64_t opset_of(const schema::ModelProto& model) {
  int64_t opset = 0;
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = std::max(opset, import.version());
  }
  if (opset < oldest_opset || opset > newest_opset) {
    throw Error("operator set " + std::to_string(opset) + " is not supported, " + std::to_string(oldest_opset) +
                " to " + std::to_string(newest_opset) + " are");
  }
  return opset;
}

// Throws if writing `target` would replace a file with external data of the model, even if no node needs this data.
void keep_external_files(const schema::GraphProto& graph, const std::string& folder, const std::string& target) {
  for (const schema::TensorProto& tensor : graph.initializer()) keep_external_file(tensor, folder, target);
  for (const schema::NodeProto& node : graph.node()) {
    for (const schema::AttributeProto& attribute : node.attribute()) keep_external_file(attribute.t(), folder, target);
  }
}

class Importer {
 public:
  Importer(const schema::ModelProto& model, const std::filesystem::path& path)
      : graph_(model.graph()), opset_(opset_of(model)), folder_(path.parent_path().string()) {
    builder_.set_name(graph_.name());
    allow_file(path);
    for (const schema::TensorProto& tensor : graph_.initializer()) {
      const Wire wire = wiring_.mention(tensor.name());
      if (wiring_.is_constant(wire)) throw Error("initializer '" + tensor.name() + "' is given twice");
      wiring_.define_constant(wire, [this, &tensor] { return read(tensor); });
    }
    for (const schema::NodeProto& node : graph_.node()) wiring_.add_node(wires(node.input()), wires(node.output()));
  }

  Graph import(const std::vector<std::string>& names) {
    std::vector<std::string> outputs = names;
    if (outputs.empty()) {
      for (const schema::ValueInfoProto& output : graph_.output()) outputs.push_back(output.name());
    }
    if (outputs.empty()) throw Error("the model has no outputs");
    Wires needed;
    for (const std::string& output : outputs) needed.push_back(wiring_.mention(output));
    wiring_.need(needed);
    for (const schema::ValueInfoProto& input : graph_.input()) {
      const Wire wire = wiring_.mention(input.name());
      if (wiring_.is_constant(wire) || (!names.empty() && !wiring_.is_needed(wire))) continue;
      wiring_.collect(input.name(), "input", {wire}, [&] { add_input(input, wire); });
    }
    for (size_t i = 0; i < static_cast<size_t>(graph_.node_size()); ++i) {
      if (!wiring_.is_node_needed(i)) continue;
      const schema::NodeProto& node = graph_.node(static_cast<int>(i));
      wiring_.collect(name_of(node), node.op_type(), wiring_.outputs(i), [&] { add_node(i, node); });
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      wiring_.collect(outputs[i], "output", {}, [&] { add_output(outputs[i], needed[i]); });
    }
    wiring_.throw_if_unsupported();
    return builder_.finish();
  }

 private:
  static const std::string& name_of(const schema::NodeProto& node) {
    static const std::string nameless;
    if (!node.name().empty()) return node.name();
    return node.output_size() > 0 ? node.output(0) : nameless;
  }

  Wires wires(const google::protobuf::RepeatedPtrField<std::string>& names) {
    Wires wires;
    for (const std::string& name : names) wires.push_back(name.empty() ? no_wire : wiring_.mention(name));
    return wires;
  }

  void add_input(const schema::ValueInfoProto& input, Wire wire) {
    const schema::TypeProto::Tensor& type = input.type().tensor_type();
    const std::optional<ElementType> element = element_type(type.elem_type());
    const auto is = [&](ElementType one) { return element == one; };
    if (!is(ElementType::f32) && !is(ElementType::f16) && !is(ElementType::s8) && !is(ElementType::u8)) {
      if (wiring_.is_needed(wire)) throw Unsupported{"type " + std::to_string(type.elem_type())};
      return wiring_.lose({wire});
    }
    if (!type.has_shape()) throw Unsupported{"without a shape"};
    Shape shape;
    for (const auto& dim : type.shape().dim()) {
      const bool is_batch = shape.empty();
      if (dim.dim_value() <= 0 && !is_batch) {
        throw Unsupported{"dimension " + std::to_string(shape.size()) + " has no fixed size"};
      }
      shape.push_back(dim.dim_value() <= 0 ? 1 : static_cast<size_t>(dim.dim_value()));
    }
    Value value = builder_.input(input.name(), shape, port_type(*element), {});
    const bool open = !shape.empty() && type.shape().dim(0).dim_value() <= 0;
    if (open) builder_.leave_open(value.view, 0, type.shape().dim(0).dim_param());
    value.type = *element;
    wiring_.define(wire, std::move(value));
  }

  // Raises the builder's budget for a file. Each file counts once, however many tensors are read from it.
  void allow_file(const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::canonical(path, error);
    if (!error && files_.insert(file).second) builder_.allow(std::filesystem::file_size(file, error));
  }

  Value read(const schema::TensorProto& tensor) {
    if (tensor.data_location() == schema::TensorProto::EXTERNAL) allow_file(external_file(tensor, folder_));
    return constant_value(builder_, read_tensor(tensor, folder_));
  }

  void add_node(size_t index, const schema::NodeProto& proto) {
    const std::string& name = name_of(proto);
    const bool standard = proto.domain().empty() || proto.domain() == "ai.onnx";
    // Operators that ONNX Runtime's quantizer writes beside the standard ones.
    const bool quantized = proto.domain() == "com.microsoft" && find_quantized(proto.op_type()) != nullptr;
    if (!standard && !quantized) throw Unsupported{"of domain " + proto.domain()};
    const OnnxRow* row = find_quantized(proto.op_type());
    if (row == nullptr) row = find_layer(proto.op_type());
    if (row == nullptr) row = find_shape(proto.op_type());
    if (row == nullptr) throw Unsupported{};
    const auto inputs = wiring_.values(index, "node '" + name + "'");
    if (!inputs) return;  // the list of unsupported nodes has the cause
    const OnnxNode node(builder_, proto, name, opset_, folder_, *inputs);
    node.expect_inputs(row->min_inputs, row->max_inputs);
    // Inputs are charged, too, because many nodes may read a lot and produce little.
    for (const Value* input : *inputs) {
      if (input != nullptr) charge_integers(builder_, *input);
    }
    const Values values = row->import(node);
    for (const Value& value : values) charge_integers(builder_, value);
    if (const std::string attribute = node.unread_attribute(); !attribute.empty()) {
      throw Unsupported{"attribute " + attribute};
    }
    wiring_.define_outputs(index, values);
  }

  void add_output(const std::string& name, Wire wire) {
    if (wiring_.is_unknown(wire)) throw Error("the model has no tensor '" + name + "'");
    const Value* value = wiring_.value(wire, "the model");
    if (value == nullptr) return;
    if (!value->view) throw Unsupported{"integers that are known at import"};
    builder_.output(value->view, name, port_type(value->type));
  }

  const schema::GraphProto& graph_;
  const int64_t opset_;
  const std::string folder_;
  Builder builder_{"onnx"};
  Wiring wiring_{builder_};
  std::set<std::filesystem::path> files_;  // from which constants are read
};

}  // namespace
}  // namespace quern::onnx

namespace quern {

Graph import_onnx(const std::string& path, const ImportOptions& options) {
  const google::protobuf::LogSilencer silence;  // the importer reports errors itself
  onnx::schema::ModelProto model;
  {
    const std::string content = read_file(path, INT_MAX);
    if (!model.ParseFromString(content) || !model.has_graph()) throw Error(path + ": not an ONNX model, or damaged");
  }
  try {
    if (!options.target.empty()) {
      onnx::keep_external_files(model.graph(), std::filesystem::path(path).parent_path().string(), options.target);
    }
    return onnx::Importer(model, path).import(options.outputs);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace quern

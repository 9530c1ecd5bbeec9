// ONNX models: wiring of nodes and the border of the graph. What the operators mean is in onnx_layers and onnx_shapes.
#include <google/protobuf/stubs/logging.h>

#include <climits>
#include <filesystem>
#include <map>
#include <set>

#include "convert/common/file.h"
#include "convert/convert.h"
#include "convert/onnx/node.h"
#include "convert/onnx/tensor.h"

namespace quern {
namespace {

constexpr int64_t oldest_opset = 7, newest_opset = 21;

int64_t opset_of(const onnx::ModelProto& model) {
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

// Whatever of the model lies in other files, even if nothing needs it.
void keep_external_files(const onnx::GraphProto& graph, const std::string& folder, const std::string& target) {
  for (const onnx::TensorProto& tensor : graph.initializer()) keep_external_file(tensor, folder, target);
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) keep_external_file(attribute.t(), folder, target);
  }
}

class Importer {
 public:
  Importer(const onnx::ModelProto& model, const std::filesystem::path& path)
      : graph_(model.graph()), opset_(opset_of(model)), folder_(path.parent_path().string()) {
    builder_.set_name(graph_.name());
    allow_file(path);
    for (const onnx::TensorProto& tensor : graph_.initializer()) {
      if (!initializers_.emplace(tensor.name(), &tensor).second) {
        throw Error("initializer '" + tensor.name() + "' is given twice");
      }
    }
  }

  Graph import(const std::vector<std::string>& names) {
    std::vector<std::string> outputs = names;
    if (outputs.empty()) {
      for (const onnx::ValueInfoProto& output : graph_.output()) outputs.push_back(output.name());
    }
    if (outputs.empty()) throw Error("the model has no outputs");
    mark_needed(outputs);
    for (const onnx::ValueInfoProto& input : graph_.input()) {
      if (initializers_.count(input.name()) == 0 && (names.empty() || needed_.count(input.name()) > 0)) {
        collecting(input.name(), "input", [&] { add_input(input); });
      }
    }
    for (int i = 0; i < graph_.node_size(); ++i) {
      if (!node_needed_[static_cast<size_t>(i)]) continue;
      const onnx::NodeProto& node = graph_.node(i);
      const bool added = collecting(name_of(node), node.op_type(), [&] { add_node(node); });
      if (added) continue;
      for (const std::string& output : node.output()) unknown_.insert(output);
    }
    for (const std::string& output : outputs) {
      collecting(output, "output", [&] { add_output(output); });
    }
    unsupported_.throw_if_any();
    return builder_.finish();
  }

 private:
  static const std::string& name_of(const onnx::NodeProto& node) {
    static const std::string nameless;
    if (!node.name().empty()) return node.name();
    return node.output_size() > 0 ? node.output(0) : nameless;
  }

  // False, with an entry in the list, when `body` finds something unsupported.
  template <class Body>
  bool collecting(const std::string& name, const std::string& type, Body&& body) {
    try {
      body();
      return true;
    } catch (const Unsupported& unsupported) {
      unsupported_.add(name, type, unsupported.reason);
      return false;
    }
  }

  // Follows the outputs backwards; nodes are sorted, so each one is seen after all its readers.
  void mark_needed(const std::vector<std::string>& outputs) {
    needed_.insert(outputs.begin(), outputs.end());
    node_needed_.assign(static_cast<size_t>(graph_.node_size()), 0);
    for (int i = graph_.node_size(); i-- > 0;) {
      const onnx::NodeProto& node = graph_.node(i);
      for (const std::string& output : node.output()) {
        if (!output.empty() && needed_.count(output) > 0) node_needed_[static_cast<size_t>(i)] = 1;
      }
      if (node_needed_[static_cast<size_t>(i)]) needed_.insert(node.input().begin(), node.input().end());
    }
  }

  void define(const std::string& name, Value value) {
    if (initializers_.count(name) > 0 || !values_.emplace(name, std::move(value)).second) {
      throw Error("tensor '" + name + "' is written twice");
    }
  }

  void add_input(const onnx::ValueInfoProto& input) {
    const bool is_needed = needed_.count(input.name()) > 0;
    unknown_.insert(input.name());  // until it turns out well
    const onnx::TypeProto::Tensor& type = input.type().tensor_type();
    if (type.elem_type() != onnx::TensorProto::FLOAT && type.elem_type() != onnx::TensorProto::FLOAT16) {
      if (!is_needed) return;
      throw Unsupported{"type " + std::to_string(type.elem_type())};
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
    unknown_.erase(input.name());
    Value value;
    value.type = type.elem_type();
    const qn_type port = value.type == onnx::TensorProto::FLOAT16 ? QN_F16 : QN_F32;
    value.view = builder_.input(input.name(), shape, port, {});
    define(input.name(), value);
  }

  // However many tensors name the same bytes of a file, it counts once.
  void allow_file(const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::canonical(path, error);
    if (!error && files_.insert(file).second) builder_.allow(std::filesystem::file_size(file, error));
  }

  // Null when the tensor depends on something unsupported. Initializers are read when first used.
  const Value* find(const std::string& name, const std::string& reader) {
    if (unknown_.count(name) > 0) return nullptr;
    const auto at = values_.find(name);
    if (at != values_.end()) return &at->second;
    const auto initializer = initializers_.find(name);
    if (initializer == initializers_.end()) {
      throw Error(reader + " reads '" + name + "', which nothing before it writes");
    }
    const onnx::TensorProto& tensor = *initializer->second;
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) allow_file(external_file(tensor, folder_));
    Value value = constant_value(builder_, read_tensor(tensor, folder_));
    charge_integers(value);
    return &values_.emplace(name, std::move(value)).first->second;
  }

  void charge_integers(const Value& value) {
    if (value.integers != nullptr) builder_.charge(value.integers->values.size() * sizeof(int64_t));
  }

  void add_node(const onnx::NodeProto& proto) {
    const std::string& name = name_of(proto);
    if (!proto.domain().empty() && proto.domain() != "ai.onnx") throw Unsupported{"of domain " + proto.domain()};
    const OnnxKind* kind = find_onnx_layer(proto.op_type());
    if (kind == nullptr) kind = find_onnx_shape(proto.op_type());
    if (kind == nullptr) throw Unsupported{};
    std::vector<const Value*> inputs;
    for (const std::string& input : proto.input()) {
      inputs.push_back(input.empty() ? nullptr : find(input, "node '" + name + "'"));
      if (inputs.back() != nullptr || input.empty()) continue;
      for (const std::string& output : proto.output()) unknown_.insert(output);
      return;  // the cause is in the list already
    }
    const OnnxNode node(builder_, proto, name, opset_, folder_, inputs);
    if (inputs.size() < kind->min_inputs || inputs.size() > kind->max_inputs) {
      node.fail("has " + std::to_string(inputs.size()) + " inputs");
    }
    // What is read counts too: many nodes may read much and give little.
    for (const Value* input : inputs) {
      if (input != nullptr) charge_integers(*input);
    }
    const Values values = kind->import(node);
    for (const Value& value : values) charge_integers(value);
    if (const std::string attribute = node.unread_attribute(); !attribute.empty()) {
      throw Unsupported{"attribute " + attribute};
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      const bool has_value = static_cast<size_t>(i) < values.size();
      if (!has_value && needed_.count(proto.output(i)) > 0 && !proto.output(i).empty()) {
        throw Unsupported{"output " + std::to_string(i)};
      }
      if (has_value && !proto.output(i).empty()) define(proto.output(i), values[static_cast<size_t>(i)]);
    }
  }

  void add_output(const std::string& name) {
    if (values_.count(name) == 0 && unknown_.count(name) == 0 && initializers_.count(name) == 0) {
      throw Error("the model has no tensor '" + name + "'");
    }
    const Value* value = find(name, "the model");
    if (value == nullptr) return;
    if (!value->view) throw Unsupported{"integers that are known at import"};
    builder_.output(value->view, name, value->type == onnx::TensorProto::FLOAT16 ? QN_F16 : QN_F32);
  }

  const onnx::GraphProto& graph_;
  const int64_t opset_;
  const std::string folder_;
  Builder builder_{"onnx"};
  std::set<std::filesystem::path> files_;  // that constants are read from
  std::map<std::string, const onnx::TensorProto*> initializers_;
  std::map<std::string, Value> values_;
  std::set<std::string> needed_;
  std::vector<char> node_needed_;
  std::set<std::string> unknown_;  // depend on something unsupported
  UnsupportedList unsupported_;
};

}  // namespace

Graph import_onnx(const std::string& path, const ImportOptions& options) {
  const google::protobuf::LogSilencer silence;  // errors are ours to tell
  onnx::ModelProto model;
  {
    const std::string content = read_file(path, INT_MAX);
    if (!model.ParseFromString(content) || !model.has_graph()) throw Error(path + ": not an ONNX model, or damaged");
  }
  try {
    if (!options.target.empty()) {
      keep_external_files(model.graph(), std::filesystem::path(path).parent_path().string(), options.target);
    }
    return Importer(model, path).import(options.outputs);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace quern

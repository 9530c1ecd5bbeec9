// Inlines the functions of a model.
#include "convert/onnx/functions.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "convert/convert.h"

namespace quern::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<schema::NodeProto>;
using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

constexpr size_t most_nodes = 100000;
constexpr size_t most_growth = size_t{64} << 20;  // bytes
constexpr size_t max_depth = 64;                  // of calls within calls
constexpr size_t most_prefix = 64;                // bytes of a function's name that stand before names

const std::string& plain_domain(const std::string& domain) {
  static const std::string standard;
  return domain == "ai.onnx" ? standard : domain;
}

// The version of the standard operators, 0 if none is named.
template <class Proto>
int64_t standard_opset(const Proto& proto) {
  for (const schema::OperatorSetIdProto& set : proto.opset_import()) {
    if (plain_domain(set.domain()).empty()) return set.version();
  }
  return 0;
}

// One call of a function: what its names and attributes stand for.
struct Call {
  std::map<std::string, std::string> names;
  std::map<std::string, const schema::AttributeProto*> attributes;
  std::string prefix;  // of the names of nodes
};

class Inliner {
 public:
  explicit Inliner(const schema::ModelProto& model) : opset_(standard_opset(model)) {
    for (const schema::FunctionProto& function : model.functions()) {
      const Key key = {plain_domain(function.domain()), function.name(), function.overload()};
      if (!functions_.emplace(key, &function).second) throw Error("function '" + function.name() + "' is given twice");
    }
    add_names(model.graph());
  }

  void expand(schema::GraphProto* graph) {
    Nodes nodes;
    nodes.Swap(graph->mutable_node());
    for (schema::NodeProto& node : nodes) expand(std::move(node), graph->mutable_node());
  }

 private:
  // Appends a node to `to`, or the nodes of the function that it calls.
  void expand(schema::NodeProto node, Nodes* to) {
    for (schema::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) expand(attribute.mutable_g());
    }
    const auto found = functions_.find({plain_domain(node.domain()), node.op_type(), node.overload()});
    if (found == functions_.end()) {
      *to->Add() = std::move(node);
      return;
    }
    const schema::FunctionProto& function = *found->second;
    if (!running_.insert(&function).second) throw Error("function '" + function.name() + "' calls itself");
    if (running_.size() > max_depth) throw Error("functions within functions, too deep");
    const int64_t opset = standard_opset(function);
    if (opset != 0 && opset != opset_) {
      throw Error("function '" + function.name() + "' is of operator set " + std::to_string(opset) + ", the model of " +
                  std::to_string(opset_));
    }
    Call call = call_of(node, function);
    for (const schema::NodeProto& inner : function.node()) expand(renamed(inner, &call), to);
    for (const std::string& output : function.output()) add_identity(node, function, output, to);
    running_.erase(&function);
  }

  Call call_of(const schema::NodeProto& node, const schema::FunctionProto& function) {
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      throw Error("node '" + node.name() + "': function '" + function.name() + "' has fewer inputs or outputs");
    }
    Call call;
    call.prefix = function.name().substr(0, most_prefix) + " " + std::to_string(++calls_) + "/";
    for (int i = 0; i < function.output_size() && i < node.output_size(); ++i) {
      if (!node.output(i).empty()) call.names[function.output(i)] = node.output(i);
    }
    // An input that is an output, too, keeps its name inside.
    for (int i = 0; i < function.input_size(); ++i) {
      call.names[function.input(i)] = i < node.input_size() ? node.input(i) : std::string();
    }
    for (const schema::AttributeProto& attribute : function.attribute_proto()) {
      call.attributes[attribute.name()] = &attribute;
    }
    for (const schema::AttributeProto& attribute : node.attribute()) call.attributes[attribute.name()] = &attribute;
    return call;
  }

  // Gives an output that is also an input of the function its own name.
  static void add_identity(const schema::NodeProto& node, const schema::FunctionProto& function,
                           const std::string& output, Nodes* to) {
    for (int o = 0; o < node.output_size(); ++o) {
      if (function.output(o) != output || node.output(o).empty()) continue;
      for (int i = 0; i < node.input_size(); ++i) {
        if (function.input(i) != output) continue;
        schema::NodeProto* const identity = to->Add();
        identity->set_op_type("Identity");
        identity->add_input(node.input(i));
        identity->add_output(node.output(o));
      }
    }
  }

  // ---- copies of a function's nodes

  schema::NodeProto renamed(const schema::NodeProto& inner, Call* call) {
    if (++nodes_ > most_nodes) fail_growth();
    charge(inner.ByteSizeLong());
    schema::NodeProto node = inner;
    if (!inner.name().empty()) node.set_name(call->prefix + inner.name());
    for (std::string& name : *node.mutable_input()) name = name_in(call, name);
    for (std::string& name : *node.mutable_output()) name = name_in(call, name);
    node.clear_attribute();
    for (const schema::AttributeProto& attribute : inner.attribute()) add_attribute(attribute, call, &node);
    return node;
  }

  void charge(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > most_growth) fail_growth();
  }
  [[noreturn]] static void fail_growth() {
    throw Error("functions that are called often make the model grow far beyond its size");
  }

  // Adds an attribute, unless it refers to one that the call leaves out.
  void add_attribute(const schema::AttributeProto& attribute, Call* call, schema::NodeProto* to) {
    if (attribute.ref_attr_name().empty()) {
      schema::AttributeProto* const copy = to->add_attribute();
      *copy = attribute;
      if (copy->has_g()) rename(copy->mutable_g(), call);
      return;
    }
    const auto found = call->attributes.find(attribute.ref_attr_name());
    if (found == call->attributes.end()) return;
    charge(found->second->ByteSizeLong());
    schema::AttributeProto* const copy = to->add_attribute();
    *copy = *found->second;
    copy->set_name(attribute.name());
  }

  void rename(schema::GraphProto* graph, Call* call) {
    for (schema::ValueInfoProto& input : *graph->mutable_input()) input.set_name(name_in(call, input.name()));
    for (schema::TensorProto& constant : *graph->mutable_initializer()) {
      constant.set_name(name_in(call, constant.name()));
    }
    for (schema::SparseTensorProto& sparse : *graph->mutable_sparse_initializer()) {
      sparse.mutable_values()->set_name(name_in(call, sparse.values().name()));
    }
    for (schema::NodeProto& node : *graph->mutable_node()) node = renamed(node, call);
    for (schema::ValueInfoProto& output : *graph->mutable_output()) output.set_name(name_in(call, output.name()));
  }

  // What a name in a function stands for: something of the node that calls it, or a name of this call's own.
  std::string name_in(Call* call, const std::string& name) {
    if (name.empty()) return name;
    const auto [entry, is_new] = call->names.emplace(name, std::string());
    if (is_new) {
      entry->second = call->prefix + name;
      while (!names_.insert(entry->second).second) entry->second += '_';
    }
    charge(entry->second.size());
    return entry->second;
  }

  // Remembers the names that a graph uses.
  void add_names(const schema::GraphProto& graph) {
    for (const schema::ValueInfoProto& input : graph.input()) names_.insert(input.name());
    for (const schema::TensorProto& constant : graph.initializer()) names_.insert(constant.name());
    for (const schema::SparseTensorProto& sparse : graph.sparse_initializer()) names_.insert(sparse.values().name());
    for (const schema::NodeProto& node : graph.node()) {
      names_.insert(node.output().begin(), node.output().end());
      for (const schema::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) add_names(attribute.g());
      }
    }
  }

  const int64_t opset_;
  std::map<Key, const schema::FunctionProto*> functions_;
  std::set<const schema::FunctionProto*> running_;
  std::set<std::string> names_;
  size_t nodes_ = 0, bytes_ = 0;  // copied
  size_t calls_ = 0;
};

}  // namespace

void inline_functions(schema::ModelProto* model) {
  if (model->functions().empty()) return;
  Inliner(*model).expand(model->mutable_graph());
  model->clear_functions();
}

}  // namespace quern::onnx

// Imports ONNX models: connects nodes, inputs and outputs. layers.cc and shapes.cc import the single operators.
#include <google/protobuf/stubs/logging.h>

#include <bit>
#include <climits>
#include <filesystem>
#include <set>

#include "convert/common/file.h"
#include "convert/common/wiring.h"
#include "convert/convert.h"
#include "convert/onnx/contrib.h"
#include "convert/onnx/functions.h"
#include "convert/onnx/node.h"
#include "convert/onnx/old.h"
#include "convert/onnx/open_sizes.h"
#include "convert/onnx/order.h"
#include "convert/onnx/sequences.h"
#include "convert/onnx/tensor.h"
#include "convert/sizes.h"
#include "graph/pass/passes.h"

namespace quern::onnx {
namespace {

constexpr int64_t oldest_opset = 1, newest_opset = 28, expanded_opset = 23;

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
  for (const schema::SparseTensorProto& sparse : graph.sparse_initializer()) keep_external_file(sparse, folder, target);
  for (const schema::NodeProto& node : graph.node()) {
    for (const schema::AttributeProto& attribute : node.attribute()) {
      keep_external_file(attribute.t(), folder, target);
      keep_external_file(attribute.sparse_tensor(), folder, target);
    }
  }
}

// Imports a graph: that of the model, or one that a node runs.
class Importer {
 public:
  // Adds to `builder`, if there is one; else to a graph of its own.
  Importer(const schema::GraphProto& graph, int64_t opset, std::string folder, size_t depth = 1,
           Builder* builder = nullptr)
      : graph_(graph),
        opset_(opset),
        folder_(std::move(folder)),
        depth_(depth),
        builder_(builder != nullptr ? *builder : own_builder_),
        wiring_(builder_) {
    if (builder == nullptr) builder_.set_name(graph_.name());
    builder_.allow_empty();
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      define_initializer(graph_.initializer(i).name(), [this, i] { return read_initializer(i); });
    }
    for (const schema::SparseTensorProto& sparse : graph_.sparse_initializer()) {
      define_initializer(sparse.values().name(), [this, &sparse] { return read_sparse(sparse); });
    }
    for (const schema::NodeProto& node : graph_.node()) {
      Wires inputs = wires(node.input());
      for (const std::string& name : captured_by(node)) inputs.push_back(wiring_.mention(name));
      wiring_.add_node(std::move(inputs), wires(node.output()));
    }
  }

  // Says that nobody else needs the importer's graph: initializers are emptied when they have become constants, so that
  // weights are not in memory once more than necessary.
  void use_up(schema::GraphProto* graph) { used_up_ = graph; }

  Graph import(const std::filesystem::path& path, const ImportOptions& options, const OpenSizes& sizes) {
    allow_file(path);
    open_sizes_ = sizes;
    asked_sizes_ = options.sizes;
    const std::vector<std::string>& names = options.outputs;
    std::vector<std::string> outputs = names.empty() ? output_names() : names;
    if (outputs.empty()) throw Error("the model has no outputs");
    read_as_integers_.insert(outputs.begin(), outputs.end());
    need(outputs);
    for (const schema::ValueInfoProto& input : graph_.input()) {
      const Wire wire = wiring_.mention(input.name());
      if (wiring_.is_constant(wire) || (!names.empty() && !wiring_.is_needed(wire))) continue;
      wiring_.collect_part("input '" + input.name() + "'", {wire}, [&] { add_input(input, wire); });
    }
    add_nodes();
    for (const std::string& output : outputs) {
      wiring_.collect_part("output '" + output + "'", {}, [&] { add_output(output, wiring_.mention(output)); });
    }
    wiring_.throw_if_unsupported();
    return builder_.finish();
  }

  // ---- a graph that a node runs

  // Defines its inputs. `around` has what it captures, by name.
  void add_formals(const std::vector<Formal>& formals, bool counted, Builder& outer,
                   const std::vector<std::pair<std::string, const Value*>>& around) {
    builder_.share_budget(outer);
    need(output_names());
    if (counted) {
      run_ = builder_.input("run", {}, QN_S64, {});
      goes_on_ = builder_.input("goes_on", {}, QN_BOOL, {});
    }
    if (static_cast<int>(formals.size()) != graph_.input_size()) throw Error("a graph has a wrong number of inputs");
    for (size_t i = 0; i < formals.size(); ++i) {
      const Formal& formal = formals[i];
      const std::string& name = graph_.input(static_cast<int>(i)).name();
      Value value = formal.whole   ? row(name, formal, outer)
                    : formal.shape ? builder_.input(name, *formal.shape, operand_type(formal.type), {})
                                   : builder_.unsized_input(name, operand_type(formal.type));
      value.type = formal.type;
      wiring_.define(wiring_.mention(name), std::move(value));
    }
    for (const auto& [name, value] : around) wiring_.define(wiring_.mention(name), capture(name, *value, outer));
  }

  Graph import_body(std::vector<ElementType>* types) {
    add_nodes();
    types->clear();
    if (goes_on_) builder_.output(goes_on_, "goes_on/next", QN_BOOL);
    for (const std::string& name : output_names()) {
      expect_tensor(wiring_.mention(name));
      const Value* const value = wiring_.value(wiring_.mention(name), "the graph");
      if (value == nullptr) break;  // wiring_ has what is unsupported
      types->push_back(value->type);
      const View view = value->view ? value->view : constant_of(*value);
      if (builder_.type(view) != operand_type(value->type)) throw Unsupported{"a quantized output of a graph"};
      builder_.output(view, name, builder_.type(view));
    }
    if (const std::string list = wiring_.unsupported(); !list.empty()) throw Unsupported{"its graph has " + list};
    return builder_.finish();
  }

 private:
  std::vector<std::string> output_names() const {
    std::vector<std::string> names;
    for (const schema::ValueInfoProto& output : graph_.output()) names.push_back(output.name());
    return names;
  }

  void need(const std::vector<std::string>& outputs) {
    Wires needed;
    for (const std::string& output : outputs) needed.push_back(wiring_.mention(output));
    wiring_.need(needed);
  }

  void add_nodes() {
    for (size_t i = 0; i < static_cast<size_t>(graph_.node_size()); ++i) {
      if (!wiring_.is_node_needed(i)) continue;
      const schema::NodeProto& node = graph_.node(static_cast<int>(i));
      wiring_.collect(name_of(node), node.op_type(), wiring_.outputs(i), [&] { add_node(i, node); });
    }
  }

  View constant_of(const Value& value) {
    for (const Symbol symbol : value.integers->symbols) builder_.fix(symbol, "output");
    return integer_constant(builder_, *value.integers, value.type);
  }

  // An input of which each run reads one row.
  View row(const std::string& name, const Formal& formal, Builder& outer) {
    const View whole = outer.is_sized(formal.whole)
                           ? builder_.input(name + "/whole", outer.shape(formal.whole), outer.type(formal.whole), {})
                           : builder_.unsized_input(name + "/whole", outer.type(formal.whole));
    Parameters axis = Parameters().integer("axis", static_cast<int64_t>(formal.axis));
    return builder_.custom("gather", name, {whole, run_}, std::move(axis), {outer.type(formal.whole)})[0];
  }

  // A tensor of the graph around this one. Constants are copied; others are inputs, in the same order as in `bodies`.
  Value capture(const std::string& name, const Value& value, Builder& outer) {
    if (value.integers != nullptr) {
      for (const Symbol symbol : value.integers->symbols) outer.fix(symbol, name);
      return integer_value({value.integers->shape, value.integers->values, {}}, value.type);
    }
    Value mine;
    if (outer.is_constant(value.view)) {
      mine.view = builder_.copy_constant(outer, value.view);
      for (const View& part : value.quantized) mine.quantized.push_back(builder_.copy_constant(outer, part));
    } else {
      if (outer.type(value.view) != operand_type(value.type)) throw Unsupported{"a graph reads a quantized tensor"};
      mine.view = outer.is_sized(value.view) ? builder_.input(name, outer.shape(value.view), outer.type(value.view), {})
                                             : builder_.unsized_input(name, outer.type(value.view));
      for (size_t d = 0; d < mine.view.rank(); ++d) {
        if (outer.is_open(outer.symbol(value.view, d))) builder_.leave_open(mine.view, d, "");
      }
    }
    mine.type = value.type;
    return mine;
  }

  // Imports the nodes of a graph, of an operator set, into this one.
  Values in_place(const schema::GraphProto& graph, int64_t opset,
                  const std::vector<std::pair<std::string, const Value*>>& captured) {
    if (depth_ == max_depth) throw Unsupported{"more than six graphs within each other"};
    if (graph.input_size() != 0) throw Error("a graph of If has inputs");
    Importer inner(graph, opset, folder_, depth_ + 1, &builder_);
    inner.need(inner.output_names());
    std::set<std::string> known;
    for (const auto& [name, value] : captured) {
      inner.wiring_.define(inner.wiring_.mention(name), *value);
      if (value->integers != nullptr || (value->view && builder_.is_constant(value->view))) known.insert(name);
    }
    inner.read_as_integers_ = read_as_integers(graph, std::move(known));
    inner.add_nodes();
    if (const std::string list = inner.wiring_.unsupported(); !list.empty()) throw Unsupported{"its graph has " + list};
    Values outputs;
    for (const std::string& name : inner.output_names()) {
      inner.expect_tensor(inner.wiring_.mention(name));
      outputs.push_back(*inner.wiring_.value(inner.wiring_.mention(name), "the graph"));
    }
    return outputs;
  }

  // Imports graphs of a node; `captured` is what they read of this one.
  Bodies bodies(const std::vector<const schema::GraphProto*>& graphs, const std::vector<Formal>& formals, bool counted,
                const std::vector<std::pair<std::string, const Value*>>& captured) {
    if (depth_ == max_depth) throw Unsupported{"more than six graphs within each other"};
    Bodies made;
    for (const Formal& formal : formals) {
      if (formal.whole) made.captured.push_back(formal.whole);
    }
    for (const auto& [name, value] : captured) {
      if (value->integers == nullptr && !builder_.is_constant(value->view)) made.captured.push_back(value->view);
    }
    for (const schema::GraphProto* graph : graphs) {
      Importer body(*graph, opset_, folder_, depth_ + 1);
      body.add_formals(formals, counted, builder_, captured);
      std::vector<ElementType> types;
      made.graphs.push_back(body.import_body(&types));
      if (graph != graphs[0] && types != made.outputs) throw Unsupported{"graphs whose outputs differ in type"};
      made.outputs = std::move(types);
    }
    return made;
  }

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
    if (!element || element == ElementType::f64) {
      if (wiring_.is_needed(wire)) throw Unsupported{"type " + type_name(type.elem_type())};
      return wiring_.lose({wire});
    }
    if (!type.has_shape()) throw Unsupported{"without a shape"};
    Shape shape;
    for (const auto& dim : type.shape().dim()) {
      const size_t d = shape.size(), rank = static_cast<size_t>(type.shape().dim_size());
      const size_t* size = asked_size(asked_sizes_, input.name(), rank, d, dim.dim_param());
      if (size == nullptr) size = find_in(open_sizes_, key_of(input, static_cast<int>(d)));
      shape.push_back(!is_open(type.shape(), shape.size()) ? static_cast<size_t>(dim.dim_value())
                      : size != nullptr                    ? *size
                                                           : 1);
    }
    Value value = builder_.input(input.name(), shape, port_type(*element), {});
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto& dim = type.shape().dim(static_cast<int>(d));
      if (is_open(type.shape(), d)) builder_.leave_open(value.view, d, dim.dim_param());
    }
    value.type = *element;
    wiring_.define(wire, std::move(value));
  }

  // Raises the builder's budget for a file. Each file counts once, however many tensors are read from it.
  void allow_file(const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path file = std::filesystem::canonical(path, error);
    if (!error && files_.insert(file).second) builder_.allow(std::filesystem::file_size(file, error));
  }

  void define_initializer(const std::string& name, std::function<Value()> read) {
    const Wire wire = wiring_.mention(name);
    if (wiring_.is_constant(wire)) throw Error("initializer '" + name + "' is given twice");
    wiring_.define_constant(wire, std::move(read));
  }

  void allow_external(const schema::TensorProto& tensor) {
    if (tensor.data_location() == schema::TensorProto::EXTERNAL) allow_file(external_file(tensor, folder_));
  }

  Value read(const schema::TensorProto& tensor) {
    allow_external(tensor);
    return constant_value(builder_, read_tensor(tensor, folder_));
  }

  Value read_sparse(const schema::SparseTensorProto& sparse) {
    allow_external(sparse.values());
    allow_external(sparse.indices());
    return constant_value(builder_, read_tensor(sparse, folder_, [this](size_t bytes) { builder_.charge(bytes); }));
  }

  Value read_initializer(int index) {
    Value value = read(graph_.initializer(index));
    if (used_up_ != nullptr) schema::TensorProto().Swap(used_up_->mutable_initializer(index));
    return value;
  }

  void add_node(size_t index, const schema::NodeProto& proto) {
    const std::string& name = name_of(proto);
    const bool standard = proto.domain().empty() || proto.domain() == "ai.onnx";
    if (standard && is_about_sequences(proto.op_type())) return add_sequence(index, proto);
    for (const Wire wire : wiring_.inputs(index)) expect_tensor(wire);
    // Operators that ONNX Runtime's tools write beside the standard ones; this one in the standard domain, too.
    const bool own = proto.domain() == "com.microsoft";
    const OnnxRow* row =
        own || proto.op_type() == "SimplifiedLayerNormalization" ? find_contrib(proto.op_type()) : nullptr;
    if (row == nullptr && (standard || own)) row = find_quantized(proto.op_type());
    if (!standard && row == nullptr) throw Unsupported{"of domain " + proto.domain()};
    if (row == nullptr) row = find_layer(proto.op_type());
    if (row == nullptr) row = find_shape(proto.op_type());
    if (proto.op_type() == "DynamicQuantizeLinear" && !becomes_nothing(proto)) row = nullptr;
    const OnnxRow* const general = standard ? find_general(proto.op_type()) : nullptr;
    if (row == nullptr && general == nullptr) throw Unsupported{};
    const auto inputs = wiring_.values(index, "node '" + name + "'");
    if (!inputs) return;  // the list of unsupported nodes has the cause
    const bool empty = std::any_of(inputs->begin(), inputs->end(), [this](const Value* x) { return is_empty(x); });
    if (general != nullptr && empty) row = find_shape(proto.op_type());  // layers need elements
    // Activations whose shape only a run knows are quantized as the model says: no layer takes them.
    const bool unsized = !inputs->empty() && inputs->front() != nullptr && inputs->front()->view &&
                         !builder_.is_sized(inputs->front()->view);
    if (proto.op_type() == "DynamicQuantizeLinear" && unsized) row = nullptr;
    if (row != nullptr) {
      try {
        return import(index, proto, *row, *inputs);
      } catch (const Unsupported&) {
        if (general == nullptr) throw;
      } catch (const Error&) {  // what is wrong may be that a tensor has no elements
        if (general == nullptr || !empty) throw;
      }
    }
    import(index, proto, *general, *inputs);
  }

  // An operator on sequences, of which only the first input may be one.
  void add_sequence(size_t index, const schema::NodeProto& proto) {
    const std::string& name = name_of(proto);
    const Wires& wires = wiring_.inputs(index);
    const Values* const sequence = wires.empty() ? nullptr : find_in(sequences_, wires[0]);
    std::vector<const Value*> inputs;
    for (size_t i = 0; i < wires.size(); ++i) {
      const bool is_tensor = wires[i] != no_wire && (i != 0 || sequence == nullptr);
      if (is_tensor) expect_tensor(wires[i]);
      inputs.push_back(is_tensor ? wiring_.value(wires[i], "node '" + name + "'") : nullptr);
      if (is_tensor && inputs.back() == nullptr) return wiring_.lose(wiring_.outputs(index));
      if (is_tensor) charge_reading(builder_, *inputs.back());
    }
    const OnnxNode node(builder_, proto, name, opset_, folder_, inputs);
    SequenceResult result = import_sequence(node, sequence);
    if (const std::string attribute = node.unread_attribute(); !attribute.empty()) {
      throw Unsupported{"attribute " + attribute};
    }
    if (!result.is_sequence) return wiring_.define_outputs(index, result.values);
    for (const Wire output : wiring_.outputs(index)) sequences_[output] = std::move(result.values);
  }

  void expect_tensor(Wire wire) const {
    if (sequences_.count(wire) != 0) throw Unsupported{"of a sequence"};
  }

  // Whether the input is a tensor of our graph without elements.
  bool is_empty(const Value* input) const {
    return input != nullptr && input->view && builder_.is_sized(input->view) && builder_.elements(input->view) == 0;
  }

  // Whether activations that the node quantizes may stay real numbers.
  bool becomes_nothing(const schema::NodeProto& node) const {
    return std::none_of(node.output().begin(), node.output().end(),
                        [this](const std::string& name) { return read_as_integers_.count(name) != 0; });
  }

  void import(size_t index, const schema::NodeProto& proto, const OnnxRow& row,
              const std::vector<const Value*>& inputs) {
    const auto own = static_cast<size_t>(proto.input_size());
    Modern modern;
    const schema::NodeProto* form = &proto;
    std::vector<const Value*> of_node(inputs.begin(), inputs.begin() + proto.input_size());
    if (opset_ < first_modern_opset && proto.domain() != "com.microsoft") {
      modern = modernized(OnnxNode(builder_, proto, name_of(proto), opset_, folder_, of_node));
      form = &modern.proto;
      of_node = modern.inputs;
    }
    OnnxNode node(builder_, *form, name_of(proto), opset_, folder_, of_node);
    const auto captured = [&] {
      std::vector<std::pair<std::string, const Value*>> list;
      const std::vector<std::string> names = captured_by(proto);
      for (size_t i = 0; i < names.size(); ++i) list.emplace_back(names[i], inputs[own + i]);
      return list;
    };
    node.bodies = [&](const std::vector<const schema::GraphProto*>& graphs, const std::vector<Formal>& formals,
                      bool counted) { return bodies(graphs, formals, counted, captured()); };
    node.in_place = [&](const schema::GraphProto& graph) { return in_place(graph, opset_, captured()); };
    node.expand = [&](const schema::GraphProto& graph) {
      std::vector<std::pair<std::string, const Value*>> list;
      for (size_t i = 0; i < own; ++i) {
        if (inputs[i] != nullptr) list.emplace_back(input_of_expanded(i), inputs[i]);
      }
      return in_place(graph, expanded_opset, list);
    };
    node.expect_inputs(row.min_inputs, row.max_inputs);
    // Inputs are charged, too, because many nodes may read a lot and produce little.
    for (const Value* input : inputs) {
      if (input != nullptr) charge_reading(builder_, *input);
    }
    const Values values = row.import(node);
    for (const Value& value : values) charge_integers(builder_, value);
    if (const std::string attribute = node.unread_attribute(); !attribute.empty()) {
      throw Unsupported{"attribute " + attribute};
    }
    wiring_.define_outputs(index, values);
  }

  void add_output(const std::string& name, Wire wire) {
    expect_tensor(wire);
    if (wiring_.is_unknown(wire)) throw Error("the model has no tensor '" + name + "'");
    const Value* value = wiring_.value(wire, "the model");
    if (value == nullptr) return;
    const View view = value->view ? value->view : integers_in_run(builder_, name, *value->integers, value->type);
    builder_.output(view, name, port_type(value->type));
  }

  static constexpr size_t max_depth = 6;  // as the graph's checker has it

  const schema::GraphProto& graph_;
  const int64_t opset_;
  const std::string folder_;
  const size_t depth_;
  View run_ = {}, goes_on_ = {};  // inputs that the source's graph does not have
  Builder own_builder_{"onnx"};
  Builder& builder_;
  Wiring wiring_;
  schema::GraphProto* used_up_ = nullptr;
  OpenSizes open_sizes_;
  std::vector<ImportOptions::Input> asked_sizes_;
  std::map<Wire, Values> sequences_;
  std::set<std::string> read_as_integers_ = read_as_integers(graph_);
  std::set<std::filesystem::path> files_;  // from which constants are read
};

// ---- open dimensions

// How many open dimensions of inputs cannot change, because a node was converted for the example size alone.
int fixed_dimensions(const Graph& graph) {
  int n = 0;
  for (const Port& input : graph.inputs) n += std::popcount(static_cast<unsigned>(input.open & input.fixed));
  return n;
}

constexpr size_t most_suitable = 8;  // attempts of which the best one is taken

// Imports the model with the example sizes that suit it best: of those with which it makes sense, the first ones that
// leave most open dimensions open. If none makes sense, the message is that of the first attempt. Uses up the model.
Graph import_with_examples(schema::ModelProto model, const std::filesystem::path& path, const ImportOptions& options) {
  std::optional<Error> first;
  std::optional<Graph> best;
  const std::vector<OpenSizes> attempts = example_sizes(model.graph());
  for (size_t i = 0, suitable = 0; i < attempts.size() && suitable < most_suitable; ++i) {
    try {
      Importer importer(model.graph(), opset_of(model), path.parent_path().string());
      if (attempts.size() == 1) importer.use_up(model.mutable_graph());
      Graph graph = importer.import(path, options, attempts[i]);
      if (attempts.size() == 1) return graph;
      Graph optimized = graph;  // which may show more sizes
      if (optimize(optimized) != QN_OK) throw Error(qn_last_message());
      ++suitable;
      if (fixed_dimensions(graph) == 0) return graph;
      if (!best || fixed_dimensions(graph) < fixed_dimensions(*best)) best = std::move(graph);
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  if (!best) throw Error(*first);
  return std::move(*best);
}

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
    onnx::inline_functions(&model);
    onnx::sort_nodes(model.mutable_graph());
    if (!options.target.empty()) {
      onnx::keep_external_files(model.graph(), std::filesystem::path(path).parent_path().string(), options.target);
    }
    return onnx::import_with_examples(std::move(model), path, options);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace quern

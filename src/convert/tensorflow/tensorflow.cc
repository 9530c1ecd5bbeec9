// Imports TensorFlow's frozen graphs: connects nodes, inputs and outputs. layers.cc and shapes.cc import the single
// operators.
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <map>
#include <optional>
#include <set>

#include "convert/common/file.h"
#include "convert/common/spectra.h"
#include "convert/common/wiring.h"
#include "convert/convert.h"
#include "convert/sizes.h"
#include "convert/tensorflow/functions.h"
#include "convert/tensorflow/graph.h"
#include "convert/tensorflow/node.h"
#include "convert/tensorflow/raise.h"

namespace quern::tensorflow {
namespace {

// Parsed text takes up to a hundred times its size in memory.
constexpr size_t text_limit = size_t{4} << 20;
constexpr int nesting_limit = 32;

constexpr std::array variable_ops = {"Variable", "VariableV2", "VarHandleOp", "ReadVariableOp"};

// Functions that call each other twice would make many nodes of few bytes.
constexpr size_t max_depth_of_functions = 12;
constexpr size_t cost_of_called_node = 1024;  // or of an argument
constexpr size_t max_passing_nodes = 16;      // between an argument and a result

// Imports a graph: that of the file, or that of a function which a node calls.
class Importer {
 public:
  // Adds to `builder`, if there is one; else to a graph of its own. `calls` names the functions that led here.
  Importer(const schema::GraphDef& proto, const Graph& graph, Functions& functions, std::vector<std::string> calls = {},
           Builder* builder = nullptr)
      : proto_(proto),
        graph_(graph),
        functions_(functions),
        calls_(std::move(calls)),
        builder_(builder != nullptr ? *builder : own_builder_) {}

  void allow(size_t bytes) { builder_.allow(bytes); }

  quern::Graph import(const ImportOptions& options) {
    std::vector<TensorName> outputs;
    for (const std::string& name : options.outputs) outputs.push_back(tensor_name(name));
    if (outputs.empty()) outputs = graph_.unread();
    if (outputs.empty()) throw Error("the graph has no outputs");
    std::vector<std::string> names = options.outputs;
    for (size_t i = names.size(); i < outputs.size(); ++i) names.push_back(outputs[i].text());

    sizes_ = options.sizes;
    std::set<TensorName> cut;
    for (const ImportOptions::Input& input : options.inputs) {
      if (!cut.insert(tensor_name(input.name)).second) throw Error("input '" + input.name + "' is named twice");
    }
    const std::vector<Step> steps = graph_.needed(outputs, cut);
    connect(steps, outputs, cut);
    for (const ImportOptions::Input& input : options.inputs) add_cut(input);
    add_placeholders(steps);
    add_steps(steps);
    for (size_t i = 0; i < outputs.size(); ++i) {
      wiring_.collect_part("output '" + names[i] + "'", {}, [&] { add_output(names[i], outputs[i]); });
    }
    wiring_.throw_if_unsupported();
    return builder_.finish();
  }

 private:
  // ---- functions

  Values call(Builder& to, const std::string& name, const Values& inputs) {
    if (std::find(calls_.begin(), calls_.end(), name) != calls_.end()) {
      throw Unsupported{"function '" + name + "' calls itself"};
    }
    if (calls_.size() == max_depth_of_functions) throw Unsupported{"functions within functions, too deep"};
    const Function& function = functions_.find(name);
    if (function.inputs.size() != inputs.size()) throw Error("function '" + name + "' has other inputs");
    std::vector<std::string> calls = calls_;
    calls.push_back(name);
    Importer inner(function.nodes, *function.graph, functions_, std::move(calls), &to);
    return inner.import_call(function.outputs, function.inputs, inputs);
  }

  // Returns what the outputs are if each of the formal tensors is the value at its place.
  Values import_call(const std::vector<TensorName>& outputs, const std::vector<TensorName>& formals,
                     const Values& values) {
    const std::set<TensorName> cut(formals.begin(), formals.end());
    const std::vector<Step> steps = graph_.needed(outputs, cut);
    builder_.charge((steps.size() + formals.size()) * cost_of_called_node, "functions call each other too often");
    connect(steps, outputs, cut);
    for (size_t i = 0; i < formals.size(); ++i) wiring_.define(wire(formals[i]), values[i]);
    add_steps(steps);
    Values found;
    for (const TensorName& output : outputs) {
      if (wiring_.is_unknown(wire(output))) throw Error("the graph has no tensor '" + output.text() + "'");
      const Value* const value = wiring_.value(wire(output), "the graph");
      if (value == nullptr) break;  // the list has the cause
      found.push_back(*value);
    }
    if (const std::string list = wiring_.unsupported(); !list.empty()) throw Unsupported{"its graph has " + list};
    return found;
  }

  // For each output of a function, whether it is the input of the same number.
  std::vector<bool> passed_on(const std::string& name) const {
    const Function& function = functions_.find(name);
    std::vector<bool> passed;
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      TensorName output = function.outputs[i];
      for (size_t steps = 0; steps < max_passing_nodes; ++steps) {
        const schema::NodeDef* const node = function.graph->find(output.node);
        if (node == nullptr || node->op() != "Identity" || node->input_size() < 1) break;
        output = tensor_name(node->input(0));
      }
      passed.push_back(i < function.inputs.size() && output == function.inputs[i]);
    }
    return passed;
  }

  void add_steps(const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (is_source(steps[i]) && (calls_.empty() || steps[i].op == "Const")) continue;
      wiring_.collect(steps[i].node->name(), steps[i].op, wiring_.outputs(i), [&] { add_step(i, steps[i]); });
    }
  }

  static bool is_source(const Step& step) { return step.op == "Const" || step.op == "Placeholder"; }
  Wire wire(const TensorName& tensor) { return wiring_.mention(tensor.text()); }

  // Describes the steps. A node has the outputs that others read. One that is cut off is not its output any more.
  void connect(const std::vector<Step>& steps, const std::vector<TensorName>& outputs,
               const std::set<TensorName>& cut) {
    std::map<std::string, std::set<size_t>> read_outputs;
    Wires read;
    const auto mention = [&](const TensorName& tensor) {
      read_outputs[tensor.node].insert(tensor.output);
      read.push_back(wire(tensor));
      return read.back();
    };
    std::vector<Wires> inputs;
    for (const Step& step : steps) {
      inputs.emplace_back();
      for (const TensorName& input : step.inputs) inputs.back().push_back(mention(input));
    }
    for (const TensorName& output : outputs) mention(output);
    for (size_t i = 0; i < steps.size(); ++i) {
      const std::string& name = steps[i].node->name();
      const std::set<size_t>& numbers = read_outputs[name];
      Wires made(numbers.empty() ? 1 : *numbers.rbegin() + 1, no_wire);
      for (const size_t k : numbers) {
        if (cut.count({name, k}) == 0) made[k] = wire({name, k});
      }
      if (steps[i].op == "Const" && made[0] != no_wire) define_constant(*steps[i].node, made[0]);
      wiring_.add_node(inputs[i], made);
    }
    wiring_.need(read);
  }

  void define_constant(const schema::NodeDef& node, Wire wire) {
    const auto value = node.attr().find("value");
    if (value == node.attr().end() || !value->second.has_tensor())
      throw Error("constant '" + node.name() + "' has no value");
    wiring_.define_constant(wire, [this, &node, &tensor = value->second.tensor()] {
      return constant_value(builder_, read_tensor(builder_, tensor, node.name()));
    });
  }

  // ---- inputs

  static const schema::AttrValue* attribute(const schema::NodeDef& node, const char* name) {
    const auto at = node.attr().find(name);
    return at == node.attr().end() ? nullptr : &at->second;
  }

  // The type of a node's outputs. All tensors that can be inputs are as their operators' first inputs are, or are named.
  static schema::DataType type_of(const schema::NodeDef& node) {
    for (const char* name : {"dtype", "DstT", "T"}) {
      if (const auto* type = attribute(node, name); type != nullptr && type->has_type()) return type->type();
    }
    return schema::DT_FLOAT;
  }

  // The shape of an output as the file has it, with -1 for unknown sizes. Nothing if the rank is unknown.
  static std::optional<std::vector<int64_t>> known_shape(const schema::NodeDef& node, size_t output) {
    const schema::AttrValue* own = attribute(node, "shape");
    const schema::AttrValue* inferred = attribute(node, "_output_shapes");
    const schema::TensorShapeProto* shape = nullptr;
    if (inferred != nullptr && output < static_cast<size_t>(inferred->list().shape_size())) {
      shape = &inferred->list().shape(static_cast<int>(output));
    }
    if (own != nullptr && own->has_shape() && !own->shape().unknown_rank()) shape = &own->shape();
    if (shape == nullptr || shape->unknown_rank()) return std::nullopt;
    std::vector<int64_t> sizes;
    for (const auto& dim : shape->dim()) sizes.push_back(dim.size());
    return sizes;
  }

  // Gives the dimensions of an input that have no size in the file those that are asked for; a batch may stay open.
  Shape sized(const std::vector<int64_t>& known, const std::string& input, bool* is_open) const {
    Shape shape;
    for (const int64_t size : known) {
      const size_t d = shape.size();
      const size_t* const asked = asked_size(sizes_, input, known.size(), d, "");
      if (size <= 0 && d > 0 && asked == nullptr) {
        throw Unsupported{"dimension " + std::to_string(d) + " has no fixed size: give one with --shape"};
      }
      *is_open |= size <= 0 && d == 0;
      shape.push_back(size > 0 ? static_cast<size_t>(size) : asked != nullptr ? *asked : 1);
    }
    return shape;
  }

  void add_input(const schema::NodeDef& node, const TensorName& tensor, const std::vector<size_t>& given) {
    const std::optional<ElementType> type = element_type(type_of(node));
    if (!type || type == ElementType::f64) throw Unsupported{"type " + schema::DataType_Name(type_of(node))};
    Shape shape(given.begin(), given.end());
    bool is_open = false;
    if (given.empty()) {
      const auto known = known_shape(node, tensor.output);
      const std::vector<size_t>* const whole = known ? nullptr : asked_shape(sizes_, tensor.text());
      if (!known && whole == nullptr) throw Unsupported{"without a shape: give one with --shape"};
      if (whole != nullptr) shape.assign(whole->begin(), whole->end());
      if (known) shape = sized(*known, tensor.text(), &is_open);
    }
    Value value = builder_.input(tensor.text(), shape, port_type(*type), {});
    if (is_open) builder_.leave_open(value.view, 0, "");
    value.type = *type;
    wiring_.define(wire(tensor), std::move(value));
  }

  void add_cut(const ImportOptions::Input& input) {
    const TensorName tensor = tensor_name(input.name);
    const schema::NodeDef* node = graph_.find(tensor.node);
    if (node == nullptr) throw Error("the graph has no tensor '" + input.name + "'");
    if (!wiring_.find(tensor.text())) throw Error("the outputs do not depend on the input '" + input.name + "'");
    wiring_.collect_part("input '" + input.name + "'", {wire(tensor)}, [&] { add_input(*node, tensor, input.shape); });
  }

  // In the order of the file.
  void add_placeholders(const std::vector<Step>& steps) {
    std::set<const schema::NodeDef*> needed;
    for (const Step& step : steps) {
      if (step.op == "Placeholder") needed.insert(step.node);
    }
    for (const schema::NodeDef& node : proto_.node()) {
      if (needed.count(&node) == 0) continue;
      const TensorName tensor{node.name()};
      wiring_.collect_part("input '" + node.name() + "'", {wire(tensor)}, [&] { add_input(node, tensor, {}); });
    }
  }

  // ---- nodes and outputs

  void add_step(size_t index, const Step& step) {
    const std::string& name = step.node->name();
    const TfRow* row = step.is_group ? find_group(step.op) : find_layer(step.op);
    if (row == nullptr) row = find_shape(step.op);
    OperatorRows<TfRow> rows = {row, nullptr, nullptr};
    if (!step.is_group) rows = {row, find_general(step.op), find_complex(step.op)};
    if (rows.empty()) {
      const bool is_variable = std::find(variable_ops.begin(), variable_ops.end(), step.op) != variable_ops.end();
      throw Unsupported{is_variable ? "the graph is not frozen" : ""};
    }
    const auto inputs = wiring_.values(index, "node '" + name + "'");
    if (!inputs) return;  // the list of unsupported nodes has the cause
    rows.import(*inputs, [&](const TfRow& chosen) { import_step(index, step, chosen, *inputs); });
  }

  void import_step(size_t index, const Step& step, const TfRow& row, const std::vector<const Value*>& inputs) {
    TfNode node(builder_, *step.attributes, step.node->name(), step.op, inputs);
    node.call = [this](Builder& to, const std::string& function, const Values& values) {
      return call(to, function, values);
    };
    node.passed_on = [this](const std::string& function) { return passed_on(function); };
    node.expect_inputs(row.min_inputs, row.max_inputs);
    for (const Value* input : inputs) {
      charge_reading(builder_, *input);
      if (input->list != nullptr && !takes_lists(step.op)) node.fail("reads a list of tensors as a tensor");
    }
    const Values values = row.import(node);
    for (const Value& value : values) charge_integers(builder_, value);
    if (const std::string attribute = node.unread_attribute(); !attribute.empty()) {
      throw Unsupported{"attribute " + attribute};
    }
    wiring_.define_outputs(index, values);
  }

  void add_output(const std::string& name, const TensorName& tensor) {
    if (wiring_.is_unknown(wire(tensor))) throw Error("the graph has no tensor '" + name + "'");
    const Value* value = wiring_.value(wire(tensor), "the model");
    if (value == nullptr) return;
    if (value->list != nullptr) throw Unsupported{"a list of tensors"};
    if (value->is_complex) throw Unsupported{"complex numbers"};
    const View view = value->view ? value->view : integers_in_run(builder_, name, *value->integers, value->type);
    builder_.output(view, name, port_type(value->type));
  }

  const schema::GraphDef& proto_;
  const Graph& graph_;
  Functions& functions_;
  const std::vector<std::string> calls_;
  Builder own_builder_{"tensorflow"};
  std::vector<ImportOptions::Input> sizes_;  // that are asked for
  Builder& builder_;
  Wiring wiring_{builder_};
};

schema::GraphDef parse_text(const std::string& text) {
  schema::GraphDef graph;
  google::protobuf::TextFormat::Parser parser;
  parser.AllowUnknownField(true);  // as in binary files
  parser.SetRecursionLimit(nesting_limit);
  if (!parser.ParseFromString(text, &graph)) throw Error("not a TensorFlow graph, or damaged");
  return graph;
}

schema::GraphDef parse(const std::string& content) {
  schema::GraphDef graph;
  const bool parsed = graph.ParseFromString(content);
  if (parsed && graph.node_size() > 0) return graph;
  schema::SavedModel saved;
  if (saved.ParseFromString(content) && saved.saved_model_schema_version() > 0 && saved.meta_graphs_size() > 0) {
    throw Error(saved_model_recipe);
  }
  throw Error("not a TensorFlow graph, or damaged");
}

}  // namespace
}  // namespace quern::tensorflow

namespace quern {

Graph import_tensorflow(const std::string& path, const ImportOptions& options) {
  const google::protobuf::LogSilencer silence;  // the importer reports errors itself
  const bool is_text = path.ends_with(".pbtxt");
  std::string content = read_file(path, is_text ? tensorflow::text_limit : INT_MAX);
  try {
    tensorflow::schema::GraphDef graph = is_text ? tensorflow::parse_text(content) : tensorflow::parse(content);
    const size_t bytes = content.size();
    std::string().swap(content);  // the graph has it all
    tensorflow::Functions functions(graph.library());
    tensorflow::raise_control_flow(&graph, &functions);
    const tensorflow::Graph nodes(graph);
    tensorflow::Importer importer(graph, nodes, functions);
    importer.allow(bytes);
    return importer.import(options);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace quern

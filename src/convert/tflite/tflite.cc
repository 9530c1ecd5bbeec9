// Imports TensorFlow Lite's models: connects operators, inputs and outputs. layers.cc and shapes.cc import the single
// operators.
#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/math.h"
#include "convert/common/file.h"
#include "convert/common/spectra.h"
#include "convert/common/wiring.h"
#include "convert/convert.h"
#include "convert/states.h"
#include "convert/tflite/node.h"
#include "convert/tflite/sparse.h"
#include "convert/tflite/variables.h"

namespace quern::tflite {
namespace {

constexpr uint32_t file_version = 3;
// Far above any real model. (A table takes at least 8 bytes: a file with more than its size allows refers to the same ones
// many times.)
constexpr flatbuffers::uoffset_t max_depth = 16;

constexpr size_t max_depth_of_graphs = 6;  // as the graph's checker has it
constexpr size_t cost_of_called = 128;     // of each tensor and operator of a graph that an operator runs

// Returns a list of the file, which may be absent.
template <class T>
std::vector<T> list_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? std::vector<T>{} : std::vector<T>(vector->begin(), vector->end());
}

// The graphs that operators of the model run.
std::set<int32_t> called_graphs(const schema::Model& model) {
  std::set<int32_t> called;
  for (const schema::SubGraph* graph : *model.subgraphs()) {
    for (unsigned i = 0; graph->operators() != nullptr && i < graph->operators()->size(); ++i) {
      const schema::Operator& op = *graph->operators()->Get(i);
      if (const auto* o = op.options_as<schema::IfOptions>()) called.insert({o->then_graph(), o->else_graph()});
      if (const auto* o = op.options_as<schema::CallOnceOptions>()) called.insert(o->init_subgraph_index());
      if (const auto* o = op.options_as<schema::WhileOptions>()) called.insert({o->condition_graph(), o->body_graph()});
    }
  }
  return called;
}

// Imports a graph: that of the model, or one that an operator runs.
class Importer {
 public:
  // Adds to `builder`, if there is one; else to a graph of its own.
  Importer(const schema::Model& model, const std::string& content, unsigned graph = 0, size_t depth = 1,
           Builder* builder = nullptr)
      : model_(model), content_(content), depth_(depth), builder_(builder != nullptr ? *builder : own_builder_) {
    if (model.version() != file_version) throw Error("schema version " + std::to_string(model.version()) + ", not 3");
    if (model.subgraphs() == nullptr || model.subgraphs()->size() == 0) throw Error("the model has no graph");
    graph_ = model.subgraphs()->Get(graph);
    if (builder == nullptr) {
      if (graph_->name() != nullptr) builder_.set_name(graph_->name()->str());
      builder_.allow(content.size());
    }
    const size_t tensors = graph_->tensors() == nullptr ? 0 : graph_->tensors()->size();
    if (builder != nullptr) builder_.charge((tensors + operators()) * cost_of_called, "large graphs run too often");
    const std::set<int32_t> states = depth_ == 1 ? states_of_steps() : std::set<int32_t>{};
    for (size_t i = 0; i < tensors; ++i) {
      wires_.push_back(wiring_.mention(std::to_string(i)));
      const schema::Buffer* buffer = buffer_of(tensor(i));
      if (buffer != nullptr) wiring_.define_constant(wires_[i], [this, i, buffer] { return read(tensor(i), *buffer); });
      if (buffer == nullptr && tensor(i).is_variable() && states.count(static_cast<int32_t>(i)) == 0) {
        wiring_.define_constant(wires_[i], [this, i] { return zeros(tensor(i)); });
      }
    }
    define_empty_constants();
    for (size_t i = 0; i < operators(); ++i) {
      const schema::Operator& op = *graph_->operators()->Get(static_cast<unsigned>(i));
      charge_list(op.inputs());
      charge_list(op.outputs());
      if (depth_ == 1 && follow_variable(op, i)) continue;
      const Wires inputs = wires_at(list_of(op.inputs()), true);
      Wires outputs = wires_at(list_of(op.outputs()), false);
      if (const std::optional<Wire> next = next_state(op, i)) outputs.push_back(*next);
      wiring_.add_node(inputs, outputs);
    }
  }

  Graph import(const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, Wire>> outputs = names.empty() ? outputs_of_graph() : outputs_named(names);
    if (outputs.empty()) throw Error("the model has no outputs");
    std::vector<Variables::Variable> states = variables_.used();
    std::erase_if(states, [](const auto& variable) { return !variable.is_assigned; });
    for (const auto& variable : states) outputs.emplace_back(next_name(variable), variable.now);
    Wires needed;
    for (const auto& [name, wire] : outputs) needed.push_back(wire);
    wiring_.need(needed);
    const std::set<int32_t> called = called_graphs(model_);
    for (size_t i = 1; i < model_.subgraphs()->size(); ++i) {
      if (called.count(static_cast<int32_t>(i)) != 0) continue;
      wiring_.collect_part("the model", {}, [] { throw Unsupported{"several graphs"}; });
      break;
    }
    for (const int32_t index : list_of(graph_->inputs())) {
      const Wire wire = wire_at(index);
      if (wiring_.is_constant(wire) || (!names.empty() && !wiring_.is_needed(wire))) continue;
      wiring_.collect_part("input '" + name_at(index) + "'", {wire}, [&] { add_input(index, wire, name_at(index)); });
    }
    add_variables();
    add_operators();
    for (const auto& output : outputs) {
      wiring_.collect_part("output '" + output.first + "'", {}, [&] { add_output(output.first, output.second); });
    }
    wiring_.throw_if_unsupported();
    Graph graph = builder_.finish();
    std::vector<ImportOptions::State> pairs;
    for (const auto& variable : states) pairs.push_back({variable.name, next_name(variable)});
    add_states(pairs, &graph);
    return graph;
  }

 private:
  // What has no elements, and nothing writes, is a constant without a buffer: such as the shape of a scalar.
  void define_empty_constants() {
    std::set<int32_t> written;
    const auto note = [&](const flatbuffers::Vector<int32_t>* list) {
      charge_list(list);
      for (const int32_t index : list_of(list)) written.insert(index);
    };
    note(graph_->inputs());
    for (size_t i = 0; i < operators(); ++i) note(graph_->operators()->Get(static_cast<unsigned>(i))->outputs());
    for (size_t i = 0; i < wires_.size(); ++i) {
      const std::vector<int32_t> shape = list_of(tensor(i).shape());
      const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
      if (!is_empty || tensor(i).is_variable() || buffer_of(tensor(i)) != nullptr) continue;
      if (written.count(static_cast<int32_t>(i)) != 0) continue;
      wiring_.define_constant(wires_[i], [this, i] {
        const std::optional<ElementType> type = element_type(tensor(i).type());
        if (!type) throw Unsupported{"constants of type " + type_name(tensor(i).type())};
        return constant_value(builder_, {*type, shape_of(tensor(i)), {}});
      });
    }
  }

  // ---- variables

  // Whether an operator reads or assigns a variable; then it becomes no node.
  bool follow_variable(const schema::Operator& op, size_t number) {
    if (!variables_.concern(op)) return false;
    const std::string type = type_of(op);
    wiring_.collect(name_of(op, number), type, {}, [&] { variables_.follow(op, wiring_, wires_); });
    wiring_.add_node({}, {});
    return true;
  }

  // The tensor that an SVDF, which computes one step of a stream, keeps from run to run; -1 if the operator is none.
  static int32_t state_of_step(const schema::Operator& op) {
    constexpr unsigned state_input = 4;
    const bool is_step = op.options_as<schema::SVDFOptions>() != nullptr;
    return is_step && op.inputs() != nullptr && op.inputs()->size() > state_input ? op.inputs()->Get(state_input) : -1;
  }
  std::set<int32_t> states_of_steps() const {
    std::set<int32_t> states;
    for (size_t i = 0; i < operators(); ++i) {
      states.insert(state_of_step(*graph_->operators()->Get(static_cast<unsigned>(i))));
    }
    return states;
  }

  // The state that such an operator leaves to the next run: a further output of it.
  std::optional<Wire> next_state(const schema::Operator& op, size_t number) {
    const int32_t index = depth_ == 1 ? state_of_step(op) : -1;
    if (index < 0) return {};
    const Wire begin = wire_at(index);
    const schema::Tensor& state = tensor(static_cast<size_t>(index));
    if (!state.is_variable() || buffer_of(state) != nullptr) return {};
    const Wire next = wiring_.mention("state " + std::to_string(number));
    variables_.keep(name_at(index), index, begin, next);
    wires_[static_cast<size_t>(index)] = next;
    return next;
  }

  // The output that leaves the variable's content to the next run.
  static std::string next_name(const Variables::Variable& variable) { return variable.name + " next"; }

  // A variable that is assigned is an input, others are constants.
  void add_variables() {
    for (const Variables::Variable& variable : variables_.used()) {
      wiring_.collect_part("variable '" + variable.name + "'", {variable.begin}, [&] {
        const schema::Buffer* const buffer = variable.initial == nullptr ? nullptr : buffer_of(*variable.initial);
        if (variable.initial != nullptr && buffer == nullptr) throw Unsupported{"its content at the beginning"};
        if (!variable.is_assigned) {
          if (buffer == nullptr) throw Unsupported{"nothing assigns it"};
          return wiring_.define(variable.begin, read(*variable.initial, *buffer));
        }
        add_input(variable.tensor, variable.begin, variable.name);
        if (buffer != nullptr && !is_zero(*buffer, tensor(static_cast<size_t>(variable.tensor)))) {
          throw Unsupported{"it is not zero at the beginning"};
        }
      });
    }
  }

  // Whether a session begins with this content: real zeros, which are the zero point of int8 and uint8.
  bool is_zero(const schema::Buffer& buffer, const schema::Tensor& variable) {
    if (buffer.data() == nullptr || buffer.data()->size() == 0) return false;  // it lies behind the tables
    const std::optional<ElementType> type = element_type(variable.type());
    const Scales scales = type && is_byte(*type) ? scales_of(builder_, variable) : Scales{};
    const auto zero = static_cast<uint8_t>(scales.zero_points.size() == 1 ? scales.zero_points[0] : 0);
    return std::all_of(buffer.data()->begin(), buffer.data()->end(), [zero](uint8_t byte) { return byte == zero; });
  }

  void add_operators() {
    for (size_t i = 0; i < operators(); ++i) {
      if (!wiring_.is_node_needed(i)) continue;
      const schema::Operator& op = *graph_->operators()->Get(static_cast<unsigned>(i));
      const std::string type = type_of(op);
      wiring_.collect(name_of(op, i), type, wiring_.outputs(i), [&] { add_operator(i, op, type); });
    }
  }

  // ---- graphs that operators run

  const schema::SubGraph& graph_at(int32_t index) const {
    if (index < 0 || static_cast<unsigned>(index) >= model_.subgraphs()->size()) {
      throw Error(beyond("graph", model_.subgraphs()->size(), index));
    }
    return *model_.subgraphs()->Get(static_cast<unsigned>(index));
  }

  Values call(Builder& to, int32_t index, const Values& inputs) {
    if (depth_ == max_depth_of_graphs) throw Unsupported{"more than six graphs within each other"};
    const std::vector<int32_t> formals = list_of(graph_at(index).inputs());
    if (formals.size() != inputs.size()) throw Error("a graph has a wrong number of inputs");
    Importer inner(model_, content_, static_cast<unsigned>(index), depth_ + 1, &to);
    for (size_t i = 0; i < formals.size(); ++i) inner.wiring_.define(inner.wire_at(formals[i]), inputs[i]);
    const Wires wires = inner.wires_at(list_of(inner.graph_->outputs()), false);
    inner.wiring_.need(wires);
    inner.add_operators();
    Values outputs;
    for (const Wire wire : wires) {
      const Value* const value = inner.wiring_.value(wire, "the graph");
      if (value == nullptr) break;  // the list has the cause
      outputs.push_back(*value);
    }
    if (const std::string list = inner.wiring_.unsupported(); !list.empty()) throw Unsupported{"its graph has " + list};
    return outputs;
  }

  std::vector<bool> passed_on(int32_t index) const {
    const std::vector<int32_t> inputs = list_of(graph_at(index).inputs()), outputs = list_of(graph_at(index).outputs());
    std::vector<bool> passed;
    for (size_t i = 0; i < outputs.size(); ++i) passed.push_back(i < inputs.size() && inputs[i] == outputs[i]);
    return passed;
  }

  // Tables of a file may share lists and names, so that few bytes stand for many.
  void charge_list(const flatbuffers::Vector<int32_t>* list) {
    if (list != nullptr) builder_.charge(list->size() * sizeof(Wire));
  }

  size_t operators() const { return graph_->operators() == nullptr ? 0 : graph_->operators()->size(); }
  const schema::Tensor& tensor(size_t index) const { return *graph_->tensors()->Get(static_cast<unsigned>(index)); }

  Wire wire_at(int32_t index) const {
    if (index < 0 || static_cast<size_t>(index) >= wires_.size()) {
      throw Error(beyond("tensor", wires_.size(), index));
    }
    return wires_[static_cast<size_t>(index)];
  }
  // -1 stands for an optional tensor that is not there.
  Wires wires_at(const std::vector<int32_t>& indices, bool optional) const {
    Wires wires;
    for (const int32_t index : indices) wires.push_back(optional && index == -1 ? no_wire : wire_at(index));
    return wires;
  }
  std::string name_at(int32_t index) {
    wire_at(index);
    const flatbuffers::String* name = tensor(static_cast<size_t>(index)).name();
    if (name != nullptr) builder_.charge(name->size());
    return name != nullptr && name->size() > 0 ? name->str() : "tensor " + std::to_string(index);
  }
  std::string name_of(const schema::Operator& op, size_t number) {
    const std::vector<int32_t> outputs = list_of(op.outputs());
    return outputs.empty() ? "operator " + std::to_string(number) : name_at(outputs[0]);
  }

  // The buffer with the elements of a constant; null for other tensors.
  const schema::Buffer* buffer_of(const schema::Tensor& tensor) const {
    if (tensor.buffer() == 0 || model_.buffers() == nullptr) return nullptr;
    if (tensor.buffer() >= model_.buffers()->size()) {
      throw Error(beyond("buffer", model_.buffers()->size(), tensor.buffer()));
    }
    const schema::Buffer* buffer = model_.buffers()->Get(tensor.buffer());
    const bool is_empty = (buffer->data() == nullptr || buffer->data()->size() == 0) && buffer->size() <= 1;
    return is_empty ? nullptr : buffer;
  }

  static Shape shape_of(const schema::Tensor& tensor) {
    const size_t rank = tensor.shape() == nullptr ? 0 : tensor.shape()->size();
    if (rank > QN_MAX_RANK) throw Unsupported{"a tensor of rank " + std::to_string(rank)};
    Shape shape;
    for (const int32_t d : list_of(tensor.shape())) {
      if (d < 0) throw Error("a dimension is negative");
      shape.push_back(static_cast<size_t>(d));
    }
    return shape;
  }

  Value read(const schema::Tensor& tensor, const schema::Buffer& buffer) {
    const bool is_int4 = tensor.type() == schema::TensorType::int4;
    const std::optional<ElementType> type = is_int4 ? ElementType::s8 : element_type(tensor.type());
    if (!type) throw Unsupported{"constants of type " + type_name(tensor.type())};
    Array array{*type, shape_of(tensor), {}};
    if (buffer.data() != nullptr && buffer.data()->size() > 0) {
      array.bytes.assign(buffer.data()->begin(), buffer.data()->end());
    } else {
      if (buffer.offset() > content_.size() || buffer.size() > content_.size() - buffer.offset()) {
        throw Error("a buffer ends behind the file");
      }
      const char* begin = content_.data() + buffer.offset();
      array.bytes.assign(begin, begin + buffer.size());
    }
    if (tensor.sparsity() != nullptr && is_int4) throw Unsupported{"sparse constants of type int4"};
    if (tensor.sparsity() != nullptr) return constant_value(builder_, densify(array, *tensor.sparsity(), builder_));
    size_t elements = 1;
    for (const size_t d : array.shape) {
      const size_t most = content_.size() * (is_int4 ? 2 : 1);
      if (d != 0 && elements > most / d) throw Error("a constant is larger than the file");
      elements *= d;
    }
    if (is_int4 && array.bytes.size() == divide_up(elements, 2)) {
      builder_.charge(elements);
      array = unpacked_int4(array.bytes, array.shape, elements, true);
    }
    if (array.bytes.size() != elements * element_size(*type)) throw Error("a buffer does not have its tensor's size");
    return constant_value(builder_, array);
  }

  // What a variable holds before the first run.
  Value zeros(const schema::Tensor& tensor) {
    if (tensor.type() != schema::TensorType::float32) throw Unsupported{"a variable that holds no floats"};
    const Shape shape = shape_of(tensor);
    size_t elements = 1;
    for (const size_t d : shape) {
      if (d != 0 && elements > content_.size() / d) throw Error("a variable is larger than the file");
      elements *= d;
    }
    builder_.charge(elements * sizeof(float));
    return builder_.constant(shape, std::vector<float>(std::max<size_t>(elements, 1)).data());
  }

  std::string type_of(const schema::Operator& op) {
    const size_t codes = model_.operator_codes() == nullptr ? 0 : model_.operator_codes()->size();
    if (op.opcode_index() >= codes) throw Error(beyond("operator code", codes, op.opcode_index()));
    const schema::OperatorCode& code = *model_.operator_codes()->Get(op.opcode_index());
    const int32_t number = std::max<int32_t>(code.old_code(), code.code());
    if (code.custom_code() != nullptr && code.custom_code()->size() > 0) {
      builder_.charge(code.custom_code()->size());
      return "custom " + code.custom_code()->str();
    }
    const char* name = operator_name(number);
    return name == nullptr ? "operator code " + std::to_string(number) : name;
  }

  // Adds an input with the type and shape of a tensor.
  void add_input(int32_t index, Wire wire, const std::string& name) {
    const schema::Tensor& from = tensor(static_cast<size_t>(index));
    const std::optional<ElementType> type = element_type(from.type());
    if (!type || type == ElementType::f64) {
      if (wiring_.is_needed(wire)) throw Unsupported{"type " + type_name(from.type())};
      return wiring_.lose({wire});
    }
    const Shape shape = shape_of(from);
    const std::vector<int32_t> open = list_of(from.shape_signature());
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 0) throw Unsupported{"dimension " + std::to_string(d) + " has no fixed size"};
    }
    Value value = builder_.input(name, shape, port_type(*type), {});
    for (size_t d = 0; d < shape.size() && open.size() == shape.size(); ++d) {
      if (open[d] < 0) builder_.leave_open(value.view, d, "");
    }
    value.type = *type;
    if (is_byte(*type)) set_scale(value, from);
    wiring_.define(wire, std::move(value));
  }

  // Bytes get their scale where they enter, because operators that only move them, such as RESHAPE, have none to give.
  // What is no scale, the operators that read it will say.
  void set_scale(const Value& bytes, const schema::Tensor& from) {
    const Scales s = scales_of(builder_, from);
    if (s.scales.size() != 1 || s.zero_points.size() > 1 || !(s.scales[0] > 0 && std::isfinite(s.scales[0]))) return;
    const int64_t zero = s.zero_point(0) - (bytes.type == ElementType::u8 ? 128 : 0);
    if (zero >= INT8_MIN && zero <= INT8_MAX) builder_.set_scale(bytes.view, s.scales[0], static_cast<int32_t>(zero));
  }

  void add_operator(size_t number, const schema::Operator& op, const std::string& type) {
    const TfliteRow* row = find_layer(type);
    if (row == nullptr) row = find_shape(type);
    const OperatorRows<TfliteRow> rows = {row, find_general(type), find_complex(type)};
    if (rows.empty()) throw Unsupported{};
    const std::string name = name_of(op, number);
    const auto inputs = wiring_.values(number, "operator '" + name + "'");
    if (!inputs) return;  // the list of unsupported operators has the cause
    rows.import(*inputs, [&](const TfliteRow& chosen) { import_operator(number, op, type, name, chosen, *inputs); });
  }

  void import_operator(size_t number, const schema::Operator& op, const std::string& type, const std::string& name,
                       const TfliteRow& row, const std::vector<const Value*>& inputs) {
    std::vector<const schema::Tensor*> from, to;
    for (const int32_t index : list_of(op.inputs())) {
      from.push_back(index < 0 ? nullptr : &tensor(static_cast<size_t>(index)));
    }
    for (const int32_t index : list_of(op.outputs())) to.push_back(&tensor(static_cast<size_t>(index)));
    if (to.empty()) throw Error("operator '" + name + "' has no outputs");
    TfliteNode node(builder_, op, name, type, inputs, std::move(from), std::move(to));
    node.call = [this](Builder& builder, int32_t graph, const Values& values) { return call(builder, graph, values); };
    node.passed_on = [this](int32_t graph) { return passed_on(graph); };
    node.expect_inputs(row.min_inputs, row.max_inputs);
    for (const Value* input : inputs) {
      if (input != nullptr) charge_reading(builder_, *input);
    }
    const Values values = row.import(node);
    for (const Value& value : values) charge_integers(builder_, value);
    const std::vector<int32_t> outputs = list_of(op.outputs());
    for (size_t i = 0; i < values.size() && i < outputs.size(); ++i) {
      expect_shape(values[i], tensor(static_cast<size_t>(outputs[i])));
    }
    wiring_.define_outputs(number, values);
  }

  // The file may know a shape that we learn in a run only, such as that of a tensor of which a loop replaces a row.
  void expect_shape(const Value& value, const schema::Tensor& tensor) {
    if (!value.view || value.is_complex || builder_.expected_shape(value.view)) return;
    const std::vector<int32_t> open = list_of(tensor.shape_signature());
    const bool is_known = std::none_of(open.begin(), open.end(), [](int32_t size) { return size < 0; });
    const Shape shape = shape_of(tensor);
    if (is_known && !shape.empty()) builder_.expect_shape(value.view, shape);  // texts and unknown ranks have none
  }

  std::vector<std::pair<std::string, Wire>> outputs_of_graph() {
    std::vector<std::pair<std::string, Wire>> outputs;
    for (const int32_t index : list_of(graph_->outputs())) outputs.emplace_back(name_at(index), wire_at(index));
    return outputs;
  }
  std::vector<std::pair<std::string, Wire>> outputs_named(const std::vector<std::string>& names) {
    std::map<std::string, Wire> by_name;
    for (size_t i = 0; i < wires_.size(); ++i) by_name.emplace(name_at(static_cast<int32_t>(i)), wires_[i]);
    std::vector<std::pair<std::string, Wire>> outputs;
    for (const std::string& name : names) {
      const Wire* wire = find_in(by_name, name);
      if (wire == nullptr) throw Error("the model has no tensor '" + name + "'");
      outputs.emplace_back(name, *wire);
    }
    return outputs;
  }

  void add_output(const std::string& name, Wire wire) {
    if (wiring_.is_unknown(wire)) throw Error("nothing computes the tensor '" + name + "'");
    const Value* value = wiring_.value(wire, "the model");
    if (value == nullptr) return;
    if (value->is_complex) throw Unsupported{"complex numbers"};
    const View view = value->view ? value->view : integers_in_run(builder_, name, *value->integers, value->type);
    builder_.output(view, name, port_type(value->type));
  }

  const schema::Model& model_;
  const std::string& content_;
  const size_t depth_;
  const schema::SubGraph* graph_ = nullptr;
  Builder own_builder_{"tflite"};
  Builder& builder_;
  Wiring wiring_{builder_};
  Wires wires_;  // of the graph's tensors
  Variables variables_{model_, builder_};
};

}  // namespace
}  // namespace quern::tflite

namespace quern {

Graph import_tflite(const std::string& path, const ImportOptions& options) {
  const std::string content = read_file(path, INT_MAX);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(content.data()), content.size(), tflite::max_depth,
                                 static_cast<flatbuffers::uoffset_t>(content.size() / 8));
  if (content.size() < 16 || !tflite::schema::VerifyModelBuffer(verifier)) {
    throw Error(path + ": not a TensorFlow Lite model, or damaged");
  }
  try {
    return tflite::Importer(*tflite::schema::GetModel(content.data()), content).import(options.outputs);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace quern

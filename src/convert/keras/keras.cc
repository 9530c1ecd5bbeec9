// Imports Keras' models: connects calls of layers, inputs and outputs. layers.cc, functions.cc and shapes.cc import the
// single layers.
#include "convert/keras/keras.h"

#include <deque>

#include "convert/common/wiring.h"
#include "convert/convert.h"
#include "convert/keras/hdf5.h"
#include "convert/keras/node.h"

namespace quern::keras {
namespace {

class Importer {
 public:
  Importer(const Contents& contents, const Network& network)
      : network_(network),
        weights_(contents.weights, network.calls),
        is_keras_3_(!contents.version.empty() && contents.version[0] >= '3') {
    builder_.set_name(network.name);
    builder_.allow(contents.config.size());
    for (const auto& [path, weight] : contents.weights) builder_.allow(weight.data.size() * sizeof(float));
    std::vector<size_t> results(network.calls.size(), 1);
    const auto mention = [&](const Ref& ref) { results[ref.call] = std::max(results[ref.call], ref.output + 1); };
    for (const Call& call : network.calls) each_ref(call, mention);
    for (const Ref& ref : network.outputs) mention(ref);
    for (size_t i = 0; i < network.calls.size(); ++i) add_call(network.calls[i], results[i]);
  }

  Graph import(const std::vector<std::string>& names) {
    const std::vector<Ref> outputs = names.empty() ? network_.outputs : outputs_named(names);
    if (outputs.empty()) throw Error("the model has no outputs");
    Wires needed;
    for (const Ref& ref : outputs) needed.push_back(wire_at(ref));
    wiring_.need(needed);
    for (size_t i = 0; i < network_.calls.size(); ++i) {
      const Call& call = network_.calls[i];
      const bool is_input = call.type == "InputLayer";
      if (!wiring_.is_node_needed(i) && !(is_input && names.empty())) continue;
      wiring_.collect(call.name, call.type, wires_[i], [&] { is_input ? add_input(i) : add_layer(i); });
    }
    for (const Ref& ref : outputs) add_output(ref);
    wiring_.throw_if_unsupported();
    return builder_.finish();
  }

 private:
  Wire wire_at(const Ref& ref) const { return wires_[ref.call][ref.output]; }

  // Calls visit() for each tensor that a call reads: inputs, masks, the mask of attention.
  template <class Visit>
  static void each_ref(const Call& call, Visit&& visit) {
    for (const Input& input : call.inputs) {
      if (const Ref* ref = std::get_if<Ref>(&input)) visit(*ref);
    }
    for (const auto& mask : call.masks) {
      if (mask) visit(*mask);
    }
    if (call.attention_mask) visit(*call.attention_mask);
  }

  void add_call(const Call& call, size_t results) {
    Wires inputs, outputs;
    each_ref(call, [&](const Ref& ref) { inputs.push_back(wire_at(ref)); });
    for (size_t i = 0; i < results; ++i) {
      const Wire wire = wiring_.mention(i == 0 ? call.name : call.name + " result " + std::to_string(i));
      outputs.push_back(wire);
    }
    wiring_.add_node(inputs, outputs);
    wires_.push_back(std::move(outputs));
  }

  std::vector<Ref> outputs_named(const std::vector<std::string>& names) const {
    std::map<std::string, size_t> calls;
    for (size_t i = 0; i < network_.calls.size(); ++i) calls.emplace(network_.calls[i].name, i);
    std::vector<Ref> outputs;
    for (const std::string& name : names) {
      const size_t* call = find_in(calls, name);
      if (call == nullptr) throw Error("the model has no layer '" + name + "'");
      outputs.push_back({*call, 0});
    }
    return outputs;
  }

  void add_input(size_t number) {
    const Call& call = network_.calls[number];
    const std::string where = "input '" + call.name + "'";
    const ElementType type = type_of(call);
    const Json* sizes = input_shape(*call.config);
    if (sizes == nullptr || !sizes->is_array() || sizes->empty()) throw Error(where + " has no shape");
    Shape shape;
    for (size_t d = 0; d < sizes->size(); ++d) {
      const Json& size = (*sizes)[d];
      if (size.is_null() && d > 0) throw Unsupported{"dimension " + std::to_string(d) + " has no fixed size"};
      const int64_t value = size.is_null() ? 1 : integer_of(size, where + ": a dimension");
      if (value < 1) throw Error(where + ": a dimension is out of range");
      shape.push_back(static_cast<size_t>(value));
    }
    Value value = builder_.input(call.name, shape, port_type(type), {});
    value.type = type;
    if (sizes->front().is_null()) builder_.leave_open(value.view, 0, "");
    wiring_.define(wires_[number][0], value);
  }

  // We compute all types of floats as 32-bit floats. Integers may be inputs: indices.
  static ElementType type_of(const Call& call) {
    if (!call.config->is_object()) return ElementType::f32;
    const auto at = call.config->find("dtype");
    if (at == call.config->end() || at->is_null()) return ElementType::f32;
    const Json* type = &*at;
    if (type->is_object()) type = &member(member(*type, "config", call.name), "name", call.name);
    const std::string name = string_of(*type, "layer '" + call.name + "': 'dtype'");
    static const std::map<std::string, ElementType> types = {
        {"bfloat16", ElementType::f32}, {"float16", ElementType::f32},        {"float32", ElementType::f32},
        {"bool", ElementType::boolean}, {"float64", ElementType::f32},        {"int32", ElementType::s32},
        {"int64", ElementType::i64},    {"mixed_bfloat16", ElementType::f32}, {"mixed_float16", ElementType::f32},
    };
    const ElementType* found = find_in(types, name);
    if (found == nullptr) throw Unsupported{"type '" + name + "'"};
    return *found;
  }

  void add_layer(size_t number) {
    const Call& call = network_.calls[number];
    const KerasRow* row = find_row(call.type);
    if (row == nullptr) throw Unsupported{};
    if (!call.config->is_object()) throw Error("layer '" + call.name + "': 'config' is damaged");
    if (!call.unsupported.empty()) throw Unsupported{call.unsupported};
    const ElementType type = type_of(call);
    if (!is_float(type) && type != ElementType::boolean) throw Unsupported{"type of integers"};
    const auto values = wiring_.values(number, "layer '" + call.name + "'");
    if (!values) return;  // the list of unsupported layers has the cause
    const KerasNode node(builder_, call, weights_, is_keras_3_, operands_of(call, *values));
    node.expect_inputs(row->min_inputs, row->max_inputs);
    const Values results = row->import(node);
    node.expect_all_read();
    wiring_.define_outputs(number, results);
    define_masks(number, *row, node);
  }

  // What a call reads, from the tensors in the order of each_ref().
  Operands operands_of(const Call& call, const std::vector<const Value*>& tensors) {
    Operands operands;
    size_t next = 0;
    for (const Input& input : call.inputs) {
      const Ref* ref = std::get_if<Ref>(&input);
      operands.inputs.push_back(ref != nullptr ? tensors[next++] : constant_of(call, input));
      operands.masks.push_back(ref == nullptr ? nullptr : find_in(masks_, wire_at(*ref)));
    }
    for (const auto& mask : call.masks) operands.given_masks.push_back(mask ? tensors[next++] : nullptr);
    if (call.attention_mask) operands.attention_mask = tensors[next];
    return operands;
  }

  // A number, or an array, of the file.
  const Value* constant_of(const Call& call, const Input& input) {
    const std::string where = "layer '" + call.name + "'";
    std::vector<float> numbers;
    Shape shape = {1};
    if (const double* number = std::get_if<double>(&input)) {
      numbers.push_back(finite(static_cast<float>(*number), where + ": a number"));
    } else {
      const Json& array = *std::get<const Json*>(input);
      shape = shape_of_array(array, where);
      append_numbers(array, shape, 0, where, &numbers);
    }
    constants_.emplace_back(builder_.constant(shape, numbers.data()));
    return &constants_.back();
  }

  // The lengths of the first lists within each other.
  static Shape shape_of_array(const Json& array, const std::string& where) {
    Shape shape;
    for (const Json* list = &array; list->is_array(); list = &list->front()) {
      if (list->empty()) throw Unsupported{"a constant without elements"};
      if (shape.size() == QN_MAX_RANK) throw Unsupported{"a constant of rank above " + std::to_string(QN_MAX_RANK)};
      shape.push_back(list->size());
    }
    if (shape.empty()) throw Error(where + ": expected an array as constant");
    return shape;
  }

  static void append_numbers(const Json& item, const Shape& shape, size_t depth, const std::string& where,
                             std::vector<float>* numbers) {
    if (depth == shape.size()) {
      if (!item.is_number() && !item.is_boolean()) throw Error(where + ": expected numbers in a constant");
      numbers->push_back(item.is_boolean() ? static_cast<float>(item.get<bool>())
                                           : finite(static_cast<float>(item.get<double>()), where + ": a constant"));
      return;
    }
    if (!item.is_array() || item.size() != shape[depth])
      throw Error(where + ": the lists of a constant differ in length");
    for (const Json& inner : item) append_numbers(inner, shape, depth + 1, where, numbers);
  }

  // Gives results the masks that they have in Keras.
  void define_masks(size_t number, const KerasRow& row, const KerasNode& node) {
    const Wires& wires = wires_[number];
    const bool passes = row.masks == MaskRule::pass || (row.masks == MaskRule::pass_in_3 && is_keras_3_);
    if (passes && !node.is_function() && node.mask(0) != nullptr) masks_.emplace(wires[0], *node.mask(0));
    for (const auto& [output, mask] : node.result_masks()) {
      if (output < wires.size()) masks_.emplace(wires[output], mask);
    }
    if (!node.takes_masks()) return;
    for (const Input& input : node.call.inputs) {
      if (const Ref* ref = std::get_if<Ref>(&input)) masks_.erase(wire_at(*ref));
    }
  }

  void add_output(const Ref& ref) {
    const Value* value = wiring_.value(wire_at(ref), "the model");
    if (value != nullptr) builder_.output(value->view, wiring_.name(wire_at(ref)), port_type(value->type));
  }

  const Network& network_;
  Builder builder_{"keras"};
  Wiring wiring_{builder_};
  Weights weights_;
  const bool is_keras_3_;
  std::vector<Wires> wires_;     // the results of each call
  std::map<Wire, Value> masks_;  // of tensors that have one
  std::deque<Value> constants_;
};

}  // namespace

const KerasRow* find_row(const std::string& type) {
  for (auto* const find : {find_layer, find_function, find_shape, find_normalization, find_product, find_einsum_dense,
                           find_recurrent, find_wrapper, find_conv_lstm, find_mask}) {
    if (const KerasRow* row = find(type)) return row;
  }
  return nullptr;
}

Graph import_contents(const Contents& contents, const std::vector<std::string>& outputs) {
  try {
    const Json config = Json::parse(contents.config);
    const Network network = read_network(config);
    return Importer(contents, network).import(outputs);
  } catch (const Json::exception& error) {
    throw Error(std::string("model_config is damaged: ") + error.what());
  }
}

}  // namespace quern::keras

namespace quern {

Graph import_keras(const std::string& path, const ImportOptions& options) {
  try {
    return keras::import_contents(keras::read_hdf5(path), options.outputs);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

}  // namespace quern

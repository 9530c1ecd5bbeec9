#include "convert/keras/network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <type_traits>

namespace quern::keras {

// ---- JSON -------------------------------------------------------------------------------------

namespace {
// Returns null if there is no such member.
const Json* find_member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}
}  // namespace

const Json& member(const Json& object, const char* name, const std::string& where) {
  const Json* found = find_member(object, name);
  if (found == nullptr) throw Error(where + ": '" + name + "' is missing");
  return *found;
}

std::string string_of(const Json& value, const std::string& where) {
  if (!value.is_string()) throw Error(where + " must be a string");
  return value.get<std::string>();
}

int64_t integer_of(const Json& value, const std::string& where) {
  const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  if (!value.is_number_integer() || too_large) throw Error(where + " must be an integer");
  return value.get<int64_t>();
}

const Json* input_shape(const Json& config) {
  for (const char* name : {"batch_shape", "batch_input_shape", "build_input_shape"}) {
    const Json* shape = find_member(config, name);
    if (shape != nullptr) return shape;
  }
  return nullptr;
}

namespace {

// Limits far above any real model: a file of a few bytes may use a model many times, and that one another.
constexpr size_t max_calls = 20'000, max_inputs = 256, max_name = 1024;
constexpr int max_depth = 16;  // of models and of lists within each other

bool is_functional(const std::string& type) { return type == "Functional" || type == "Model"; }
bool is_model(const std::string& type) { return is_functional(type) || type == "Sequential"; }

// ---- layers of a model ------------------------------------------------------------------------

struct LayerJson {
  std::string name, type;
  const Json* config;
  const Json* calls;  // null in a sequential model
};

std::vector<LayerJson> layers_of(const Json& config, const std::string& where) {
  // Old files have nothing but the list for a sequential model.
  const Json& list = config.is_array() ? config : member(config, "layers", where);
  if (!list.is_array() || list.empty()) throw Error(where + " has no layers");
  std::vector<LayerJson> layers;
  for (const Json& item : list) {
    const std::string place = where + ", layer " + std::to_string(layers.size());
    LayerJson layer;
    layer.type = string_of(member(item, "class_name", place), place + ": 'class_name'");
    layer.config = &member(item, "config", place);
    layer.calls = find_member(item, "inbound_nodes");
    const Json* name = find_member(item, "name");
    if (name == nullptr) name = find_member(*layer.config, "name");
    layer.name = name == nullptr ? "layer" + std::to_string(layers.size()) : string_of(*name, place + ": 'name'");
    if (layer.name.size() > max_name) throw Error(place + ": the name is too long");
    layers.push_back(std::move(layer));
  }
  return layers;
}

// ---- calls in a functional model --------------------------------------------------------------

// A tensor as the file names it: a layer, which of its calls, which of their results.
struct Source {
  std::string layer;
  int64_t call, output;
};

struct Arguments {
  std::vector<std::variant<Source, double, const Json*>> inputs;
  std::vector<std::optional<Source>> masks = {};  // as in Call
  std::optional<Source> attention_mask = {};
  bool is_causal = false;
  std::string unsupported = {};

  // Calls visit() for each tensor.
  template <class Visit>
  void each_source(Visit&& visit) const {
    for (const auto& input : inputs) {
      if (const auto* source = std::get_if<Source>(&input)) visit(*source);
    }
    for (const auto& mask : masks) {
      if (mask) visit(*mask);
    }
    if (attention_mask) visit(*attention_mask);
  }
};

bool is_source(const Json& item) { return item.is_array() && item.size() >= 3 && item[0].is_string(); }

Source source_of(const Json& item, const std::string& where) {
  if (!is_source(item)) throw Error(where + ": a reference to a layer is damaged");
  const std::string place = where + ": the number of a call";
  return {item[0].get<std::string>(), integer_of(item[1], place), integer_of(item[2], place)};
}

// Finds the references in lists within lists.
void add_sources(const Json& list, const std::string& where, int depth, std::vector<Source>* sources) {
  if (depth > max_depth || !list.is_structured()) throw Error(where + ": no list of layers");
  if (is_source(list)) return sources->push_back(source_of(list, where));
  for (const Json& item : list) add_sources(item, where, depth + 1, sources);
}

class ArgumentReader {
 public:
  ArgumentReader(const std::string& where, const std::string& type)
      : where_(where),
        notes_training_(type == "CenterCrop" || type == "Resizing" || type.rfind("Random", 0) == 0),
        attends_(type.rfind("Attention") != std::string::npos) {}

  Arguments read(const Json& call) {
    if (call.is_object()) {  // Keras 3: arguments, and those with names
      is_keras_3_ = true;
      add_3(member(call, "args", where_), 0);
      add_keywords(member(call, "kwargs", where_));
    } else {
      add_2(call, 0);
    }
    if (arguments_.inputs.size() > max_inputs) throw Error(where_ + ": too many inputs");
    return std::move(arguments_);
  }

 private:
  // Keras 2: [layer, call, output, {arguments with names}], or lists of such; ["_CONSTANT_VALUE", -1, number, {...}].
  void add_2(const Json& item, int depth) {
    if (depth > max_depth || !item.is_array()) throw Error(where_ + ": 'inbound_nodes' is damaged");
    if (!is_source(item)) {
      for (const Json& inner : item) add_2(inner, depth + 1);
      return;
    }
    if (item[0] == "_CONSTANT_VALUE") {
      add_value("a constant", item[2]);
    } else {
      arguments_.inputs.emplace_back(source_of(item, where_));
    }
    if (item.size() > 3) add_keywords(item[3]);
  }

  void add_3(const Json& item, int depth) {
    const Json* type = find_member(item, "class_name");
    if (depth > max_depth) throw Error(where_ + ": 'inbound_nodes' is damaged");
    if (item.is_array()) {
      for (const Json& inner : item) add_3(inner, depth + 1);
    } else if (type != nullptr && *type == "__keras_tensor__") {
      const Json& history = member(member(item, "config", where_), "keras_history", where_);
      arguments_.inputs.emplace_back(source_of(history, where_));
    } else if (type != nullptr && (*type == "__numpy__" || *type == "__tensor__")) {
      add_value("a constant", member(member(item, "config", where_), "value", where_));
    } else {
      add_value("a constant", item);
    }
  }

  void add_value(const std::string& what, const Json& value) {
    if (value.is_number()) {
      arguments_.inputs.emplace_back(value.get<double>());
    } else if (value.is_array()) {
      arguments_.inputs.emplace_back(&value);
    } else {
      arguments_.unsupported = what + " that is not a number";
    }
  }

  // Tensors that have names come after those that have none, in the order of this list: the second one of operators,
  // those of attention, the states of recurrent layers.
  void add_keywords(const Json& keywords) {
    constexpr std::array tensors = {"y", "query", "value", "key", "initial_state"};
    if (!keywords.is_object()) throw Error(where_ + ": 'inbound_nodes' is damaged");
    for (const char* name : tensors) {
      const auto at = keywords.find(name);
      if (at != keywords.end() && !is_nothing(*at)) add_tensors("the argument '" + std::string(name) + "'", *at);
    }
    for (const auto& [name, value] : keywords.items()) {
      const bool is_tensor = std::find(tensors.begin(), tensors.end(), name) != tensors.end();
      if (!is_tensor && !is_nothing(value) && name != "name" && !add_masks(name, value)) add_flag(name, value);
    }
  }

  // Returns false if the argument is no mask, or one that we cannot read.
  bool add_masks(const std::string& name, const Json& value) {
    constexpr std::array names = {"query_mask", "value_mask", "key_mask"};
    const auto at = std::find(names.begin(), names.end(), name);
    if (name != "mask" && name != "attention_mask" && at == names.end()) return false;
    ArgumentReader reader(where_, "");
    reader.is_keras_3_ = is_keras_3_;
    const bool is_list = name == "mask" && value.is_array() && !is_source(value);
    std::vector<std::optional<Source>> masks;
    for (const Json& item : is_list ? value : Json::array({value})) {
      if (!item.is_null()) reader.add_tensors("", item);
      const bool is_tensor = reader.arguments_.inputs.size() == 1 &&
                             std::holds_alternative<Source>(reader.arguments_.inputs[0]) &&
                             reader.arguments_.unsupported.empty();
      if (!item.is_null() && !is_tensor) return false;
      masks.push_back(item.is_null() ? std::nullopt : std::optional(std::get<Source>(reader.arguments_.inputs[0])));
      reader.arguments_ = {};
    }
    if (name == "attention_mask") {
      arguments_.attention_mask = masks[0];
    } else {
      const size_t first = name == "mask" ? 0 : static_cast<size_t>(at - names.begin());
      if (masks.size() > max_inputs) throw Error(where_ + ": too many inputs");
      arguments_.masks.resize(std::max(arguments_.masks.size(), first + masks.size()));
      std::move(masks.begin(), masks.end(), arguments_.masks.begin() + static_cast<ptrdiff_t>(first));
    }
    return true;
  }

  void add_tensors(const std::string& what, const Json& value) {
    if (!value.is_structured() || is_array_of_numbers(value)) return add_value(what, value);
    is_keras_3_ ? add_3(value, 0) : add_2(value, 0);
  }

  static bool is_array_of_numbers(const Json& value) {
    const Json* first = &value;
    while (first->is_array() && !first->empty()) first = &first->front();
    return value.is_array() && (first->is_number() || first->is_boolean());
  }

  // `training` has no effect unless it is true, and Keras 3 notes true for layers that change images, with no effect on
  // predictions.
  void add_flag(const std::string& name, const Json& value) {
    const bool has_no_effect = name == "training" && (value == false || (is_keras_3_ && notes_training_));
    if (has_no_effect || (attends_ && value == false)) return;
    if (attends_ && name == "use_causal_mask" && value == true) {
      arguments_.is_causal = true;
    } else {
      arguments_.unsupported = "the argument '" + name + "'";
    }
  }

  // No value, or none for each input.
  static bool is_nothing(const Json& value) {
    const auto is_null = [](const Json& item) { return item.is_null(); };
    return value.is_null() || (value.is_array() && std::all_of(value.begin(), value.end(), is_null));
  }

  const std::string& where_;
  const bool notes_training_, attends_;
  bool is_keras_3_ = false;
  Arguments arguments_;
};

// A functional model: its layers, their calls, and an order in which each call comes after those that it reads.
class Functional {
 public:
  struct CallJson {
    size_t layer, number;  // the call is the layer's call `number`
    Arguments arguments;
    bool is_function;             // as in Call
    std::vector<size_t> readers;  // calls that wait for this one
    size_t waits_for;
  };

  Functional(const Json& config, const std::string& where) : where_(where), layers_(layers_of(config, where)) {
    for (size_t l = 0; l < layers_.size(); ++l) {
      if (!by_name_.emplace(layers_[l].name, l).second) throw Error("layer '" + layers_[l].name + "' is there twice");
      add_calls(l);
    }
    if (const Json* inputs = find_member(config, "input_layers")) add_sources(*inputs, where, 0, &inputs_);
    add_sources(member(config, "output_layers", where), where, 0, &outputs_);
    find_first_numbers();
    sort();
  }

  const std::vector<LayerJson>& layers() const { return layers_; }
  const std::vector<CallJson>& calls() const { return calls_; }
  const std::vector<size_t>& order() const { return order_; }
  const std::vector<Source>& inputs() const { return inputs_; }
  const std::vector<Source>& outputs() const { return outputs_; }

  // The call that a reference among the arguments, or one among the model's outputs, means.
  size_t call_of(const Source& source) const { return call_at(source, first_number_); }
  size_t call_of_output(const Source& source) const { return call_at(source, first_number_of_outputs_); }

 private:
  std::string place(size_t layer) const { return "layer '" + layers_[layer].name + "'"; }

  void add_calls(size_t l) {
    first_call_.push_back(calls_.size());
    const Json* list = layers_[l].calls;
    if (layers_[l].type == "InputLayer") {
      calls_.push_back({l, 0, {}, false, {}, 0});
      return;
    }
    if (list == nullptr || !list->is_array()) throw Error(place(l) + ": 'inbound_nodes' is missing");
    for (const Json& call : *list) {
      is_keras_3_ |= call.is_object();
      const std::string where = place(l);
      const Json& config = *layers_[l].config;
      const bool is_function =
          call.is_object() && find_member(config, "trainable") == nullptr && find_member(config, "dtype") == nullptr;
      calls_.push_back(
          {l, calls_.size() - first_call_[l], ArgumentReader(where, layers_[l].type).read(call), is_function, {}, 0});
    }
  }

  // Keras 2 counts the calls of a model within the model from 1 on, if it was made from inputs: that was call 0. So
  // nothing refers to call 0 of such a model. Keras 3 does so only where it names the outputs of functional models.
  void find_first_numbers() {
    std::vector<char> has_zero(layers_.size(), 0);
    const auto look = [&](const Source& source) {
      const auto at = by_name_.find(source.layer);
      if (at != by_name_.end() && source.call == 0) has_zero[at->second] = 1;
    };
    for (const CallJson& call : calls_) call.arguments.each_source(look);
    if (!is_keras_3_) std::for_each(outputs_.begin(), outputs_.end(), look);
    for (size_t l = 0; l < layers_.size(); ++l) {
      const bool counts_from_1 = is_model(layers_[l].type) && !has_zero[l];
      first_number_.push_back(!is_keras_3_ && counts_from_1 ? 1 : 0);
      first_number_of_outputs_.push_back(is_keras_3_ ? is_functional(layers_[l].type) : first_number_[l]);
    }
  }

  size_t call_at(const Source& source, const std::vector<int64_t>& first_numbers) const {
    const auto at = by_name_.find(source.layer);
    if (at == by_name_.end()) throw Error(where_ + ": unknown layer '" + source.layer + "'");
    const size_t layer = at->second, end = layer + 1 < first_call_.size() ? first_call_[layer + 1] : calls_.size();
    const int64_t first = first_numbers[layer];
    if (source.call < first || source.call - first >= static_cast<int64_t>(end - first_call_[layer])) {
      throw Error(where_ + ": layer '" + source.layer + "' has no call " + std::to_string(source.call));
    }
    return first_call_[layer] + static_cast<size_t>(source.call - first);
  }

  void sort() {
    std::deque<size_t> ready;
    for (size_t c = 0; c < calls_.size(); ++c) {
      calls_[c].arguments.each_source([&](const Source& source) {
        calls_[call_of(source)].readers.push_back(c);
        ++calls_[c].waits_for;
      });
      if (calls_[c].waits_for == 0) ready.push_back(c);
    }
    for (; !ready.empty(); ready.pop_front()) {
      order_.push_back(ready.front());
      for (const size_t reader : calls_[ready.front()].readers) {
        if (--calls_[reader].waits_for == 0) ready.push_back(reader);
      }
    }
    for (const CallJson& call : calls_) {
      if (call.waits_for > 0) throw Error(place(call.layer) + " depends on its own result");
    }
  }

  const std::string where_;
  std::vector<LayerJson> layers_;
  std::map<std::string, size_t> by_name_;
  std::vector<size_t> first_call_;  // of each layer
  std::vector<CallJson> calls_;
  std::vector<int64_t> first_number_, first_number_of_outputs_;  // of each layer
  std::vector<Source> inputs_, outputs_;
  std::vector<size_t> order_;
  bool is_keras_3_ = false;
};

// ---- the list of calls ------------------------------------------------------------------------

// Where a model lies within the whole model.
struct Place {
  std::string prefix;      // of the names of its calls
  std::string model, top;  // its name, and that of the layer of the whole model in which it lies
  int depth;
};

class Flattener {
 public:
  // Adds the calls of a model that is called on `inputs`; without any, on inputs of its own. Returns the outputs.
  std::vector<Ref> add_model(const std::string& type, const Json& config, const Inputs* inputs, const Place& place) {
    if (place.depth > max_depth || place.prefix.size() > max_name) {
      throw Error("models lie too deep within each other");
    }
    return type == "Sequential" ? add_sequential(config, inputs, place) : add_functional(config, inputs, place);
  }

  std::vector<Call> take_calls() { return std::move(calls_); }

 private:
  // The results of a call: those of a model, or any number of those of a layer.
  struct Results {
    bool is_layer;
    std::vector<Ref> refs;

    Ref at(int64_t output, const std::string& layer) const {
      const auto count = static_cast<int64_t>(is_layer ? max_inputs : refs.size());
      if (output < 0 || output >= count) {
        throw Error("layer '" + layer + "' has no result " + std::to_string(output));
      }
      return is_layer ? Ref{refs[0].call, static_cast<size_t>(output)} : refs[static_cast<size_t>(output)];
    }
  };

  void count_call() {
    if (++count_ > max_calls) throw Error("more than " + std::to_string(max_calls) + " layers");
  }

  // What a call reads beside its inputs, and how it is written.
  struct Manner {
    std::vector<std::optional<Ref>> masks = {};
    std::optional<Ref> attention_mask = {};
    bool is_causal = false, is_function = false;
    std::string unsupported = {};
  };

  Ref add_call(Call call) {
    count_call();
    calls_.push_back(std::move(call));
    return {calls_.size() - 1, 0};
  }

  // Adds a call without weights.
  Ref add_plain(const char* type, const std::string& name, const Json& config, Inputs inputs) {
    return add_call({name, type, {}, {}, {}, false, &config, std::move(inputs)});
  }

  Ref add_layer(const std::string& type, const std::string& name, const std::string& owner, const Json& config,
                Inputs inputs, const Place& place, const Manner& manner) {
    const std::string& top = place.depth == 0 ? owner : place.top;
    return add_call({name, type, owner, place.model, top, place.depth > 0, &config, std::move(inputs), manner.masks,
                     manner.attention_mask, manner.is_causal, manner.is_function, manner.unsupported});
  }

  // Adds the call of a layer or of a model within the model.
  Results add(const LayerJson& layer, size_t number, Inputs inputs, const Manner& manner, const Place& place) {
    const std::string suffix = number == 0 ? "" : std::string(":").append(std::to_string(number));
    return add_named(layer, place.prefix + layer.name + suffix, layer.name, std::move(inputs), manner, place);
  }

  // `name` is that of the call, `owner` the layer to which the file's weights belong.
  Results add_named(const LayerJson& layer, const std::string& name, const std::string& owner, Inputs inputs,
                    const Manner& manner, const Place& place) {
    const bool dissolves = is_model(layer.type) || layer.type == "TimeDistributed";
    if (!dissolves) {
      return {true, {add_layer(layer.type, name, owner, *layer.config, std::move(inputs), place, manner)}};
    }
    if (!manner.unsupported.empty()) {
      throw Error("layer '" + layer.name + "': " + manner.unsupported + " is not supported");
    }
    for (size_t i = 0; i < std::min(manner.masks.size(), inputs.size()); ++i) {
      Inputs masked = {inputs[i]};
      if (manner.masks[i]) masked.emplace_back(*manner.masks[i]);
      static const Json none = Json::object();
      inputs[i] = add_plain(mask_call, name + "/mask" + std::to_string(i), none, std::move(masked));
    }
    if (!is_model(layer.type)) return add_steps(layer, name, owner, inputs, place);
    const std::string& top = place.depth == 0 ? owner : place.top;
    return {false, add_model(layer.type, *layer.config, &inputs, {name + "/", layer.name, top, place.depth + 1})};
  }

  // A TimeDistributed: makes a batch of the steps, calls the layer or model on it, and makes steps of each result.
  Results add_steps(const LayerJson& layer, const std::string& name, const std::string& owner, const Inputs& inputs,
                    const Place& place) {
    const std::string where = "layer '" + layer.name + "'";
    if (inputs.size() != 1) throw Error(where + ": expected 1 input, got " + std::to_string(inputs.size()));
    if (name.size() > 2 * max_name) throw Error("models lie too deep within each other");
    const Json& inner = member(*layer.config, "layer", where);
    LayerJson wrapped = {"", string_of(member(inner, "class_name", where), where + ": 'class_name'"),
                         &member(inner, "config", where), nullptr};
    if (wrapped.type == "InputLayer") throw Error(where + ": expected a layer or model in 'layer', got InputLayer");
    const Json* inner_name = find_member(*wrapped.config, "name");
    wrapped.name = inner_name == nullptr ? "layer" : string_of(*inner_name, where + ": 'name'");
    const Ref batch = add_plain("TimeDistributed", name + "/batch", *layer.config, inputs);
    Results results = add_named(wrapped, name + "/layer", owner, {batch}, {}, place);
    for (size_t i = 0; i < results.refs.size(); ++i) {
      const std::string own = i == 0 ? name : name + " result " + std::to_string(i);
      results.refs[i] = add_plain(steps_call, own, *layer.config, {results.refs[i], inputs[0]});
    }
    results.is_layer = false;
    return results;
  }

  std::vector<Ref> add_functional(const Json& config, const Inputs* inputs, const Place& place) {
    const Functional& model = parsed_.try_emplace(&config, config, "model '" + place.model + "'").first->second;
    std::vector<Results> results(model.calls().size());
    const auto result = [&](size_t call, const Source& source) {
      return results[call].at(source.output, source.layer);
    };
    for (const size_t c : model.order()) {
      const Functional::CallJson& call = model.calls()[c];
      const LayerJson& layer = model.layers()[call.layer];
      if (layer.type == "InputLayer" && inputs != nullptr) {
        count_call();  // a model without other layers must not take forever, either
        results[c] = {false, {input_of(model, layer.name, *inputs, place)}};
        continue;
      }
      const auto ref_of = [&](const Source& source) { return result(model.call_of(source), source); };
      Inputs arguments;
      for (const auto& input : call.arguments.inputs) {
        std::visit(
            [&](const auto& value) {
              if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Source>) {
                arguments.emplace_back(ref_of(value));
              } else {
                arguments.emplace_back(value);
              }
            },
            input);
      }
      Manner manner = {{}, {}, call.arguments.is_causal, call.is_function, call.arguments.unsupported};
      for (const auto& mask : call.arguments.masks) {
        manner.masks.push_back(mask ? std::optional(ref_of(*mask)) : std::nullopt);
      }
      if (call.arguments.attention_mask) manner.attention_mask = ref_of(*call.arguments.attention_mask);
      results[c] = add(layer, call.number, std::move(arguments), manner, place);
    }
    std::vector<Ref> outputs;
    for (const Source& source : model.outputs()) outputs.push_back(result(model.call_of_output(source), source));
    return outputs;
  }

  // What a model within the model is called on, for one of its own inputs.
  static Ref input_of(const Functional& model, const std::string& name, const Inputs& inputs, const Place& place) {
    const std::vector<Source>& own = model.inputs();
    if (own.size() != inputs.size()) throw Error("model '" + place.model + "' is called with another number of inputs");
    const auto at = std::find_if(own.begin(), own.end(), [&](const Source& source) { return source.layer == name; });
    if (at == own.end()) throw Error("model '" + place.model + "': '" + name + "' is not among the inputs");
    const Ref* ref = std::get_if<Ref>(&inputs[static_cast<size_t>(at - own.begin())]);
    if (ref == nullptr) throw Error("model '" + place.model + "' is called with a number");
    return *ref;
  }

  std::vector<Ref> add_sequential(const Json& config, const Inputs* inputs, const Place& place) {
    const std::string where = "model '" + place.model + "'";
    const std::vector<LayerJson> layers = layers_of(config, where);
    Inputs x;
    if (inputs != nullptr) {
      if (inputs->size() != 1) throw Error(where + " is called with other than one input");
      x = *inputs;
    } else if (layers[0].type != "InputLayer") {
      const Json* input = config_of_input(config, layers[0], 0);
      if (input == nullptr) throw Error(where + " does not say which shape its input has");
      const std::string name = layers[0].name + "_input";
      x = {add_layer("InputLayer", place.prefix + name, name, *input, {}, place, {})};
    }
    for (const LayerJson& layer : layers) {
      if (layer.type == "InputLayer" && !x.empty()) {
        count_call();
        continue;
      }
      const Results results = add(layer, 0, std::move(x), {}, place);
      x = {results.at(0, layer.name)};
    }
    if (!std::holds_alternative<Ref>(x[0])) throw Error(where + " is called with a number");
    return {std::get<Ref>(x[0])};
  }

  // The configuration that gives the shape of the input, where no InputLayer does: that of the sequential model, or
  // that of its first layer, which may be a model.
  static const Json* config_of_input(const Json& config, const LayerJson& first, int depth) {
    if (input_shape(config) != nullptr) return &config;
    if (input_shape(*first.config) != nullptr) return first.config;
    if (!is_model(first.type) || depth > max_depth) return nullptr;
    return config_of_input(*first.config, layers_of(*first.config, "model '" + first.name + "'")[0], depth + 1);
  }

  std::vector<Call> calls_;
  size_t count_ = 0;
  std::map<const Json*, Functional> parsed_;
};

}  // namespace

Network read_network(const Json& model) {
  const std::string type = string_of(member(model, "class_name", "model_config"), "model_config: 'class_name'");
  if (!is_model(type)) throw Error("a model of the class '" + type + "', which is neither Functional nor Sequential");
  const Json& config = member(model, "config", "model_config");
  const Json* name = find_member(config, "name");
  Network network;
  network.name = name == nullptr ? "model" : string_of(*name, "model_config: 'name'");
  Flattener flattener;
  network.outputs = flattener.add_model(type, config, nullptr, {"", network.name, "", 0});
  network.calls = flattener.take_calls();
  return network;
}

}  // namespace quern::keras

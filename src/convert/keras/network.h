// Reads the architecture of a Keras model as a plain list of calls of layers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "convert/common/error.h"

namespace quern::keras {

using Json = nlohmann::json;

// A result of a call: calls have numbers, in the order of the list.
struct Ref {
  size_t call, output;
};

// What a layer is called on: a tensor, a number of the file, or an array: numbers in lists within lists.
using Input = std::variant<Ref, double, const Json*>;
using Inputs = std::vector<Input>;

// Types of calls that the network adds.
// (mask): returns input 0 with input 1 as its mask; without input 1, it has none.
// (steps): makes steps again of input 0, a batch that the layer of a TimeDistributed gives. Input 1 has as many.
constexpr const char *mask_call = "(mask)", *steps_call = "(steps)";

// A layer called on tensors. A layer that is used twice gives two calls, and so does each layer of a model within the
// model that is used twice. TimeDistributed is dissolved, as models are: the call that keeps its type makes a batch of
// the steps.
struct Call {
  std::string name;  // with the names of the models around the layer: "backbone/conv"; of later calls: "conv:1"
  std::string type;  // Conv2D, ...
  // The names of weights have the layer's own name, that of the model around it, and that of the layer of the whole
  // model that it is or lies in; empty if there are no weights.
  std::string layer, model, top;
  bool is_nested;      // whether it lies in a model within the model
  const Json* config;  // what says how to compute it
  Inputs inputs;       // in order
  // Masks that the call names, by input. Without any, inputs have the masks that belong to them.
  std::vector<std::optional<Ref>> masks = {};
  std::optional<Ref> attention_mask = {};
  bool is_causal = false;        // whether it is called with use_causal_mask
  bool is_function = false;      // of Keras 3: a function, not a layer, even if a layer has its name
  std::string unsupported = {};  // what we cannot express about the call itself
  std::string part = {};         // of a layer within a wrapper: the folder of its weights; empty: any
};

struct Network {
  std::string name;
  std::vector<Call> calls;  // each after those whose results it reads; InputLayer, too
  std::vector<Ref> outputs;
};

// The list refers to `model`, which is a file's model_config.
Network read_network(const Json& model);

// Each returns what a place of the file must hold. Throws an Error that says `where`.
const Json& member(const Json& object, const char* name, const std::string& where);
std::string string_of(const Json& value, const std::string& where);
int64_t integer_of(const Json& value, const std::string& where);

// The shape that a layer's configuration gives for inputs; null if it gives none.
const Json* input_shape(const Json& config);

}  // namespace quern::keras

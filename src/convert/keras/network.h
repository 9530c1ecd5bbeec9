// Reads the architecture of a Keras model as a plain list of calls of layers.
#pragma once

#include <nlohmann/json.hpp>
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

// A layer called on tensors. A layer that is used twice gives two calls, and so does each layer of a model within the
// model that is used twice.
struct Call {
  std::string name;  // with the names of the models around the layer: "backbone/conv"; of later calls: "conv:1"
  std::string type;  // Conv2D, ...
  // The names of weights have the layer's own name, that of the model around it, and that of the layer of the whole
  // model that it is or lies in.
  std::string layer, model, top;
  bool is_nested;                                 // whether it lies in a model within the model
  const Json* config;                             // what says how to compute it
  std::vector<std::variant<Ref, double>> inputs;  // in order; tensors, or numbers of the file
  bool is_causal;                                 // whether it is called with use_causal_mask
  std::string unsupported;                        // what we cannot express about the call itself
  std::string part = {};                          // of a layer within a wrapper: the folder of its weights; empty: any
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

// What recurrent layers share that are one operator of ONNX, and those that are many.
#pragma once

#include <string>

#include "convert/onnx/export/graph_writer.h"

namespace quern::onnx {

// Functions of gates, in the order of their numbers in libquern-extra.
struct GateFunction {
  const char* name;
  bool has_alpha, has_beta;
};
inline constexpr GateFunction gate_functions[] = {
    {"Sigmoid", false, false},  {"Tanh", false, false},      {"Relu", false, false},
    {"Affine", true, true},     {"LeakyRelu", true, false},  {"ThresholdedRelu", true, false},
    {"ScaledTanh", true, true}, {"HardSigmoid", true, true}, {"Elu", true, false},
    {"Softsign", false, false}, {"Softplus", false, false},
};

// The function of this number. Throws if there is none.
const GateFunction& gate_function(int64_t number);

// "" stays "".
std::string transposed(GraphWriter& to, const Node& node, const std::string& value, const Order& perm);

// Writes an LSTM whose cells' states are limited after each step, for which ONNX has no attribute.
void write_limited_lstm(GraphWriter& to, const Node& node);

}  // namespace quern::onnx

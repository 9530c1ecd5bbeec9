// RNN, GRU, LSTM.
#include <cmath>
#include <limits>
#include <map>

#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

// A function of a gate: its number in libquern-extra, and the defaults of its constants. NaN: it has the constant, but
// no default that all agree on.
struct Activation {
  int64_t function;
  bool has_alpha, has_beta;
  float alpha, beta;
};
constexpr float unset = std::numeric_limits<float>::quiet_NaN();
const Activation* find_activation(const std::string& name) {
  static const std::map<std::string, Activation> activations = {
      {"Sigmoid", {0, false, false, 0, 0}},
      {"Tanh", {1, false, false, 0, 0}},
      {"Relu", {2, false, false, 0, 0}},
      {"Affine", {3, true, true, unset, unset}},
      {"LeakyRelu", {4, true, false, 0.01f, 0}},
      {"ThresholdedRelu", {5, true, false, 1, 0}},
      {"ScaledTanh", {6, true, true, unset, unset}},
      {"HardSigmoid", {7, true, true, 0.2f, 0.5f}},
      {"Elu", {8, true, false, 1, 0}},
      {"Softsign", {9, false, false, 0, 0}},
      {"Softplus", {10, false, false, 0, 0}},
  };
  return find_in(activations, name);
}

// The lists of constants have numbers only for those functions that have constants.
float next(const std::vector<float>& list, size_t* at, bool has, float otherwise) {
  return has && *at < list.size() ? list[(*at)++] : otherwise;
}

Parameters with_activations(const OnnxNode& node, size_t count, Parameters parameters) {
  const std::vector<std::string> names = node.text_list("activations");
  const std::vector<float> alphas = node.number_list("activation_alpha"), betas = node.number_list("activation_beta");
  if (names.empty()) {
    if (!alphas.empty() || !betas.empty()) throw Unsupported{"constants of default activations"};
    return parameters;
  }
  if (names.size() != count) node.fail("has " + std::to_string(names.size()) + " activations");
  std::vector<int64_t> functions;
  std::vector<float> alpha, beta;
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    const Activation* const activation = find_activation(name);
    if (activation == nullptr) throw Unsupported{"activation " + name};
    functions.push_back(activation->function);
    alpha.push_back(next(alphas, &next_alpha, activation->has_alpha, activation->alpha));
    beta.push_back(next(betas, &next_beta, activation->has_beta, activation->beta));
    if (std::isnan(alpha.back()) || std::isnan(beta.back())) throw Unsupported{name + " without constants"};
  }
  return std::move(parameters).integers("activations", functions).floats("alpha", alpha).floats("beta", beta);
}

int64_t direction_of(const OnnxNode& node) {
  const std::string direction = node.text("direction", "forward");
  if (direction == "forward") return 0;
  if (direction == "reverse") return 1;
  if (direction != "bidirectional") node.fail("direction is '" + direction + "'");
  return 2;
}

Values recurrent(const OnnxNode& node, const char* kind, size_t activations, size_t outputs, const char* flag) {
  const int64_t direction = direction_of(node);
  Parameters parameters;
  parameters = std::move(parameters).integer("direction", direction).integer("layout", node.integer("layout", 0));
  if (flag != nullptr) parameters = std::move(parameters).integer(flag, node.integer(flag, 0));
  if (node.has_attribute("clip")) {
    const float clip = node.number("clip", 0);
    if (!(clip > 0)) throw Unsupported{"a clip that is not positive"};
    parameters = std::move(parameters).number("clip", clip);
  }
  if (node.has_attribute("hidden_size")) {
    parameters = std::move(parameters).integer("hidden", node.integer("hidden_size", 0));
  }
  parameters = with_activations(node, direction == 2 ? 2 * activations : activations, std::move(parameters));
  return of_kind(node, kind, std::move(parameters), std::vector<ElementType>(outputs, node.value(0).type));
}

Values rnn(const OnnxNode& node) { return recurrent(node, "rnn", 1, 2, nullptr); }
Values gru(const OnnxNode& node) { return recurrent(node, "gru", 2, 2, "linear_before_reset"); }
Values lstm(const OnnxNode& node) { return recurrent(node, "lstm", 3, 3, "input_forget"); }

}  // namespace

const OnnxTable& general_recurrent() {
  static const OnnxTable table = {
      {"GRU", {gru, 3, 6}},
      {"LSTM", {lstm, 3, 8}},
      {"RNN", {rnn, 3, 6}},
  };
  return table;
}

}  // namespace quern::onnx

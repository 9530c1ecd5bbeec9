// Imports Keras' recurrent layers and the layers that wrap other layers. Sequences are [batch, time, depth].
#include <algorithm>

#include "base/math.h"
#include "convert/common/kinds.h"
#include "convert/keras/node.h"

namespace quern::keras {
namespace {

// ---- cells ------------------------------------------------------------------------------------

// A recurrent layer: the kind of libquern-extra, and which of Keras' gates each of its gates is.
struct Cell {
  const char* kind;
  std::vector<size_t> gates;
  size_t states;  // the hidden state, and an LSTM's cell state
};

const Cell* find_cell(const std::string& type) {
  static const std::map<std::string, Cell> cells = {
      {"GRU", {"gru", {0, 1, 2}, 1}},       // update, reset, hidden
      {"LSTM", {"lstm", {0, 3, 1, 2}, 2}},  // Keras: input, forget, cell, output; here: input, output, forget, cell
      {"SimpleRNN", {"rnn", {0}, 1}},
  };
  return find_in(cells, type);
}

// A function of a gate: its number in libquern-extra, and its constants.
struct GateFunction {
  int64_t function;
  float alpha, beta;
};

GateFunction gate_function(const KerasNode& node, const std::string& name) {
  static const std::map<std::string, GateFunction> functions = {
      {"elu", {8, 1, 0}},     {"leaky_relu", {4, 0.2f, 0}}, {"linear", {3, 1, 0}},   {"relu", {2, 0, 0}},
      {"sigmoid", {0, 0, 0}}, {"softplus", {10, 0, 0}},     {"softsign", {9, 0, 0}}, {"tanh", {1, 0, 0}},
  };
  if (name == "hard_sigmoid") return {7, hard_sigmoid_slope(node), 0.5f};
  const GateFunction* function = find_in(functions, name);
  if (function == nullptr) throw Unsupported{"activation '" + name + "' of a recurrent layer"};
  return *function;
}

// Functions of an RNN: of the state; of the others: of gates, of the state, and an LSTM's of its cell, the same one.
Parameters with_functions(const KerasNode& node, const Cell& cell, Parameters parameters) {
  std::vector<std::string> names(cell.states, node.text("activation", "tanh"));
  if (cell.gates.size() > 1) names.insert(names.begin(), node.text("recurrent_activation", "sigmoid"));
  std::vector<int64_t> functions;
  std::vector<float> alphas, betas;
  for (const std::string& name : names) {
    const GateFunction function = gate_function(node, name);
    functions.push_back(function.function);
    alphas.push_back(function.alpha);
    betas.push_back(function.beta);
  }
  return std::move(parameters).integers("activations", functions).floats("alpha", alphas).floats("beta", betas);
}

// ---- weights ----------------------------------------------------------------------------------

size_t width_of(const KerasNode& node, const Cell& cell, size_t units) {
  size_t width;
  if (!checked_mul(units, cell.gates.size(), &width)) node.fail("'units' is out of range");
  return width;
}

// A matrix, whose columns are those of one gate after the other, as rows.
View gate_rows(const KerasNode& node, const char* role, const Cell& cell, size_t depth, size_t units) {
  const size_t width = width_of(node, cell, units);
  const std::vector<float>& from = node.numbers(role, {depth, width});
  std::vector<float> rows;
  rows.reserve(from.size());
  for (const size_t gate : cell.gates) {
    for (size_t unit = gate * units; unit < (gate + 1) * units; ++unit) {
      for (size_t i = 0; i < depth; ++i) rows.push_back(from[i * width + unit]);
    }
  }
  return node.builder.constant({1, width, depth}, rows.data());
}

// The biases of the products with the input, then those of the products with the state, which only a GRU has that
// resets the state after its product.
View gate_bias(const KerasNode& node, const Cell& cell, size_t units, bool has_two) {
  if (!node.flag("use_bias", true)) return {};
  const size_t width = width_of(node, cell, units);
  const std::vector<float>& from = node.numbers("bias", has_two ? Shape{2, width} : Shape{width});
  std::vector<float> bias;
  for (size_t part = 0; part < from.size(); part += width) {
    for (const size_t gate : cell.gates) {
      const auto first = from.begin() + static_cast<ptrdiff_t>(part + gate * units);
      bias.insert(bias.end(), first, first + static_cast<ptrdiff_t>(units));
    }
  }
  bias.resize(2 * width);
  return node.builder.constant({1, 2 * width}, bias.data());
}

// ---- sequences --------------------------------------------------------------------------------

void ignore_training(const KerasNode& node) {
  node.ignore({"implementation", "unroll", "unit_forget_bias", "dropout", "recurrent_dropout", "seed", "use_cudnn",
               "input_dim", "input_length", "zero_output_for_mask"});  // there are no masks
}

// `y`: the hidden states of all steps, in the order of time, or the last one. `states`: after the last step.
struct Outcome {
  View y;
  Values states;
};

Outcome run_sequence(const KerasNode& node, const Cell& cell, bool backwards) {
  Builder& builder = node.builder;
  const View& x = node.view(0);
  if (x.rank() != 3) throw Unsupported{"on a tensor of rank " + std::to_string(x.rank())};
  if (node.flag("stateful", false)) throw Unsupported{"stateful: make the states inputs and outputs of the model"};
  if (node.flag("time_major", false)) throw Unsupported{"time_major"};
  if (node.input_count() != 1 && node.input_count() != 1 + cell.states) node.fail("has another number of states");
  ignore_training(node);
  const bool resets_after = cell.gates.size() == 3 && node.flag("reset_after", false);
  const size_t units = node.size("units"), depth = builder.shape(x)[2];
  std::vector<View> inputs = {x,
                              gate_rows(node, "kernel", cell, depth, units),
                              gate_rows(node, "recurrent_kernel", cell, units, units),
                              gate_bias(node, cell, units, resets_after),
                              {}};
  for (size_t i = 1; i < node.input_count(); ++i) {
    const std::string name = node.name + "/state" + std::to_string(i - 1);
    inputs.push_back(builder.reshape(name, node.view(i), {0, 1, copy_dimension(1, 2)}));
  }
  Parameters parameters = Parameters().integer("direction", backwards ? 1 : 0).integer("layout", 1);
  if (resets_after) parameters = std::move(parameters).integer("linear_before_reset", 1);
  const Values made = node.custom(cell.kind, inputs, with_functions(node, cell, std::move(parameters)),
                                  std::vector<ElementType>(1 + cell.states, ElementType::f32));
  Outcome outcome;
  for (size_t i = 0; i < cell.states; ++i) {
    outcome.states.emplace_back(builder.reshape(node.name + "/last" + std::to_string(i), made[1 + i].view, {0, -1}));
  }
  const bool all = node.flag("return_sequences", false);
  outcome.y = all ? builder.reshape(node.name + "/steps", made[0].view, {0, 0, -1}) : outcome.states[0].view;
  return outcome;
}

// The steps of a layer that goes backwards come in the order in which it makes them.
Values recurrent(const KerasNode& node) {
  const bool backwards = node.flag("go_backwards", false);
  Outcome outcome = run_sequence(node, *find_cell(node.call.type), backwards);
  Values results = {outcome.y};
  if (backwards && node.flag("return_sequences", false)) results = {reversed(node, outcome.y, {1})};
  if (!node.flag("return_state", false)) return results;
  results.insert(results.end(), outcome.states.begin(), outcome.states.end());
  return results;
}

// ---- wrappers ---------------------------------------------------------------------------------

// The call of the layer that a field of a wrapper holds.
Call wrapped(const KerasNode& node, const char* field, const char* name) {
  const Json* layer = node.find(field);
  const std::string where = "layer '" + node.name + "': '" + field + "'";
  if (layer == nullptr) node.fail(std::string("'") + field + "' is missing");
  Call call = node.call;
  call.name += name;
  call.type = string_of(member(*layer, "class_name", where), where + ": 'class_name'");
  call.config = &member(*layer, "config", where);
  if (!call.config->is_object()) throw Error(where + ": 'config' is damaged");
  return call;
}

Values results_of(const KerasNode& node, const KerasRow& row, const Call& call, const Value& x) {
  const KerasNode layer(node, call, {&x});
  const Values results = row.import(layer);
  node.end_part(layer);
  return results;
}

// Applies a layer to each step: steps become a batch, unless the layer computes with the last dimension alone.
Values time_distributed(const KerasNode& node) {
  Builder& builder = node.builder;
  const Call call = wrapped(node, "layer", "/layer");
  const KerasRow* row = find_row(call.type);
  if (row == nullptr || row->min_inputs > 1 || find_cell(call.type) != nullptr) throw Unsupported{"of " + call.type};
  if (node.view(0).rank() < 3) throw Unsupported{"on a tensor of rank " + std::to_string(node.view(0).rank())};
  if (call.type == "Dense") return results_of(node, *row, call, node.value(0));
  const auto merged = [](size_t rank) {
    std::vector<int64_t> shape = {-1};
    for (size_t d = 2; d < rank; ++d) shape.push_back(copy_dimension(d, d - 1));
    return shape;
  };
  const Value x = builder.reshape(node.name + "/batch", node.view(0), merged(node.view(0).rank()));
  const Values results = results_of(node, *row, call, x);
  const Symbols::Number steps = node.dimension(0, 1);
  node.fix(steps.symbol);
  const View& y = results.at(0).view;
  std::vector<int64_t> shape = {-1, steps.value};
  for (size_t d = 1; d < y.rank(); ++d) shape.push_back(copy_dimension(d, d + 1));
  return {builder.reshape(node.name, y, shape)};
}

// Where the weights of one of the two layers lie. Keras 2 gives both a new name, but not in their configuration.
std::string folder_of(const KerasNode& node, const Json& config, const char* direction) {
  const std::string where = "layer '" + node.name + "'",
                    name = string_of(member(config, "name", where), where + ": name");
  return node.is_keras_3 ? name : direction + name;
}

View merged(const KerasNode& node, const std::string& mode, const View& a, const View& b) {
  Builder& builder = node.builder;
  if (mode == "concat") return builder.concat(node.name, {a, b}, a.rank() - 1);
  if (mode == "sum") return builder.binary(OpKind::add, node.name, a, b);
  if (mode == "mul") return builder.binary(OpKind::mul, node.name, a, b);
  if (mode != "ave") node.fail("'merge_mode' is '" + mode + "'");
  return builder.power(node.name, builder.binary(OpKind::add, node.name + "/sum", a, b), 0.5f, 0, 1);
}

Values bidirectional(const KerasNode& node) {
  Call calls[] = {wrapped(node, "layer", "/forward"),
                  wrapped(node, node.find("backward_layer") ? "backward_layer" : "layer", "/backward")};
  View y[2];
  Values states;
  bool returns_state = false;
  for (size_t i = 0; i < 2; ++i) {
    const Cell* cell = find_cell(calls[i].type);
    if (cell == nullptr) throw Unsupported{"of " + calls[i].type};
    calls[i].part = folder_of(node, *calls[i].config, i == 0 ? "forward_" : "backward_");
    std::vector<const Value*> inputs = {&node.value(0)};
    const size_t given = node.input_count() - 1, own = given / 2;
    for (size_t s = 0; s < own; ++s) inputs.push_back(&node.value(1 + i * own + s));
    if (given % 2 != 0) node.fail("has an odd number of states");
    const KerasNode layer(node, calls[i], inputs);
    const bool goes_back = layer.flag("go_backwards", false);
    if (goes_back && (i == 0 || !node.find("backward_layer"))) throw Unsupported{"of a layer that goes backwards"};
    Outcome outcome = run_sequence(layer, *cell, i == 1);
    y[i] = outcome.y;
    states.insert(states.end(), outcome.states.begin(), outcome.states.end());
    returns_state = layer.flag("return_state", false);
    node.end_part(layer);
  }
  Values results;
  if (node.is_null("merge_mode")) {
    results = {y[0], y[1]};
  } else {
    results = {merged(node, node.text("merge_mode", "concat"), y[0], y[1])};
  }
  if (returns_state) results.insert(results.end(), states.begin(), states.end());
  return results;
}

Values masking(const KerasNode&) { throw Unsupported{"steps that are left out"}; }

}  // namespace

const KerasRow* find_recurrent(const std::string& type) {
  static const KerasTable kinds = {
      {"Bidirectional", {bidirectional, 1, 5}},
      {"GRU", {recurrent, 1, 2}},
      {"LSTM", {recurrent, 1, 3}},
      {"Masking", {masking, 1, 1}},
      {"SimpleRNN", {recurrent, 1, 2}},
      {"TimeDistributed", {time_distributed, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

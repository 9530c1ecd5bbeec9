// Imports Keras' recurrent layers. Sequences are [batch, time, depth].
#include "convert/keras/recurrent.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "convert/common/kinds.h"
#include "convert/keras/masks.h"

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

// The steps that count, which come first, in their order. The steps behind them are those that the mask leaves out.
struct Compact {
  View x;
  Value lengths;  // [batch]: how many steps count
  Value places;   // [batch, time]: which compact step each step shows
  Value shows;    // [batch, time]: whether it shows one, or 0
};

// A step that is left out shows the last one before it that counts.
Compact compact_of(const KerasNode& node, const View& x, const Value& mask, bool zeros) {
  const auto add = [&](const Value& a, const Value& b) { return make(node, "any_add", {a, b}); };
  const auto sub = [&](const Value& a, const Value& b) { return make(node, "any_sub", {a, b}); };
  const auto count = [&](const Value& bools) {
    return make(node, "cumulative_sum", {cast_to(node, bools, ElementType::i64), integer_number(1)});
  };
  const Value one = integer_number(1), zero = integer_number(0);
  const Value counted = count(mask), passed = count(all_true(node, mask));  // up to each step, and with it
  const Value lengths = make(node, "reduce_max", {counted}, Parameters().integers("axes", {1}));
  const Value last = sub(counted, one), time = sub(passed, one);
  const Value left_out = add(lengths, sub(time, counted));
  const Value target = make(node, "where", {mask, last, left_out}, {}, ElementType::i64);
  const Value order = make(node, "scatter_elements", {time, target, time}, Parameters().integer("axis", 1));
  const Value any = make(node, "greater", {counted, zero}, {}, ElementType::boolean);
  Compact compact;
  compact.x = gathered(node, x, order, 1, 1).view;
  compact.lengths = make(node, "squeeze", {lengths, integer_list({1})});
  compact.places = make(node, "max", {last, zero});
  compact.shows = zeros ? mask : any;
  return compact;
}

// The weights of a layer, and its states behind them.
std::vector<View> operands_of(const KerasNode& node, const Cell& cell, const View& x, bool resets_after) {
  const size_t units = node.size("units"), depth = node.builder.shape(x)[2];
  std::vector<View> inputs = {x,
                              gate_rows(node, "kernel", cell, depth, units),
                              gate_rows(node, "recurrent_kernel", cell, units, units),
                              gate_bias(node, cell, units, resets_after),
                              {}};
  for (size_t i = 1; i < node.input_count(); ++i) {
    const std::string name = node.name + "/state" + std::to_string(i - 1);
    inputs.push_back(node.builder.reshape(name, node.view(i), {0, 1, copy_dimension(1, 2)}));
  }
  return inputs;
}

// A layer's outputs: the results of all steps, and the last states.
struct CellOutputs {
  View steps;
  Values states;
};
CellOutputs cell_outputs(const KerasNode& node, const Cell& cell, const View& x, const Value& lengths, bool reverses) {
  const bool resets_after = cell.gates.size() == 3 && node.flag("reset_after", false);
  std::vector<View> inputs = operands_of(node, cell, x, resets_after);
  if (lengths) inputs[4] = node.operand(lengths, node.name + "/lengths");
  Parameters parameters = Parameters().integer("direction", reverses ? 1 : 0).integer("layout", 1);
  if (resets_after) parameters = std::move(parameters).integer("linear_before_reset", 1);
  const Values made = node.custom(cell.kind, inputs, with_functions(node, cell, std::move(parameters)),
                                  std::vector<ElementType>(1 + cell.states, ElementType::f32));
  CellOutputs outputs;
  for (size_t i = 0; i < cell.states; ++i) {
    const std::string name = node.name + "/last" + std::to_string(i);
    outputs.states.emplace_back(node.builder.reshape(name, made[1 + i].view, {0, -1}));
  }
  const bool all = node.flag("return_sequences", false);
  if (all) outputs.steps = node.builder.reshape(node.name + "/steps", made[0].view, {0, 0, -1});
  return outputs;
}

View turned(const KerasNode& node, const View& x, bool turns) { return turns ? reversed(node, x, {1}).view : x; }

Outcome run_plain(const KerasNode& node, const Cell& cell, const SequenceRun& run) {
  CellOutputs outputs = cell_outputs(node, cell, node.view(0), {}, run.backwards);
  if (!outputs.steps) return {outputs.states[0].view, outputs.states};
  return {turned(node, outputs.steps, run.backwards && !run.by_time), outputs.states};
}

Outcome run_masked(const KerasNode& node, const Cell& cell, const SequenceRun& run) {
  const Value mask = as_bools(node, *run.mask);
  const View x = turned(node, node.view(0), run.backwards);
  const Compact compact = compact_of(node, x, run.backwards ? reversed(node, mask, {1}) : mask, run.zeros);
  CellOutputs outputs = cell_outputs(node, cell, compact.x, compact.lengths, false);
  if (!outputs.steps) {
    const Value last = sliced(node, compact.shows, {-1}, {std::numeric_limits<int64_t>::max()}, {1});
    return {kept(node, last, outputs.states[0].view, 0), outputs.states};
  }
  const View steps = gathered(node, outputs.steps, compact.places, 1, 1).view;
  return {turned(node, kept_rows(node, compact.shows, steps, 0), run.backwards && run.by_time), outputs.states};
}

Outcome run_cell(const KerasNode& node, const Cell& cell, const SequenceRun& run) {
  const size_t rank = node.view(0).rank();
  if (rank != 3) throw Unsupported{"on a tensor of rank " + std::to_string(rank)};
  read_sequence_fields(node, cell.states);
  return run.mask == nullptr ? run_plain(node, cell, run) : run_masked(node, cell, run);
}

}  // namespace

void read_sequence_fields(const KerasNode& node, size_t states) {
  if (node.flag("stateful", false)) throw Unsupported{"stateful: make the states inputs and outputs of the model"};
  if (node.flag("time_major", false)) throw Unsupported{"time_major"};
  if (node.input_count() != 1 && node.input_count() != 1 + states) node.fail("has another number of states");
  node.ignore({"implementation", "unroll", "unit_forget_bias", "dropout", "recurrent_dropout", "seed", "use_cudnn",
               "input_dim", "input_length", "zero_output_for_mask"});  // the last one is read where there is a mask
}

bool is_recurrent(const std::string& type) { return find_cell(type) != nullptr || spatial_of_conv_lstm(type) != 0; }

Outcome run_sequence(const KerasNode& node, const SequenceRun& run) {
  const Cell* const cell = find_cell(node.call.type);
  return cell != nullptr ? run_cell(node, *cell, run) : run_conv_lstm(node, spatial_of_conv_lstm(node.call.type), run);
}

// The steps of a layer that goes backwards come in the order in which it makes them. The mask stays as it is.
Values recurrent(const KerasNode& node) {
  const bool all = node.flag("return_sequences", false);
  Outcome outcome = run_sequence(
      node, {node.flag("go_backwards", false), false, node.flag("zero_output_for_mask", false), node.call_mask(2)});
  if (all && node.mask(0) != nullptr) node.set_mask(0, *node.mask(0));
  Values results = {outcome.y};
  if (!node.flag("return_state", false)) return results;
  results.insert(results.end(), outcome.states.begin(), outcome.states.end());
  return results;
}

const KerasRow* find_recurrent(const std::string& type) {
  static const KerasTable kinds = {
      {"GRU", {recurrent, 1, 2}},
      {"LSTM", {recurrent, 1, 3}},
      {"SimpleRNN", {recurrent, 1, 2}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

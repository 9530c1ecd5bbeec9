// Keras' recurrent layers and layers that wrap other layers, against plain computations.
#include <algorithm>
#include <cmath>

#include "convert/keras/keras.h"
#include "keras_model.h"

namespace quern::test {
namespace keras_recurrent_test {

class KerasRecurrent : public KerasWithExtra {};

// ---- recurrent layers -------------------------------------------------------------------------

// The columns of a matrix that belong to a gate.
Array gate(const Array& matrix, size_t number, size_t units) {
  Dims begin(matrix.dims.size(), 0), end = matrix.dims;
  begin.back() = number * units;
  end.back() = begin.back() + units;
  return slice(matrix, begin, end);
}

// The cells as Keras describes them. `step` gets an input [batch, depth] and changes the states.
struct Cell {
  Array kernel, recurrent, bias;
  size_t units;
  bool resets_after = false;

  Array of_input(const Array& x, size_t g) const {
    const Array& b = resets_after ? slice(bias, {0, 0}, {1, bias.dims[1]}) : bias;
    return combine(matmul(x, gate(kernel, g, units)), gate(b, g, units), plus);
  }
  Array of_state(const Array& h, size_t g) const {
    const Array y = matmul(h, gate(recurrent, g, units));
    if (!resets_after) return y;
    return combine(y, gate(slice(bias, {1, 0}, {2, bias.dims[1]}), g, units), plus);
  }
  Array sum(const Array& x, const Array& h, size_t g) const { return combine(of_input(x, g), of_state(h, g), plus); }
};

void step_rnn(const Cell& cell, const Array& x, std::vector<Array>& s) { s[0] = map(cell.sum(x, s[0], 0), tanh_of); }

void step_lstm(const Cell& cell, const Array& x, std::vector<Array>& s) {
  Array gates[4];
  for (size_t g = 0; g < 4; ++g) gates[g] = map(cell.sum(x, s[0], g), g == 2 ? tanh_of : sigmoid);
  s[1] = combine(combine(gates[1], s[1], times), combine(gates[0], gates[2], times), plus);
  s[0] = combine(gates[3], map(s[1], tanh_of), times);
}

void step_gru(const Cell& cell, const Array& x, std::vector<Array>& s) {
  const Array z = map(cell.sum(x, s[0], 0), sigmoid), r = map(cell.sum(x, s[0], 1), sigmoid);
  const Array kept =
      cell.resets_after ? combine(r, cell.of_state(s[0], 2), times) : cell.of_state(combine(r, s[0], times), 2);
  const Array fresh = map(combine(cell.of_input(x, 2), kept, plus), tanh_of);
  s[0] = combine(combine(z, s[0], times), combine(map(z, [](float v) { return 1 - v; }), fresh, times), plus);
}

using Step = void (*)(const Cell& cell, const Array& x, std::vector<Array>& states);

// The hidden states of all steps, and the last states.
struct Sequence {
  Array steps;
  std::vector<Array> states;
};
Sequence run_cell(Step step, const Cell& cell, const Array& x, bool backwards, std::vector<Array> states) {
  std::vector<Array> rows(x.dims[1]);
  for (size_t i = 0; i < x.dims[1]; ++i) {
    const size_t t = backwards ? x.dims[1] - 1 - i : i;
    const Array now = slice(x, {0, t, 0}, {x.dims[0], t + 1, x.dims[2]});
    step(cell, reshape(now, {x.dims[0], x.dims[2]}), states);
    rows[t] = reshape(states[0], {x.dims[0], 1, cell.units});
  }
  return {concat(rows, 1), states};
}

Array backwards(const Array& x) {
  return generate(x.dims, [&](Dims at) {
    at[1] = x.dims[1] - 1 - at[1];
    return x.at(at);
  });
}

struct Kind {
  const char* type;
  Step step;
  size_t gates, states;
  bool resets_after;
  const char* config;
};
const Kind kinds[] = {{"SimpleRNN", step_rnn, 1, 1, false, ""},
                      {"LSTM", step_lstm, 4, 2, false, ""},
                      {"GRU", step_gru, 3, 1, false, ", 'reset_after': false"},
                      {"GRU", step_gru, 3, 1, true, ", 'reset_after': true"}};

Cell cell_of(const Kind& kind, uint32_t seed) {
  const size_t width = 3 * kind.gates;
  return {random({4, width}, seed), random({3, width}, seed + 1),
          random(kind.resets_after ? Dims{2, width} : Dims{width}, seed + 2), 3, kind.resets_after};
}
KerasWeights weights_of(const Cell& cell, const std::string& folder) {
  return {
      {folder + "kernel", cell.kernel}, {folder + "recurrent_kernel", cell.recurrent}, {folder + "bias", cell.bias}};
}

TEST_F(KerasRecurrent, RecurrentLayers) {
  const Array x = random({2, 5, 4}, 1), none = make({2, 3}, std::vector<float>(6, 0.0f));
  for (const Kind& kind : kinds) {
    const Cell cell = cell_of(kind, 7);
    const KerasWeights weights = weights_of(cell, "cell/");
    const std::vector<Array> zeros(kind.states, none);
    const Sequence forward = run_cell(kind.step, cell, x, false, zeros),
                   back = run_cell(kind.step, cell, x, true, zeros);
    const std::string config = "'units': 3" + std::string(kind.config), all = config + ", 'return_sequences': true";
    expect_layer(kind.type, config, x, weights, forward.states[0]);
    expect_layer(kind.type, all + ", 'unroll': true, 'dropout': 0.5", x, weights, forward.steps);
    expect_layer(kind.type, config + ", 'go_backwards': true", x, weights, back.states[0]);
    expect_layer(kind.type, all + ", 'go_backwards': true", x, weights, backwards(back.steps));
    expect_in(refusal(kind.type, config + ", 'stateful': true", x.dims, weights), "stateful");
    expect_in(refusal(kind.type, config + ", 'activation': 'gelu'", x.dims, weights),
              "activation 'gelu' of a recurrent");
    expect_in(refusal(kind.type, config, x.dims), "no weights 'kernel'");
    expect_in(refusal(kind.type, config, {2, 4}, weights), "rank 2");
  }
}

// The line of hard_sigmoid is steeper in Keras 2.
TEST_F(KerasRecurrent, FunctionsOfGates) {
  const Array x = random({1, 2, 4}, 1);
  Cell cell = cell_of(kinds[0], 3);
  std::vector<Array> states = {make({1, 3}, {0, 0, 0})};
  for (const bool is_3 : {false, true}) {
    const auto line = [&](float v) { return std::clamp(v * (is_3 ? 1.0f / 6 : 0.2f) + 0.5f, 0.0f, 1.0f); };
    Array h = states[0];
    for (size_t t = 0; t < 2; ++t) {
      h = map(cell.sum(reshape(slice(x, {0, t, 0}, {1, t + 1, 4}), {1, 4}), h, 0), line);
    }
    expect_layer("SimpleRNN", "'units': 3, 'activation': 'hard_sigmoid'", x, weights_of(cell, ""), h,
                 is_3 ? "3.0.0" : "2.4.0");
  }
}

// An encoder's states begin a decoder, in the forms of both versions.
TEST_F(KerasRecurrent, StatesOfRecurrentLayers) {
  const Array x = random({2, 5, 4}, 1), none = make({2, 3}, std::vector<float>(6, 0.0f));
  const Kind& kind = kinds[1];
  const Cell first = cell_of(kind, 7), second = cell_of(kind, 17);
  const Sequence encoded = run_cell(kind.step, first, x, false, {none, none});
  const Sequence decoded = run_cell(kind.step, second, x, false, encoded.states);
  const auto tensor = [](const std::string& layer, int result) {
    return "{'class_name': '__keras_tensor__', 'config': {'keras_history': ['" + layer + "', 0, " +
           std::to_string(result) + "]}}";
  };
  const std::string new_calls = "[{'args': [" + tensor("x", 0) + "], 'kwargs': {'initial_state': [" + tensor("a", 1) +
                                ", " + tensor("a", 2) + "]}}]";
  const std::string old_calls = "[[['x', 0, 0, {}], ['a', 0, 1, {}], ['a', 0, 2, {}]]]";
  for (const std::string& calls : {new_calls, old_calls}) {
    const std::string on_x =
        calls == new_calls ? "[{'args': [" + tensor("x", 0) + "], 'kwargs': {}}]" : "[[['x', 0, 0, {}]]]";
    const std::string net =
        keras_functional("net",
                         {keras_input("x", x.dims), keras_layer("LSTM", "a", "'units': 3, 'return_state': true", on_x),
                          keras_layer("LSTM", "b", "'units': 3", calls)},
                         "[['x', 0, 0]]", "[['b', 0, 0], ['a', 0, 2]]");
    KerasWeights weights = weights_of(first, "a/a/");
    weights.merge(weights_of(second, "b/b/"));
    const std::vector<Array> got = run(keras::import_contents(keras_contents(net, weights), {}), {x});
    expect_near(got.at(0), decoded.states[0]);
    expect_near(got.at(1), encoded.states[1]);
  }
}

// ---- wrappers ---------------------------------------------------------------------------------

std::string wrapped(const std::string& field, const std::string& type, const std::string& name,
                    const std::string& config) {
  return "'" + field + "': {'class_name': '" + type + "', 'config': {'name': '" + name + "', " + config + "}}";
}

TEST_F(KerasRecurrent, Bidirectional) {
  const Array x = random({2, 5, 4}, 1), none = make({2, 3}, std::vector<float>(6, 0.0f));
  const Kind& kind = kinds[1];
  const Cell cells[] = {cell_of(kind, 7), cell_of(kind, 17)};
  const Sequence forward = run_cell(kind.step, cells[0], x, false, {none, none});
  const Sequence back = run_cell(kind.step, cells[1], x, true, {none, none});
  KerasWeights weights = weights_of(cells[0], "forward_l/lstm_cell/");
  weights.merge(weights_of(cells[1], "backward_l/lstm_cell/"));
  const auto layer = [](const std::string& more) { return wrapped("layer", "LSTM", "l", "'units': 3" + more) + ", "; };
  const std::string all = layer(", 'return_sequences': true");
  expect_layer("Bidirectional", all + "'merge_mode': 'concat'", x, weights, concat({forward.steps, back.steps}, 2));
  const Array sum = combine(forward.steps, back.steps, plus);
  expect_layer("Bidirectional", all + "'merge_mode': 'sum'", x, weights, sum);
  expect_layer("Bidirectional", all + "'merge_mode': 'ave'", x, weights, map(sum, [](float v) { return v / 2; }));
  expect_layer("Bidirectional", all + "'merge_mode': 'mul'", x, weights, combine(forward.steps, back.steps, times));
  expect_layer("Bidirectional", layer("") + "'merge_mode': 'concat'", x, weights,
               concat({forward.states[0], back.states[0]}, 1));
  const std::string new_layers = wrapped("layer", "LSTM", "forward_l", "'units': 3") + ", " +
                                 wrapped("backward_layer", "LSTM", "backward_l", "'units': 3, 'go_backwards': true");
  expect_layer("Bidirectional", new_layers, x, weights, concat({forward.states[0], back.states[0]}, 1), "3.1.0");
  expect_in(refusal("Bidirectional", all + "'merge_mode': 'max'", x.dims, weights), "'merge_mode' is 'max'");
  expect_in(refusal("Bidirectional", layer(", 'go_backwards': true") + "'merge_mode': 'sum'", x.dims, weights),
            "goes backwards");
  expect_in(refusal("Bidirectional", wrapped("layer", "Dense", "l", "'units': 3"), x.dims), "of Dense");
  expect_in(refusal("Bidirectional", layer(", 'wild': 3") + "'merge_mode': 'sum'", x.dims, weights), "'wild'");
  expect_in(refusal("Bidirectional", "'layer': {'class_name': 'LSTM', 'config': 3}", x.dims), "'config' is damaged");
  expect_in(refusal("Bidirectional", "", x.dims), "'layer' is missing");
}

// Without a merge mode each direction is a result, and behind them come the states of both.
TEST_F(KerasRecurrent, ResultsOfBothDirections) {
  const Array x = random({2, 5, 4}, 1), none = make({2, 3}, std::vector<float>(6, 0.0f));
  const Kind& kind = kinds[0];
  const Cell cells[] = {cell_of(kind, 7), cell_of(kind, 17)};
  const Sequence runs[] = {run_cell(kind.step, cells[0], x, false, {none}),
                           run_cell(kind.step, cells[1], x, true, {none})};
  KerasWeights weights = weights_of(cells[0], "b/b/forward_r/");
  weights.merge(weights_of(cells[1], "b/b/backward_r/"));
  const std::string config =
      wrapped("layer", "SimpleRNN", "r", "'units': 3, 'return_sequences': true, 'return_state': true") +
      ", 'merge_mode': null";
  const std::string net = keras_functional(
      "net", {keras_input("x", x.dims), keras_layer("Bidirectional", "b", config, "[[['x', 0, 0, {}]]]")},
      "[['x', 0, 0]]", "[['b', 0, 0], ['b', 0, 1], ['b', 0, 2], ['b', 0, 3]]");
  const std::vector<Array> got = run(keras::import_contents(keras_contents(net, weights), {}), {x});
  for (size_t i = 0; i < 2; ++i) {
    expect_near(got.at(i), runs[i].steps);
    expect_near(got.at(2 + i), runs[i].states[0]);
  }
}

TEST_F(KerasRecurrent, TimeDistributed) {
  const Array x = random({2, 3, 4, 5}, 1), kernel = random({5, 2}, 2), wide = random({20, 2}, 3);
  expect_layer("TimeDistributed", wrapped("layer", "Dense", "d", "'units': 2, 'use_bias': false"), x,
               {{"kernel", kernel}}, reshape(matmul(reshape(x, {24, 5}), kernel), {2, 3, 4, 2}));
  expect_layer("TimeDistributed", wrapped("layer", "Flatten", "f", "'data_format': 'channels_last'"), x, {},
               reshape(x, {2, 3, 20}));
  expect_layer("TimeDistributed", wrapped("layer", "Permute", "p", "'dims': [2, 1]"), x, {},
               transpose(x, {0, 1, 3, 2}));
  expect_in(refusal("TimeDistributed", wrapped("layer", "LSTM", "l", "'units': 3"), x.dims), "no weights 'kernel'");
  expect_in(refusal("TimeDistributed", wrapped("layer", "Sequential", "s", "'layers': []"), x.dims), "has no layers");
  expect_in(refusal("TimeDistributed", wrapped("layer", "Flatten", "f", "'wild': 1"), x.dims), "'wild'");
  expect_in(refusal("TimeDistributed", wrapped("layer", "Flatten", "f", "'name': 'f'") + ", 'wild': 1", x.dims),
            "'wild'");
  expect_in(refusal("TimeDistributed", "", x.dims), "'layer' is missing");
  expect_in(refusal("TimeDistributed", wrapped("layer", "InputLayer", "i", "'batch_shape': [1, 3]"), x.dims),
            "expected a layer or model in 'layer', got InputLayer");
  expect_in(refusal("TimeDistributed", wrapped("layer", "Dense", "d", "'units': 2, 'wild': 1"), x.dims,
                    {{"kernel", kernel}, {"bias", random({2}, 4)}}),
            "'wild'");
  expect_in(refusal("TimeDistributed", wrapped("layer", "Dense", "d", "'units': 2"), {2, 5}), "rank 2");
}

// Each step is a sequence of its own, that begins with states of 0.
TEST_F(KerasRecurrent, TimeDistributedOfSequences) {
  const Array x = random({2, 3, 5, 4}, 1), flat = reshape(x, {6, 5, 4});
  for (const Kind& kind : kinds) {
    const Cell cell = cell_of(kind, 7);
    const std::vector<Array> zeros(kind.states, make({6, 3}, std::vector<float>(18, 0.0f)));
    const Sequence all = run_cell(kind.step, cell, flat, false, zeros);
    const std::string config = "'units': 3" + std::string(kind.config), more = ", 'return_sequences': true";
    const KerasWeights weights = weights_of(cell, "l/cell/");
    expect_layer("TimeDistributed", wrapped("layer", kind.type, "l", config), x, weights,
                 reshape(all.states[0], {2, 3, 3}));
    expect_layer("TimeDistributed", wrapped("layer", kind.type, "l", config + more), x, weights,
                 reshape(all.steps, {2, 3, 5, 3}));
  }
}

// Of models, also within others, and of a TimeDistributed; as both versions name the weights.
TEST_F(KerasRecurrent, TimeDistributedOfModels) {
  const Array x = random({2, 3, 5, 4}, 1), flat = reshape(x, {6, 5, 4}), kernel = random({3, 2}, 30);
  const Kind& kind = kinds[0];
  const Cell cell = cell_of(kind, 7);
  const Array h = run_cell(kind.step, cell, flat, false, {make({6, 3}, std::vector<float>(18, 0.0f))}).states[0];
  const Array want = reshape(matmul(h, kernel), {2, 3, 2});
  const std::string rnn = "'units': 3", dense = "'units': 2, 'use_bias': false";
  const std::string sequential =
      "'layers': [" + keras_layer("SimpleRNN", "r", rnn) + ", " + keras_layer("Dense", "d", dense) + "]";
  const std::string functional = "'layers': [" + keras_input("i", {1, 5, 4}) + ", " +
                                 keras_layer("SimpleRNN", "r", rnn, "[[['i', 0, 0, {}]]]") + ", " +
                                 keras_layer("Dense", "d", dense, "[[['r', 0, 0, {}]]]") +
                                 "], 'input_layers': [['i', 0, 0]], 'output_layers': [['d', 0, 0]]";
  for (const std::string folder : {"m/", ""}) {
    KerasWeights weights = weights_of(cell, folder + "r/cell/");
    weights[folder + "d/kernel"] = kernel;
    expect_layer("TimeDistributed", wrapped("layer", "Sequential", "m", sequential), x, weights, want);
    expect_layer("TimeDistributed", wrapped("layer", "Functional", "m", functional), x, weights, want);
    const std::string again = wrapped("layer", "Sequential", "m", sequential);
    const Array deep = reshape(x, {2, 1, 3, 5, 4});
    expect_layer("TimeDistributed", wrapped("layer", "TimeDistributed", "t", again), deep, weights,
                 reshape(want, {2, 1, 3, 2}));
  }
}

// ---- convolutional LSTMs ----------------------------------------------------------------------

// The cell as Keras describes it, on images N, H, W, C. Gates are input, forget, cell, output.
Sequence run_conv_lstm(const Array& x, const Array& kernel, const Array& recurrent, const Array& bias,
                       const Window& window, bool backwards) {
  const size_t filters = recurrent.dims[2];
  const Array w = transpose(kernel, {3, 2, 0, 1}), r = transpose(recurrent, {3, 2, 0, 1});
  Window same;
  for (size_t d = 0; d < 2; ++d) {
    same.kernel[d] = recurrent.dims[d];
    same.begin[d] = (same.kernel[d] - 1) / 2, same.end[d] = same.kernel[d] - 1 - same.begin[d];
  }
  std::vector<Array> rows;
  Array h, c;
  for (size_t i = 0; i < x.dims[1]; ++i) {
    const size_t t = backwards ? x.dims[1] - 1 - i : i;
    const Array now = slice(x, {0, t, 0, 0, 0}, {x.dims[0], t + 1, x.dims[2], x.dims[3], x.dims[4]});
    const Array image = nchw(reshape(now, {x.dims[0], x.dims[2], x.dims[3], x.dims[4]}));
    Array gates = nhwc(conv(image, w, bias.data, window, 1));
    const std::vector<float> none(4 * filters);
    if (i > 0) gates = combine(gates, nhwc(conv(nchw(h), r, none, same, 1)), plus);
    const Array g = map(gate(gates, 2, filters), tanh_of), in = map(gate(gates, 0, filters), sigmoid);
    const Array kept =
        i == 0 ? map(g, [](float) { return 0.0f; }) : combine(map(gate(gates, 1, filters), sigmoid), c, times);
    c = combine(kept, combine(in, g, times), plus);
    h = combine(map(gate(gates, 3, filters), sigmoid), map(c, tanh_of), times);
    rows.push_back(reshape(h, {h.dims[0], 1, h.dims[1], h.dims[2], h.dims[3]}));
  }
  return {concat(rows, 1), {h, c}};
}

TEST_F(KerasRecurrent, ConvLstm2d) {
  const Array x = random({2, 3, 5, 6, 2}, 1), kernel = random({3, 2, 2, 12}, 2), recurrent = random({3, 2, 3, 12}, 3),
              bias = random({12}, 4);
  const KerasWeights weights = {{"kernel", kernel}, {"recurrent_kernel", recurrent}, {"bias", bias}};
  Window window;
  window.kernel[0] = 3, window.kernel[1] = 2;
  const std::string config = "'filters': 3, 'kernel_size': [3, 2], 'recurrent_activation': 'sigmoid'",
                    all = config + ", 'return_sequences': true";
  const Sequence forward = run_conv_lstm(x, kernel, recurrent, bias, window, false),
                 back = run_conv_lstm(x, kernel, recurrent, bias, window, true);
  expect_layer("ConvLSTM2D", config, x, weights, forward.states[0]);
  expect_layer("ConvLSTM2D", all, x, weights, forward.steps);
  expect_layer("ConvLSTM2D", all + ", 'go_backwards': true", x, weights, back.steps);
  window.stride[0] = 2;
  expect_layer("ConvLSTM2D", config + ", 'strides': [2, 1]", x, weights,
               run_conv_lstm(x, kernel, recurrent, bias, window, false).states[0]);
  window.stride[0] = 1, window.dilation[0] = window.dilation[1] = 2;
  window.begin[0] = window.end[0] = 2, window.begin[1] = window.end[1] = 1;
  expect_layer("ConvLSTM2D", all + ", 'dilation_rate': 2, 'padding': 'same'", x, weights,
               run_conv_lstm(x, kernel, recurrent, bias, window, false).steps);
}

// Images of height 1, and of depth 1.
TEST_F(KerasRecurrent, ConvLstmOfOtherRanks) {
  const Array x = random({2, 3, 1, 6, 2}, 1), kernel = random({1, 3, 2, 8}, 2), recurrent = random({1, 3, 2, 8}, 3),
              bias = random({8}, 4);
  Window window;
  window.kernel[1] = 3;
  const Array want = run_conv_lstm(x, kernel, recurrent, bias, window, false).states[0];
  const std::string config = "'filters': 2, 'recurrent_activation': 'sigmoid', 'kernel_size': ";
  expect_layer(
      "ConvLSTM1D", config + "3", reshape(x, {2, 3, 6, 2}),
      {{"kernel", reshape(kernel, {3, 2, 8})}, {"recurrent_kernel", reshape(recurrent, {3, 2, 8})}, {"bias", bias}},
      reshape(want, {2, 4, 2}));
  expect_layer("ConvLSTM3D", config + "[1, 1, 3]", reshape(x, {2, 3, 1, 1, 6, 2}),
               {{"kernel", reshape(kernel, {1, 1, 3, 2, 8})},
                {"recurrent_kernel", reshape(recurrent, {1, 1, 3, 2, 8})},
                {"bias", bias}},
               reshape(want, {2, 1, 1, 4, 2}));
}

TEST_F(KerasRecurrent, ConvLstmRefused) {
  const auto refused = [](const std::string& config, const Dims& x) { return refusal("ConvLSTM2D", config, x); };
  const std::string config = "'filters': 3, 'kernel_size': 3";
  expect_in(refused(config, {1, 2, 6, 5}), "rank 4");
  expect_in(refused(config + ", 'padding': 'wild'", {1, 2, 6, 6, 1}), "padding 'wild'");
  expect_in(refused(config + ", 'stateful': true", {1, 2, 6, 6, 1}), "stateful");
  expect_in(refused(config, {1, 257, 6, 6, 1}), "more than 256 steps");
  expect_in(refused(config + ", 'strides': [1, 2, 3]", {1, 2, 6, 6, 1}), "'strides' has too many numbers");
  expect_in(refused(config, {1, 2, 6, 6, 1}), "no weights 'kernel'");
}

// A number of steps is fixed, a number of images is not, whichever function comes before.
TEST_F(KerasRecurrent, TimeDistributedBehindFunctions) {
  const Array x = random({2, 3, 4, 5}, 1);
  const std::string net = keras_sequential(
      "net", {keras_input("x", x.dims), keras_layer("Activation", "a", "'activation': 'softplus'"),
              keras_layer("TimeDistributed", "t", wrapped("layer", "Flatten", "f", "'data_format': null"))});
  const Graph graph = keras::import_contents(keras_contents(net, {}), {});
  const Array want = map(reshape(x, {2, 3, 20}), [](float v) { return std::log1p(std::exp(v)); });
  expect_near(run(graph, {x}).at(0), want);
  expect_in(error_of([&] { run(graph, {random({2, 6, 4, 5}, 1)}); }), "expected size 3 in dimension 1");
}

// Weights of a layer with parts, in a model within the model, beside a layer of the same kind.
TEST_F(KerasRecurrent, PartsWithinNestedModels) {
  const Array x = random({2, 5, 4}, 1), none = make({2, 3}, std::vector<float>(6, 0.0f));
  const Kind& kind = kinds[0];
  Cell cells[] = {cell_of(kind, 7), cell_of(kind, 17)};
  cells[1].kernel = random({3, 3}, 20);
  const Array steps = run_cell(kind.step, cells[0], x, false, {none}).steps;
  const Array want = run_cell(kind.step, cells[1], steps, false, {none}).states[0];
  for (const std::string folder : {"in/", "in/in/"}) {
    const std::string inner =
        keras_sequential("in", {keras_layer("SimpleRNN", "r", "'units': 3, 'return_sequences': true"),
                                keras_layer("SimpleRNN", "r_1", "'units': 3")});
    KerasWeights weights = weights_of(cells[0], folder + "r/cell/");
    weights.merge(weights_of(cells[1], folder + "r_1/cell/"));
    const std::string net = keras_sequential("net", {keras_input("x", x.dims), inner});
    expect_near(run(keras::import_contents(keras_contents(net, weights), {}), {x}).at(0), want);
  }
}

}  // namespace keras_recurrent_test
}  // namespace quern::test

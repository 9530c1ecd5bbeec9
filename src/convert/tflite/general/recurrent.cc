// Recurrent layers. Each run begins with the state of the first one, but for SVDF, whose state is one of the model.
#include <limits>

#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

// Joins constants, which may be missing: then their numbers are 0. Each is scaled.
std::vector<float> joined_numbers(const TfliteNode& node, const std::vector<size_t>& inputs,
                                  const std::vector<float>& scales, size_t count) {
  std::vector<float> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.builder.charge(count * sizeof(float));  // a missing input may stand for as many as no file holds
    std::vector<float> part(count, 0);
    if (node.has(inputs[i])) part = node.real_numbers(inputs[i]);
    if (part.size() != count) node.fail("weights do not fit each other");
    for (const float number : part) all.push_back(scales[i] * number);
  }
  return all;
}

View matrix_of(const TfliteNode& node, const Shape& shape, const std::vector<float>& numbers) {
  return node.builder.constant(shape, numbers.data());
}

// What all recurrent layers have in common.
struct Layer {
  bool time_major;
  bool reverse;
  size_t hidden, depth;

  Parameters parameters() const {
    return Parameters().integer("direction", reverse ? 1 : 0).integer("layout", time_major ? 0 : 1);
  }
};

Layer layer_of(const TfliteNode& node, bool time_major, bool reverse, size_t weights) {
  const Shape shape = shape_at_import(node, node.any(weights));
  if (shape.size() != 2 || shape[0] == 0 || shape[1] == 0) node.fail("expected 2-D weights that are not empty");
  return {time_major, reverse, shape[0], shape[1]};
}

// The output of the kind without the dimension of directions.
Value sequence_of(const TfliteNode& node, const Layer& layer, const Value& y) {
  return make(node, "squeeze", {y, integer_list({layer.time_major ? 1 : 2})});
}

// The numbers of inputs of an LSTM. Where there are no weights of the input gate, it is 1 minus the forget gate.
struct LstmInputs {
  size_t weights, recurrent, peepholes, bias, projection;
};

Value lstm_of(const TfliteNode& node, const Value& x, const LstmInputs& at, bool time_major, bool reverse,
              float cell_clip) {
  if (node.has(at.projection)) throw Unsupported{"a projection"};
  const Layer layer = layer_of(node, time_major, reverse, at.weights + 1);
  const size_t n = layer.hidden;
  const bool coupled = !node.has(at.weights);
  // The file has the gates input, forget, cell, output; we have input, output, forget, cell.
  const auto gates = [&](size_t first) {
    return std::vector<size_t>{first + (coupled ? 1 : 0), first + 3, first + 1, first + 2};
  };
  const std::vector<float> scales = {coupled ? -1.0f : 1.0f, 1, 1, 1};
  std::vector<float> bias = joined_numbers(node, gates(at.bias), scales, n);
  bias.resize(8 * n);
  Values inputs = {
      x, matrix_of(node, {1, 4 * n, layer.depth}, joined_numbers(node, gates(at.weights), scales, n * layer.depth)),
      matrix_of(node, {1, 4 * n, n}, joined_numbers(node, gates(at.recurrent), scales, n * n)),
      matrix_of(node, {1, 8 * n}, bias)};
  if (node.has(at.peepholes + 1) || node.has(at.peepholes + 2)) {
    const size_t p = at.peepholes;
    inputs.resize(7);
    inputs.push_back(
        matrix_of(node, {1, 3 * n}, joined_numbers(node, {p + (coupled ? 1 : 0), p + 2, p + 1}, scales, n)));
  }
  Parameters parameters = layer.parameters();
  if (cell_clip > 0) parameters = std::move(parameters).number("cell_clip", cell_clip);
  const Values found = make_all(node, "lstm", inputs, std::move(parameters), std::vector<ElementType>(3, x.type));
  return sequence_of(node, layer, found[0]);
}

void expect_plain_lstm(const TfliteNode& node, schema::Activation activation, float cell_clip, float proj_clip) {
  if (!is_float(node.value(0).type)) throw Unsupported{"of bytes"};
  if (activation != schema::Activation::tanh) throw Unsupported{"another activation than tanh"};
  if (node.finite(cell_clip, "cell_clip") < 0 || node.finite(proj_clip, "proj_clip") < 0) node.fail("clips below 0");
}

constexpr LstmInputs lstm_inputs = {1, 5, 9, 12, 16};
constexpr size_t layer_norm_inputs = 20;

Values unidirectional_sequence_lstm(const TfliteNode& node) {
  const auto& o = node.options<schema::UnidirectionalSequenceLSTMOptions>();
  expect_plain_lstm(node, o.activation(), o.cell_clip(), o.proj_clip());
  if (o.diagonal_recurrent_tensors()) throw Unsupported{"diagonal recurrent weights"};
  for (size_t i = layer_norm_inputs; i < node.input_count(); ++i) {
    if (node.has(i)) throw Unsupported{"layer normalization"};
  }
  return {node.typed(lstm_of(node, node.any(0), lstm_inputs, o.time_major(), false, o.cell_clip()))};
}

// One step of a sequence.
Values lstm(const TfliteNode& node) {
  const auto& o = node.options<schema::LSTMOptions>();
  if (o.kernel_type() != 0) throw Unsupported{"the basic kernel"};
  expect_plain_lstm(node, o.activation(), o.cell_clip(), o.proj_clip());
  for (size_t i = layer_norm_inputs; i < node.input_count(); ++i) {
    if (node.has(i)) throw Unsupported{"layer normalization"};
  }
  const Value x = with_axis(node, node.any(0), 0);
  const Value y = lstm_of(node, x, lstm_inputs, true, false, o.cell_clip());
  return {node.typed(make(node, "squeeze", {y, integer_list({0})}))};
}

// Results of both directions, joined or apart.
Values both(const TfliteNode& node, const Value& forward, const Value& backward, bool merge) {
  if (merge) return {node.typed(joined(node, {forward, backward}, -1))};
  if (node.output_count() != 2) node.fail("has " + std::to_string(node.output_count()) + " outputs");
  return {node.typed(forward, 0), node.typed(backward, 1)};
}

Values bidirectional_sequence_lstm(const TfliteNode& node) {
  const auto& o = node.options<schema::BidirectionalSequenceLSTMOptions>();
  expect_plain_lstm(node, o.activation(), o.cell_clip(), o.proj_clip());
  for (size_t i = 39; i < node.input_count(); ++i) {
    if (node.has(i)) throw Unsupported{"an auxiliary input"};
  }
  const Value x = node.any(0);
  return both(node, lstm_of(node, x, lstm_inputs, o.time_major(), false, o.cell_clip()),
              lstm_of(node, x, {18, 22, 26, 29, 33}, o.time_major(), true, o.cell_clip()), o.merge_outputs());
}

// The number of a function of libquern-extra's recurrent layers. Without an activation it is affine: 1 * x + 0.
int64_t function_of(schema::Activation activation) {
  switch (activation) {
    case schema::Activation::none: return 3;
    case schema::Activation::relu: return 2;
    case schema::Activation::tanh: return 1;
    default: throw Unsupported{"activation " + std::to_string(static_cast<int>(activation))};
  }
}

// Inputs from `first` on: weights, recurrent weights, bias.
Value rnn_of(const TfliteNode& node, const Value& x, size_t first, bool time_major, bool reverse,
             schema::Activation activation) {
  if (!is_float(node.value(0).type)) throw Unsupported{"of bytes"};
  const Layer layer = layer_of(node, time_major, reverse, first);
  const size_t n = layer.hidden;
  std::vector<float> bias = joined_numbers(node, {first + 2}, {1}, n);
  bias.resize(2 * n);
  const Values inputs = {x, matrix_of(node, {1, n, layer.depth}, joined_numbers(node, {first}, {1}, n * layer.depth)),
                         matrix_of(node, {1, n, n}, joined_numbers(node, {first + 1}, {1}, n * n)),
                         matrix_of(node, {1, 2 * n}, bias)};
  Parameters parameters =
      layer.parameters().integers("activations", {function_of(activation)}).floats("alpha", {1}).floats("beta", {0});
  const Values found = make_all(node, "rnn", inputs, std::move(parameters), {x.type, x.type});
  return sequence_of(node, layer, found[0]);
}

Values unidirectional_sequence_rnn(const TfliteNode& node) {
  const auto& o = node.options<schema::SequenceRNNOptions>();
  return {node.typed(rnn_of(node, node.any(0), 1, o.time_major(), false, o.activation()))};
}
Values rnn(const TfliteNode& node) {
  const Value x = with_axis(node, node.any(0), 0);
  const Value y = rnn_of(node, x, 1, true, false, node.options<schema::RNNOptions>().activation());
  return {node.typed(make(node, "squeeze", {y, integer_list({0})}))};
}
Values bidirectional_sequence_rnn(const TfliteNode& node) {
  const auto& o = node.options<schema::BidirectionalSequenceRNNOptions>();
  for (size_t i = 9; i < node.input_count(); ++i) {
    if (node.has(i)) throw Unsupported{"an auxiliary input"};
  }
  const Value x = node.any(0);
  return both(node, rnn_of(node, x, 1, o.time_major(), false, o.activation()),
              rnn_of(node, x, 5, o.time_major(), true, o.activation()), o.merge_outputs());
}

// One step of a stream. Each filter makes one number of the input, keeps those of the last steps, and weighs them; units
// are sums of `rank` filters. The results are the units and the numbers kept, without the oldest and with the new ones.
Values svdf(const TfliteNode& node) {
  const auto& o = node.options<schema::SVDFOptions>();
  if (!is_float(node.value(0).type)) throw Unsupported{"of bytes"};
  if (!node.is_state(4)) throw Unsupported{"a state that is not the model's"};
  const Shape feature = shape_at_import(node, node.any(1)), time = shape_at_import(node, node.any(2));
  if (feature.size() != 2 || time.size() != 2 || feature[0] != time[0]) node.fail("the weights do not fit");
  const auto filters = static_cast<int64_t>(time[0]), steps = static_cast<int64_t>(time[1]), rank = int64_t{o.rank()};
  if (rank < 1 || filters % rank != 0 || steps < 1) node.fail("the rank does not fit the weights");
  const Value product = make(node, "matmul", {node.any(0), permuted(node, node.any(1), {1, 0})});
  const Value before = reshaped(node, node.any(4), {-1, filters, steps});
  const Value kept = sliced(node, before, {1}, {std::numeric_limits<int64_t>::max()}, {2});
  const Value now = joined(node, {kept, with_axis(node, product, -1)}, 2);
  const auto sum = [&](const Value& x) {
    return make(node, "reduce_sum", {x}, Parameters().integers("axes", {-1}).integer("keep_dimensions", 0));
  };
  const Value weighed = sum(make(node, "any_mul", {now, node.any(2)}));
  Value units = sum(reshaped(node, weighed, {-1, filters / rank, rank}));
  if (node.has(3)) units = make(node, "any_add", {units, node.any(3)});
  return {node.typed(units, 0, o.activation()), reshaped(node, now, {-1, filters * steps})};
}

}  // namespace

const TfliteTable& general_recurrent() {
  static const TfliteTable table = {
      {"BIDIRECTIONAL_SEQUENCE_LSTM", {bidirectional_sequence_lstm, 39, 48}},
      {"BIDIRECTIONAL_SEQUENCE_RNN", {bidirectional_sequence_rnn, 9, 12}},
      {"LSTM", {lstm, 20, 24}},
      {"RNN", {rnn, 5, 5}},
      {"SVDF", {svdf, 5, 5}},
      {"UNIDIRECTIONAL_SEQUENCE_LSTM", {unidirectional_sequence_lstm, 20, 24}},
      {"UNIDIRECTIONAL_SEQUENCE_RNN", {unidirectional_sequence_rnn, 5, 5}},
  };
  return table;
}

}  // namespace quern::tflite

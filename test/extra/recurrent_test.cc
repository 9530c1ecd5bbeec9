// Recurrent layers, against loops that follow the formulas of one cell.
#include <functional>

#include "near.h"

namespace quern::test {
namespace recurrent_test {

using Function = std::function<double(double)>;
const Function sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
const Function hyperbolic = [](double x) { return std::tanh(x); };

// What a test varies. Directions: 0 forward, 1 reverse, 2 both.
struct Layer {
  const char* kind;
  size_t gates;
  size_t steps = 4, batch = 3, depth = 5, hidden = 6;
  int64_t direction = 0, layout = 0;
  bool bias = true, lengths = false, states = false, peepholes = false;
  bool linear_before_reset = false, input_forget = false;
  double clip = 0;
  std::vector<int64_t> activations = {};  // as numbers of recurrent.cc
  std::vector<float> alpha = {}, beta = {};
  std::vector<Function> functions = {sigmoid, hyperbolic, hyperbolic};  // f, g, h

  size_t directions() const { return direction == 2 ? 2 : 1; }
  bool is_lstm() const { return gates == 4; }
};

std::vector<Elements> inputs_of(const Layer& l) {
  const size_t d = l.directions(), rows = l.gates * l.hidden;
  const std::vector<size_t> state =
      l.layout == 1 ? std::vector<size_t>{l.batch, d, l.hidden} : std::vector<size_t>{d, l.batch, l.hidden};
  std::vector<double> lengths;
  for (size_t b = 0; b < l.batch; ++b) lengths.push_back(static_cast<double>(l.steps - b % (l.steps + 1)));
  const std::vector<size_t> x =
      l.layout == 1 ? std::vector<size_t>{l.batch, l.steps, l.depth} : std::vector<size_t>{l.steps, l.batch, l.depth};
  std::vector<Elements> inputs = {random_floats(x, 1),
                                  random_floats({d, rows, l.depth}, 2),
                                  random_floats({d, rows, l.hidden}, 3),
                                  l.bias ? random_floats({d, 2 * rows}, 4) : absent,
                                  l.lengths ? list(lengths, QN_S32) : absent,
                                  l.states ? random_floats(state, 5) : absent};
  if (!l.is_lstm()) return inputs;
  inputs.push_back(l.states ? random_floats(state, 6) : absent);
  inputs.push_back(l.peepholes ? random_floats({d, 3 * l.hidden}, 7) : absent);
  return inputs;
}

// One sequence in one direction.
class Cell {
 public:
  Cell(const Layer& layer, const std::vector<Elements>& inputs, size_t direction)
      : l_(layer), in_(inputs), d_(direction), h(layer.hidden, 0.0), c(layer.hidden, 0.0) {}

  void step(const double* x) {
    const size_t n = l_.hidden;
    const std::vector<double> before = h;
    std::vector<double> reset = h, next(n);
    if (l_.gates == 3 && !l_.linear_before_reset) {
      for (size_t i = 0; i < n; ++i) reset[i] *= f(0, input(x, n + i) + state(before, n + i));
    }
    for (size_t i = 0; i < n; ++i)
      next[i] = l_.gates == 1   ? f(0, input(x, i) + state(before, i))
                : l_.gates == 3 ? gru(x, before, reset, i)
                                : lstm(x, before, i);
    h = next;
  }

 private:
  double gru(const double* x, const std::vector<double>& before, const std::vector<double>& reset, size_t i) const {
    const size_t n = l_.hidden;
    const double z = f(0, input(x, i) + state(before, i)), r = f(0, input(x, n + i) + state(before, n + i));
    const double candidate = l_.linear_before_reset ? f(1, input(x, 2 * n + i) + r * state(before, 2 * n + i))
                                                    : f(1, input(x, 2 * n + i) + state(reset, 2 * n + i));
    return (1 - z) * candidate + z * before[i];
  }
  double lstm(const double* x, const std::vector<double>& before, size_t i) {
    const size_t n = l_.hidden;
    const auto gate = [&](size_t g) { return input(x, g * n + i) + state(before, g * n + i); };
    const double in = f(0, gate(0) + peephole(0, i) * c[i]);
    const double forget = l_.input_forget ? 1 - in : f(0, gate(2) + peephole(2, i) * c[i]);
    c[i] = forget * c[i] + in * f(1, gate(3));
    return f(0, gate(1) + peephole(1, i) * c[i]) * l_.functions[2](c[i]);
  }

  double f(size_t function, double x) const {
    if (l_.clip > 0) x = std::min(std::max(x, -l_.clip), l_.clip);
    return l_.functions[function](x);
  }
  double product(const Elements& weights, size_t row, const double* x, size_t length) const {
    double sum = 0;
    for (size_t k = 0; k < length; ++k) sum += weights.values[(d_ * l_.gates * l_.hidden + row) * length + k] * x[k];
    return sum;
  }
  double bias(size_t at) const { return l_.bias ? in_[3].values[d_ * 2 * l_.gates * l_.hidden + at] : 0; }
  double input(const double* x, size_t row) const { return product(in_[1], row, x, l_.depth) + bias(row); }
  double state(const std::vector<double>& s, size_t row) const {
    return product(in_[2], row, s.data(), l_.hidden) + bias(l_.gates * l_.hidden + row);
  }
  double peephole(size_t gate, size_t i) const {
    return l_.peepholes ? in_[7].values[(d_ * 3 + gate) * l_.hidden + i] : 0;
  }

  const Layer& l_;
  const std::vector<Elements>& in_;
  const size_t d_;

 public:
  std::vector<double> h, c;
};

std::vector<Elements> outputs_of(const Layer& l, const std::vector<Elements>& in) {
  const size_t n = l.hidden, d = l.directions();
  const bool first = l.layout == 1;  // the batch comes first
  Elements y = first ? random_floats({l.batch, l.steps, d, n}) : random_floats({l.steps, d, l.batch, n});
  Elements h = first ? random_floats({l.batch, d, n}) : random_floats({d, l.batch, n}), c = h;
  std::fill(y.values.begin(), y.values.end(), 0.0);
  for (size_t direction = 0; direction < d; ++direction) {
    for (size_t b = 0; b < l.batch; ++b) {
      Cell cell(l, in, direction);
      const size_t state = (first ? b * d + direction : direction * l.batch + b) * n;
      for (size_t i = 0; i < n && l.states; ++i) cell.h[i] = in[5].values[state + i];
      for (size_t i = 0; i < n && l.states && l.is_lstm(); ++i) cell.c[i] = in[6].values[state + i];
      const size_t length = l.lengths ? static_cast<size_t>(in[4].values[b]) : l.steps;
      for (size_t step = 0; step < length; ++step) {
        const size_t t = l.direction == 1 || direction == 1 ? length - 1 - step : step;
        cell.step(&in[0].values[(first ? b * l.steps + t : t * l.batch + b) * l.depth]);
        const size_t row = first ? (b * l.steps + t) * d + direction : (t * d + direction) * l.batch + b;
        std::copy(cell.h.begin(), cell.h.end(), &y.values[row * n]);
      }
      std::copy(cell.h.begin(), cell.h.end(), &h.values[state]);
      std::copy(cell.c.begin(), cell.c.end(), &c.values[state]);
    }
  }
  return l.is_lstm() ? std::vector<Elements>{y, h, c} : std::vector<Elements>{y, h};
}

NodeCase node_of(const Layer& l) {
  NodeCase node = {l.kind, inputs_of(l), {}};
  node.outputs = outputs_of(l, node.inputs);
  node.parameters = {integers("direction", {l.direction}), integers("layout", {l.layout}),
                     numbers("clip", {static_cast<float>(l.clip)}),
                     integers("linear_before_reset", {l.linear_before_reset}),
                     integers("input_forget", {l.input_forget})};
  if (!l.activations.empty()) {
    node.parameters.push_back(integers("activations", {l.activations.begin(), l.activations.end()}));
    node.parameters.push_back(numbers("alpha", {l.alpha.begin(), l.alpha.end()}));
    node.parameters.push_back(numbers("beta", {l.beta.begin(), l.beta.end()}));
  }
  return node;
}

// The three kinds. Simple layers have one function.
std::vector<Layer> kinds() {
  return {{.kind = "rnn", .gates = 1, .functions = {hyperbolic}},
          {.kind = "gru", .gates = 3},
          {.kind = "lstm", .gates = 4}};
}

TEST(ExtraRecurrent, DirectionsAndLayouts) {
  for (Layer layer : kinds()) {
    for (const int64_t direction : {0, 1, 2}) {
      for (const int64_t layout : {0, 1}) {
        layer.direction = direction;
        layer.layout = layout;
        expect_near(node_of(layer));
      }
    }
  }
}

TEST(ExtraRecurrent, LengthsAndStates) {
  for (Layer layer : kinds()) {
    layer.batch = 6;  // lengths of 4, 3, 2, 1, 0, 4
    layer.direction = 2;
    layer.lengths = true;
    for (const bool states : {false, true}) {
      for (const int64_t layout : {0, 1}) {
        layer.states = states;
        layer.layout = layout;
        expect_near(node_of(layer));
      }
    }
  }
}

TEST(ExtraRecurrent, OneStepOfOneSequence) {
  for (Layer layer : kinds()) {
    layer.steps = layer.batch = 1;
    layer.hidden = 33;
    layer.states = true;
    expect_near(node_of(layer));
    layer.bias = false;
    expect_near(node_of(layer));
  }
}

TEST(ExtraRecurrent, Variants) {
  Layer gru = {.kind = "gru", .gates = 3}, lstm = {.kind = "lstm", .gates = 4};
  gru.linear_before_reset = true;
  gru.direction = 2;
  expect_near(node_of(gru));
  lstm.peepholes = lstm.states = true;
  lstm.direction = 2;
  expect_near(node_of(lstm));
  lstm.input_forget = true;
  expect_near(node_of(lstm));
  lstm.clip = 0.25;
  expect_near(node_of(lstm));
  gru.clip = 0.25;
  expect_near(node_of(gru));
}

TEST(ExtraRecurrent, Activations) {
  const float a = 0.5f, b = 0.25f;
  const std::vector<Function> functions = {
      sigmoid,
      hyperbolic,
      [](double x) { return std::max(x, 0.0); },
      [=](double x) { return a * x + b; },
      [=](double x) { return x < 0 ? a * x : x; },
      [=](double x) { return x < a ? 0 : x; },
      [=](double x) { return a * std::tanh(b * x); },
      [=](double x) { return std::min(std::max(a * x + b, 0.0), 1.0); },
      [=](double x) { return x < 0 ? a * std::expm1(x) : x; },
      [](double x) { return x / (1 + std::fabs(x)); },
      [](double x) { return std::log1p(std::exp(x)); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    const auto code = static_cast<int64_t>(i);
    expect_near(node_of({.kind = "rnn",
                         .gates = 1,
                         .steps = 2,
                         .activations = {code},
                         .alpha = {a},
                         .beta = {b},
                         .functions = {functions[i]}}));
    expect_near(node_of({.kind = "lstm",
                         .gates = 4,
                         .steps = 2,
                         .activations = {code, 1, code},
                         .alpha = {a, 0, a},
                         .beta = {b, 0, b},
                         .functions = {functions[i], hyperbolic, functions[i]}}));
  }
}

TEST(ExtraRecurrent, NothingToDo) {
  for (Layer layer : kinds()) {
    layer.states = true;
    layer.steps = 0;
    NodeCase node = node_of(layer);
    std::vector<Elements> outputs;
    EXPECT_EQ(NodeModel(node, 0).run(&outputs), "") << layer.kind;  // constants may be empty, inputs may not
    EXPECT_EQ(outputs, node.outputs);
  }
}

// create() knows only the types of inputs that are no constants, as of peepholes that a run sizes.
TEST(ExtraRecurrent, PeepholesOfAnUnknownShape) {
  const std::vector<qn_kind> kinds = extra::all_kinds();
  const auto lstm =
      std::find_if(kinds.begin(), kinds.end(), [](const qn_kind& k) { return k.name == std::string("lstm"); });
  ASSERT_NE(lstm, kinds.end());
  std::vector<float> weights(24 * 6);
  const Node node = {OpKind::custom, "node", {}, {}, {}};
  qn_operand inputs[8] = {};
  for (const size_t i : {0, 1, 2, 7}) inputs[i].tensor.type = QN_F32;
  for (const size_t i : {1, 2}) {
    inputs[i].tensor.rank = 3;
    for (const size_t d : {0, 1, 2}) inputs[i].tensor.shape[d] = d == 0 ? 1 : d == 1 ? 24 : 6;
    inputs[i].data = weights.data();
  }
  void* made = nullptr;
  EXPECT_EQ(lstm->create(reinterpret_cast<const qn_node*>(&node), inputs, 8, &made), QN_OK) << qn_last_message();
  EXPECT_NE(made, nullptr);
  lstm->release(made);
}

TEST(ExtraRecurrent, Refusals) {
  const auto refused = [](Layer layer, const char* text, const std::function<void(NodeCase*)>& change) {
    NodeCase node = node_of(layer);
    change(&node);
    expect_refused(node, text);
  };
  const Layer lstm = {.kind = "lstm", .gates = 4, .lengths = true, .states = true};
  refused(lstm, "input and weights differ", [](NodeCase* n) { n->inputs[0] = random_floats({4, 3, 7}); });
  refused(lstm, "input 1 is [1, 24, 5], not [1, 20, 5]", [](NodeCase* n) { n->inputs[2] = random_floats({1, 24, 5}); });
  refused(lstm, "input 3 is [2, 48], not [1, 48]", [](NodeCase* n) { n->inputs[3] = random_floats({2, 48}); });
  refused(lstm, "a sequence of length 5", [](NodeCase* n) { n->inputs[4].values[1] = 5; });
  refused(lstm, "a sequence of length -1", [](NodeCase* n) { n->inputs[4].values[1] = -1; });
  refused(lstm, "input 6 is [3, 1, 6]", [](NodeCase* n) { n->inputs[6] = random_floats({3, 1, 6}); });
  refused(lstm, "input 7 is [1, 12], not [1, 18]", [](NodeCase* n) { n->inputs[7] = random_floats({1, 12}); });
  refused(lstm, "not of rank 3", [](NodeCase* n) { n->inputs[1] = random_floats({24, 5}); });
  refused(lstm, "hidden_size differs", [](NodeCase* n) { n->parameters.push_back(integers("hidden", {7})); });
  refused(lstm, "unknown direction 3", [](NodeCase* n) { n->parameters[0] = integers("direction", {3}); });
  refused(lstm, "unknown layout 2", [](NodeCase* n) { n->parameters[1] = integers("layout", {2}); });
  refused(lstm, "unknown activation 11", [](NodeCase* n) {
    n->parameters.push_back(integers("activations", {0, 1, 11}));
  });
  refused(lstm, "unknown activation -1", [](NodeCase* n) { n->parameters.push_back(integers("activations", {0, 1})); });
}

}  // namespace recurrent_test
}  // namespace quern::test

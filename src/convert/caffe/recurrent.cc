// Imports Caffe's recurrent layers. Their second bottom says for each step and sequence whether the sequence goes on
// (1) or another one begins (0), which takes away the states. So each step becomes nodes of its own.
#include "convert/caffe/layer.h"

namespace quern::caffe {
namespace {

constexpr size_t max_steps = 256, bytes_of_step = 4096;  // of the nodes that a step becomes, about

// What both layers have in common. Tensors of one step are [1, sequences, numbers].
class Recurrence {
 public:
  // `gates`: how many rows of weights there are for each number of the state. The first two blobs are weights and bias
  // of the input, the third one has the weights of the state.
  Recurrence(const Layer& layer, size_t gates, int blobs) : layer_(layer), builder_(layer.builder) {
    const schema::RecurrentParameter& p = layer.param.recurrent_param();
    const Shape shape = layer.shape(), goes_on = layer.dims(1);
    if (p.expose_hidden()) throw Unsupported{"expose_hidden"};
    if (layer.input_count() > 2) throw Unsupported{"an input that is the same in all steps"};
    if (p.num_output() == 0) layer.fail("num_output is missing or zero");
    if (shape.size() < 3) layer.fail("the input is not a sequence: of rank " + std::to_string(shape.size()));
    if (goes_on != Shape{shape[0], shape[1]}) layer.fail("the second input does not fit the steps and sequences");
    steps = shape[0];
    if (steps > max_steps) throw Unsupported{"more than " + std::to_string(max_steps) + " steps"};
    layer.fix(builder_.symbol(layer.x(), 0));
    builder_.charge(steps * bytes_of_step);
    size = p.num_output();
    layer.expect_blobs(blobs);
    const View x = builder_.reshape(layer.name + "/x", layer.x(), {0, 0, -1});
    const size_t rows = gates * size;
    inputs_ = builder_.fully_connected(layer.name + "/input", x, layer.weights(0, {rows, builder_.shape(x)[2]}),
                                       layer.weights(1, {rows}));
    state_weights_ = layer.weights(2, {rows, size});
    goes_on_ = builder_.reshape(layer.name + "/goes_on", layer.view(1), {0, 0, 1});
  }

  size_t steps, size;

  std::string name(size_t step, const char* part) const { return layer_.name + "/" + std::to_string(step) + part; }
  View binary(OpKind kind, size_t step, const char* part, const View& a, const View& b) const {
    return builder_.binary(kind, name(step, part), a, b);
  }
  View unary(OpKind kind, size_t step, const char* part, const View& x) const {
    return builder_.unary(kind, name(step, part), x);
  }

  // A state of the step before, or 0 where a sequence begins. None before the first step.
  View carried(size_t step, const char* part, const View& state) const {
    if (!state) return {};
    return binary(OpKind::mul, step, part, state, at(step, "/goes_on", goes_on_));
  }
  // The sums of the products with the input and with the carried state.
  View sums(size_t step, const View& state) const {
    const View x = at(step, "/x", inputs_);
    if (!state) return x;
    return binary(OpKind::add, step, "/sums", x,
                  builder_.fully_connected(name(step, "/state"), state, state_weights_, {}));
  }

 private:
  View at(size_t step, const char* part, const View& x) const {
    return builder_.slice(name(step, part), x, 0, static_cast<int64_t>(step), static_cast<int64_t>(step) + 1);
  }

  const Layer& layer_;
  Builder& builder_;
  View inputs_, state_weights_, goes_on_;
};

// Rows of weights belong to the input gate, the forget gate, the output gate and the cell.
Values lstm(const Layer& layer) {
  const Recurrence r(layer, 4, 3);
  View hidden, cell;
  std::vector<View> all;
  for (size_t t = 0; t < r.steps; ++t) {
    const View sums = r.sums(t, r.carried(t, "/hidden", hidden));
    const auto gate = [&](size_t number, const char* part, OpKind function) {
      const auto begin = static_cast<int64_t>(number * r.size), end = begin + static_cast<int64_t>(r.size);
      const View rows = layer.builder.slice(r.name(t, part) + "/sums", sums, 2, begin, end);
      return r.unary(function, t, part, rows);
    };
    const View kept = r.carried(t, "/cell", cell);
    cell = r.binary(OpKind::mul, t, "/new", gate(0, "/i", OpKind::sigmoid), gate(3, "/g", OpKind::tanh));
    if (kept) {
      const View old = r.binary(OpKind::mul, t, "/old", gate(1, "/f", OpKind::sigmoid), kept);
      cell = r.binary(OpKind::add, t, "/sum", old, cell);
    }
    hidden = r.binary(OpKind::mul, t, "/h", gate(2, "/o", OpKind::sigmoid), r.unary(OpKind::tanh, t, "/tanh", cell));
    all.push_back(hidden);
  }
  return {layer.builder.concat(layer.name, all, 0)};
}

// The last two blobs are weights and bias of the output.
Values rnn(const Layer& layer) {
  const Recurrence r(layer, 1, 5);
  View hidden;
  std::vector<View> all;
  for (size_t t = 0; t < r.steps; ++t) {
    hidden = r.unary(OpKind::tanh, t, "/h", r.sums(t, r.carried(t, "/hidden", hidden)));
    all.push_back(hidden);
  }
  const View states = layer.builder.concat(layer.name + "/states", all, 0);
  const View sums = layer.builder.fully_connected(layer.name + "/output", states, layer.weights(3, {r.size, r.size}),
                                                  layer.weights(4, {r.size}));
  return {layer.builder.unary(OpKind::tanh, layer.name, sums)};
}

}  // namespace

const LayerRow* find_recurrent(const std::string& type) {
  static const LayerTable rows = {
      {"LSTM", {lstm, 2, 3}},
      {"RNN", {rnn, 2, 3}},
  };
  return find_in(rows, type);
}

}  // namespace quern::caffe

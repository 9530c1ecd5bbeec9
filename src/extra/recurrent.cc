// Recurrent layers: simple ones (RNN), gated recurrent units (GRU), long short-term memory (LSTM).
//
// The products of all inputs of a sequence with the weights W are one product of matrices. What remains for each step is
// the product of the hidden state with the weights R, and the functions of the gates. Rows of W and R belong to gates:
// those of an LSTM are i, o, f, c (input, output, forget, cell), those of a GRU z, r, h (update, reset, hidden).
#include <algorithm>
#include <cstring>

#include "extra/activation.h"
#include "extra/library.h"
#include "extra/node.h"

namespace quern::extra {
namespace recurrent {
namespace {

enum class Cell : uint8_t { rnn, gru, lstm };
constexpr size_t gates_of(Cell cell) { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4; }
constexpr size_t activations_of(Cell cell) { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 2 : 3; }

enum Input : size_t { input_x, input_w, input_r, input_b, input_lengths, input_h, input_c, input_peepholes };
enum Output : size_t { output_y, output_h, output_c };

enum class Direction : int64_t { forward, reverse, both };

// ---- sizes

struct Weights {
  size_t directions, hidden, depth;  // depth: of the input
};

// Checks weights and biases, and returns what they say. Reads the shapes of no other input: create() may not know them.
Weights weights_of(const Node& node, Cell cell) {
  for (const Input input : {input_x, input_w, input_r}) node.expect(input, QN_F32);
  if (node.rank(input_w) != 3 || node.rank(input_r) != 3) node.fail("the weights are not of rank 3");
  const int64_t direction = node.integer("direction", 0);
  if (direction < 0 || direction > 2) node.fail("unknown direction " + std::to_string(direction));
  const size_t directions = direction == static_cast<int64_t>(Direction::both) ? 2 : 1;
  const size_t hidden = node.shape(input_r)[2], depth = node.shape(input_w)[2];
  const size_t rows = Layout::product(gates_of(cell), hidden);
  if (node.integer("hidden", static_cast<int64_t>(hidden)) != static_cast<int64_t>(hidden)) {
    node.fail("hidden_size differs from the weights");
  }
  if (hidden == 0 || depth == 0) node.fail("the weights have no elements");
  node.expect_shape(input_w, {directions, rows, depth});
  node.expect_shape(input_r, {directions, rows, hidden});
  if (node.has(input_b)) {
    node.expect(input_b, QN_F32);
    node.expect_shape(input_b, {directions, Layout::product(2, rows)});
  }
  return {directions, hidden, depth};
}

struct Sizes : Weights {
  size_t steps, batch;
  bool batch_first;
  // Rows of the input from one step, and from one sequence, to the next.
  size_t by_step, by_batch;
};

Sizes sizes_of(const Node& node, Cell cell) {
  const Weights weights = weights_of(node, cell);
  if (node.rank(input_x) != 3) node.fail("the input is not of rank 3");
  const Shape x = node.shape(input_x);
  const int64_t layout = node.integer("layout", 0);
  if (layout < 0 || layout > 1) node.fail("unknown layout " + std::to_string(layout));
  const bool batch_first = layout == 1;
  Sizes sizes = {weights, x[batch_first ? 1 : 0], x[batch_first ? 0 : 1], batch_first, 0, 0};
  if (x[2] != weights.depth) node.fail("input and weights differ in length");
  sizes.by_step = batch_first ? 1 : sizes.batch;
  sizes.by_batch = batch_first ? sizes.steps : 1;
  const Shape state = batch_first ? Shape{sizes.batch, sizes.directions, sizes.hidden}
                                  : Shape{sizes.directions, sizes.batch, sizes.hidden};
  for (const Input input : {input_h, input_c}) {
    if (!node.has(input)) continue;
    node.expect(input, QN_F32);
    node.expect_shape(input, state);
  }
  if (node.has(input_lengths)) node.expect_shape(input_lengths, {sizes.batch});
  if (cell == Cell::lstm && node.has(input_peepholes)) {
    node.expect(input_peepholes, QN_F32);
    node.expect_shape(input_peepholes, {sizes.directions, 3 * sizes.hidden});
  }
  return sizes;
}

template <Cell cell>
void infer(Inference& node) {
  const Sizes s = sizes_of(node, cell);
  const Shape y =
      s.batch_first ? Shape{s.batch, s.steps, s.directions, s.hidden} : Shape{s.steps, s.directions, s.batch, s.hidden};
  const Shape state = s.batch_first ? Shape{s.batch, s.directions, s.hidden} : Shape{s.directions, s.batch, s.hidden};
  node.set(output_y, QN_F32, y);
  node.set(output_h, QN_F32, state);
  if (cell == Cell::lstm) node.set(output_c, QN_F32, state);
}

// ---- activations

// Function `index` of the layer; those of the second direction follow those of the first. An LSTM's cell state, the input
// of the third, is not clipped, as in ONNX Runtime.
FunctionSettings settings_of(const Node& node, Cell cell, size_t index) {
  const std::span<const int64_t> functions = node.integers("activations");
  const std::span<const float> alpha = node.floats("alpha"), beta = node.floats("beta");
  const size_t in_cell = index % activations_of(cell);
  const Function otherwise = in_cell == 0 && cell != Cell::rnn ? Function::sigmoid : Function::tanh;
  int64_t function = static_cast<int64_t>(otherwise);
  if (!functions.empty()) function = index < functions.size() ? functions[index] : -1;
  if (function < 0 || function >= function_count) node.fail("unknown activation " + std::to_string(function));
  return {static_cast<Function>(function), index < alpha.size() ? alpha[index] : 0,
          index < beta.size() ? beta[index] : 0, in_cell < 2 ? node.number("clip", 0) : 0};
}

// ---- what is made and planned

// The products of one direction. A GRU that resets its state before the product multiplies twice in a step: by the first
// two gates' rows of R, then by those of the third.
struct Products {
  Operator input, recurrent, reset;
};
struct Made {
  std::vector<Products> directions;
};

bool resets_before(const Node& node, Cell cell) {
  return cell == Cell::gru && node.integer("linear_before_reset", 0) == 0;
}

// Adds the biases of W and R, except for the hidden gate of a GRU that resets what R gives: there the second belongs to R.
Products products_of(const Node& node, Cell cell, const Weights& sizes, size_t direction) {
  const size_t hidden = sizes.hidden, rows = gates_of(cell) * hidden;
  const float* const w = node.data<float>(input_w) + direction * rows * sizes.depth;
  const float* const r = node.data<float>(input_r) + direction * rows * hidden;
  std::vector<float> bias(rows), later(rows);
  if (node.has(input_b)) {
    const float* const b = node.data<float>(input_b) + direction * 2 * rows;
    const size_t together = cell == Cell::gru && !resets_before(node, cell) ? 2 * hidden : rows;
    for (size_t i = 0; i < rows; ++i) bias[i] = i < together ? b[i] + b[rows + i] : b[i];
    std::copy(b + rows + together, b + 2 * rows, later.begin() + static_cast<ptrdiff_t>(together));
  }
  Products products;
  products.input = product_of(rows, sizes.depth, w, bias.data());
  if (resets_before(node, cell)) {
    products.recurrent = product_of(2 * hidden, hidden, r, nullptr);
    products.reset = product_of(hidden, hidden, r + 2 * hidden * hidden, nullptr);
  } else {
    products.recurrent = product_of(rows, hidden, r, later.data());
  }
  return products;
}

std::unique_ptr<Made> made_of(const Node& node, Cell cell) {
  const Weights sizes = weights_of(node, cell);
  auto made = std::make_unique<Made>();
  for (size_t d = 0; d < sizes.directions; ++d) made->directions.push_back(products_of(node, cell, sizes, d));
  return made;
}

// Packs weights only if they are constant.
template <Cell cell>
std::unique_ptr<Made> create(const Node& node) {
  for (const Input input : {input_w, input_r, input_b}) {
    if (node.has(input) && !node.is_known(input)) return nullptr;
  }
  return made_of(node, cell);
}

struct Pass {
  Plan input, recurrent, reset;
  std::vector<Activation> activations;  // f, g, h of the operator's description in ONNX
};
struct Planned {
  Sizes sizes;
  std::vector<Pass> passes;
  size_t products, gates, hidden, cell, scratch, inner;  // parts of the workspace
};

Pass pass_of(const Node& node, Cell cell, const Sizes& s, const Products& products, size_t direction, size_t tasks) {
  const size_t rows = gates_of(cell) * s.hidden, first = direction * activations_of(cell);
  Pass pass;
  if (Layout::product(s.steps, s.batch) == 0) return pass;
  pass.input = plan_rows(products.input.get(), s.steps * s.batch, s.depth, tasks);
  pass.recurrent = plan_rows(products.recurrent.get(), s.batch, s.hidden, tasks);
  if (products.reset) pass.reset = plan_rows(products.reset.get(), s.batch, s.hidden, tasks);
  const auto add = [&](size_t width, size_t stride) {
    const FunctionSettings settings = settings_of(node, cell, first + pass.activations.size());
    pass.activations.emplace_back(settings, s.batch, width, stride);
  };
  if (cell == Cell::rnn) {
    add(s.hidden, rows);
  } else if (cell == Cell::gru) {
    add(2 * s.hidden, rows);
    add(s.hidden, rows);
  } else {
    add(node.has(input_peepholes) ? s.hidden : 3 * s.hidden, rows);
    add(s.hidden, rows);
    add(s.hidden, s.hidden);
  }
  return pass;
}

std::unique_ptr<Planned> planned_of(const Node& node, Cell cell, const Made& made, size_t tasks, size_t* workspace) {
  auto planned = std::make_unique<Planned>();
  const Sizes& s = planned->sizes = sizes_of(node, cell);
  size_t inner = 0;
  for (size_t d = 0; d < s.directions; ++d) {
    planned->passes.push_back(pass_of(node, cell, s, made.directions[d], d, tasks));
    const Pass& pass = planned->passes.back();
    for (const Plan* plan : {&pass.input, &pass.recurrent, &pass.reset}) {
      if (*plan) inner = std::max(inner, qn_plan_workspace_size(plan->get()));
    }
  }
  const size_t state = Layout::product(s.batch, s.hidden);
  Layout layout;
  planned->products = layout.floats(Layout::product(gates_of(cell) * s.steps, state));
  planned->gates = layout.floats(Layout::product(gates_of(cell), state));
  planned->hidden = layout.floats(state);
  planned->cell = layout.floats(state);
  planned->scratch = layout.floats(Layout::product(2, state));
  planned->inner = layout.bytes(inner);
  *workspace = layout.size();
  return planned;
}

template <Cell cell>
std::unique_ptr<Planned> plan(const Node& node, const Made* made, size_t tasks, size_t* workspace) {
  return made == nullptr ? nullptr : planned_of(node, cell, *made, tasks, workspace);
}

// ---- runs

// One direction of a run.
class Walk {
 public:
  Walk(const Run& node, Cell cell, const Planned& planned, char* workspace, size_t direction)
      : node_(node),
        cell_(cell),
        s_(planned.sizes),
        pass_(planned.passes[direction]),
        direction_(direction),
        rows_(gates_of(cell) * s_.hidden),
        reverse_(direction == 1 || node.integer("direction", 0) == static_cast<int64_t>(Direction::reverse)),
        products_(reinterpret_cast<float*>(workspace + planned.products)),
        gates_(reinterpret_cast<float*>(workspace + planned.gates)),
        h_(reinterpret_cast<float*>(workspace + planned.hidden)),
        c_(reinterpret_cast<float*>(workspace + planned.cell)),
        scratch_(reinterpret_cast<float*>(workspace + planned.scratch)),
        inner_(workspace + planned.inner) {}

  void run(const std::vector<int64_t>& lengths) {
    load(input_h, h_);
    if (cell_ == Cell::lstm) load(input_c, c_);
    if (s_.steps * s_.batch != 0) {
      run_plan(pass_.input.get(), node_.data<float>(input_x), products_, inner_, node_.parallel());
    }
    for (size_t step = 0; step < s_.steps && s_.batch != 0; ++step) {
      switch (cell_) {
        case Cell::rnn: rnn(step, lengths); break;
        case Cell::gru: gru(step, lengths); break;
        case Cell::lstm: lstm(step, lengths); break;
      }
    }
    store(output_h, h_);
    if (cell_ == Cell::lstm) store(output_c, c_);
  }

 private:
  // Calls visit(sequence, time) for each sequence that has a step `step`.
  template <class Visit>
  void each(size_t step, const std::vector<int64_t>& lengths, Visit&& visit) {
    for (size_t b = 0; b < s_.batch; ++b) {
      const size_t length = lengths.empty() ? s_.steps : static_cast<size_t>(lengths[b]);
      if (step < length) visit(b, reverse_ ? length - 1 - step : step);
    }
  }
  const float* input_products(size_t b, size_t time) const {
    return products_ + (time * s_.by_step + b * s_.by_batch) * rows_;
  }

  void rnn(size_t step, const std::vector<int64_t>& lengths) {
    run_plan(pass_.recurrent.get(), h_, gates_, inner_, node_.parallel());
    each(step, lengths, [&](size_t b, size_t time) { add(gates_ + b * rows_, input_products(b, time), rows_); });
    pass_.activations[0](gates_);
    each(step, lengths, [&](size_t b, size_t time) { finish(b, time, gates_ + b * rows_); });
  }

  void gru(size_t step, const std::vector<int64_t>& lengths) {
    const size_t n = s_.hidden;
    const bool resets_before = pass_.reset != nullptr;
    float* const products = resets_before ? scratch_ : gates_;  // of the hidden state
    const size_t stride = resets_before ? 2 * n : rows_;
    run_plan(pass_.recurrent.get(), h_, products, inner_, node_.parallel());
    each(step, lengths, [&](size_t b, size_t time) {
      const float* const x = input_products(b, time);
      for (size_t i = 0; i < 2 * n; ++i) gates_[b * rows_ + i] = products[b * stride + i] + x[i];
    });
    pass_.activations[0](gates_);
    if (resets_before) reset();
    each(step, lengths, [&](size_t b, size_t time) {
      const float *const r = gates_ + b * rows_ + n, *const x = input_products(b, time) + 2 * n;
      float* const h = gates_ + b * rows_ + 2 * n;
      for (size_t i = 0; i < n; ++i) h[i] = x[i] + (resets_before ? h[i] : r[i] * h[i]);
    });
    pass_.activations[1](gates_ + 2 * n);
    each(step, lengths, [&](size_t b, size_t time) {
      const float *const z = gates_ + b * rows_, *const h = z + 2 * n, *const before = h_ + b * n;
      float* const after = scratch_ + b * n;
      for (size_t i = 0; i < n; ++i) after[i] = (1 - z[i]) * h[i] + z[i] * before[i];
      finish(b, time, after);
    });
  }

  // Multiplies the hidden state, reset by gate r, with the third gate's rows of R.
  void reset() {
    const size_t n = s_.hidden;
    float* const products = scratch_ + s_.batch * n;
    for (size_t b = 0; b < s_.batch; ++b) {
      for (size_t i = 0; i < n; ++i) scratch_[b * n + i] = gates_[b * rows_ + n + i] * h_[b * n + i];
    }
    run_plan(pass_.reset.get(), scratch_, products, inner_, node_.parallel());
    for (size_t b = 0; b < s_.batch; ++b) std::copy_n(products + b * n, n, gates_ + b * rows_ + 2 * n);
  }

  void lstm(size_t step, const std::vector<int64_t>& lengths) {
    const size_t n = s_.hidden;
    float *const i = gates_, *const o = i + n, *const f = o + n, *const c = f + n;
    run_plan(pass_.recurrent.get(), h_, gates_, inner_, node_.parallel());
    each(step, lengths, [&](size_t b, size_t time) { add(gates_ + b * rows_, input_products(b, time), rows_); });
    const bool peeps = node_.has(input_peepholes);
    const float cell_clip = node_.number("cell_clip", 0);  // 0: the cells' states are not limited
    if (peeps) {
      peep(i, 0);
      peep(f, 2);
      pass_.activations[0](i);
      pass_.activations[0](f);
    } else {
      pass_.activations[0](gates_);  // all three
    }
    pass_.activations[1](c);
    if (node_.integer("input_forget", 0) != 0) couple(i, f);
    each(step, lengths, [&](size_t b, size_t) {
      const size_t at = b * rows_;
      float* const state = c_ + b * n;
      for (size_t k = 0; k < n; ++k) state[k] = f[at + k] * state[k] + i[at + k] * c[at + k];
      if (cell_clip > 0) {
        for (size_t k = 0; k < n; ++k) state[k] = std::min(std::max(state[k], -cell_clip), cell_clip);
      }
    });
    if (peeps) {
      peep(o, 1);
      pass_.activations[0](o);
    }
    std::copy_n(c_, s_.batch * n, scratch_);
    pass_.activations[2](scratch_);
    each(step, lengths, [&](size_t b, size_t time) {
      float* const out = scratch_ + b * n;
      for (size_t k = 0; k < n; ++k) out[k] *= o[b * rows_ + k];
      finish(b, time, out);
    });
  }

  // Adds to a gate the cells' states by the weights of its peephole.
  void peep(float* gate, size_t index) {
    const float* const p = node_.data<float>(input_peepholes) + (direction_ * 3 + index) * s_.hidden;
    for (size_t b = 0; b < s_.batch; ++b) {
      for (size_t k = 0; k < s_.hidden; ++k) gate[b * rows_ + k] += p[k] * c_[b * s_.hidden + k];
    }
  }
  void couple(const float* i, float* f) {
    for (size_t b = 0; b < s_.batch; ++b) {
      for (size_t k = 0; k < s_.hidden; ++k) f[b * rows_ + k] = 1 - i[b * rows_ + k];
    }
  }

  static void add(float* to, const float* x, size_t n) {
    for (size_t i = 0; i < n; ++i) to[i] += x[i];
  }

  // Keeps a new hidden state, and writes it.
  void finish(size_t b, size_t time, const float* state) {
    const size_t n = s_.hidden;
    std::copy_n(state, n, h_ + b * n);
    if (!node_.wants(output_y)) return;
    const size_t row = s_.batch_first ? (b * s_.steps + time) * s_.directions + direction_
                                      : (time * s_.directions + direction_) * s_.batch + b;
    std::copy_n(state, n, node_.output<float>(output_y) + row * n);
  }

  // The place of a sequence's state in an input or output.
  size_t state_row(size_t b) const {
    return s_.batch_first ? b * s_.directions + direction_ : direction_ * s_.batch + b;
  }
  void load(size_t input, float* state) {
    const size_t n = s_.hidden;
    if (!node_.has(input)) std::fill_n(state, s_.batch * n, 0.0f);
    for (size_t b = 0; b < s_.batch && node_.has(input); ++b) {
      std::copy_n(node_.data<float>(input) + state_row(b) * n, n, state + b * n);
    }
  }
  void store(size_t output, const float* state) {
    const size_t n = s_.hidden;
    for (size_t b = 0; b < s_.batch && node_.wants(output); ++b) {
      std::copy_n(state + b * n, n, node_.output<float>(output) + state_row(b) * n);
    }
  }

  const Run& node_;
  const Cell cell_;
  const Sizes& s_;
  const Pass& pass_;
  const size_t direction_, rows_;
  const bool reverse_;
  // Of each step and sequence, the products of input and W; of each sequence, the gates, the states, and more.
  float *const products_, *const gates_, *const h_, *const c_, *const scratch_;
  void* const inner_;
};

std::vector<int64_t> lengths_of(const Run& node, const Sizes& sizes) {
  if (!node.has(input_lengths)) return {};
  std::vector<int64_t> lengths = node.values(input_lengths);
  for (const int64_t length : lengths) {
    if (length < 0 || static_cast<uint64_t>(length) > sizes.steps) {
      node.fail("a sequence of length " + std::to_string(length) + " in " + std::to_string(sizes.steps) + " steps");
    }
  }
  return lengths;
}

void run(const Run& node, Cell cell, const Planned& planned, char* workspace) {
  const std::vector<int64_t> lengths = lengths_of(node, planned.sizes);
  if (!lengths.empty() && node.wants(output_y)) {
    std::fill_n(node.output<float>(output_y), count(node.output_shape(output_y)), 0.0f);
  }
  for (size_t d = 0; d < planned.sizes.directions; ++d) Walk(node, cell, planned, workspace, d).run(lengths);
}

template <Cell cell>
void run(const Run& node) {
  if (node.planned() != nullptr) {
    return run(node, cell, *static_cast<const Planned*>(node.planned()), node.workspace<char>());
  }
  // The weights are computed: this run packs them for itself.
  size_t workspace;
  const std::unique_ptr<Made> made = made_of(node, cell);
  const std::unique_ptr<Planned> planned = planned_of(node, cell, *made, 1, &workspace);
  run(node, cell, *planned, static_cast<char*>(Buffer(workspace).data()));
}

template <Cell cell>
constexpr qn_kind recurrent(const char* name, uint32_t inputs, uint32_t outputs) {
  return planned<Made, Planned, create<cell>, plan<cell>>(kind<infer<cell>, run<cell>>(name, {3, inputs}, outputs));
}

constexpr qn_kind kinds[] = {
    recurrent<Cell::rnn>("rnn", 6, 2),
    recurrent<Cell::gru>("gru", 6, 2),
    recurrent<Cell::lstm>("lstm", 8, 3),
};

}  // namespace
}  // namespace recurrent

Kinds recurrent_kinds() { return needed<recurrent::kinds>(); }

}  // namespace quern::extra

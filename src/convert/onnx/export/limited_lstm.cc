// An LSTM as a Scan over its steps.
//
// Rows of the weights belong to the gates i, o, f, c. Values of one direction keep a first dimension of 1.
#include "convert/onnx/export/parts.h"
#include "convert/onnx/export/recurrent.h"

namespace quern::onnx {
namespace {

enum Input : size_t { input_x, input_w, input_r, input_b, input_lengths, input_h, input_c, input_peepholes };
enum Gate : int64_t { gate_i, gate_o, gate_f, gate_c };
constexpr int64_t gates = 4, functions_each = 3;  // of a direction

// What one direction reads, as values of the graph around the Scan. "" stands for what is not there.
struct Direction {
  std::string products;  // of inputs and weights, and the bias: [steps, batch, gates * hidden]
  std::string recurrent, h, c, peepholes;
  int64_t first_function;
  bool reverse;
};
struct Lengths {
  std::string of_batch, steps;  // [batch, 1]; the numbers of the steps
};

class Layer {
 public:
  Layer(GraphWriter& to, const Node& node);

  void write();

 private:
  std::string part(const std::string& value, int64_t direction) const;
  Direction direction_of(int64_t index) const;
  Lengths lengths() const;
  std::string state(Input input, int64_t direction) const;
  std::string applied(const Parts& p, std::string x, int64_t function, bool clips) const;
  std::vector<std::string> scan(const Direction& d, const Lengths& lengths) const;
  void define(size_t output, const std::string& value, const Order& batch_first_order) const;

  const Parts p_;
  int64_t hidden_, directions_;
  bool batch_first_;
  std::string x_;
};

Layer::Layer(GraphWriter& to, const Node& node) : p_{to, node} {
  const Shape& weights = to.tensor(node.inputs[input_r]).shape;
  if (weights.size() != 3) throw Unsupported{"with weights that only a run sizes"};
  hidden_ = static_cast<int64_t>(weights[2]);
  directions_ = integer_of(node, "direction", 0) == 2 ? 2 : 1;
  batch_first_ = integer_of(node, "layout", 0) == 1;
  x_ = to.stored_plain(node.inputs[input_x]);
  if (batch_first_) x_ = transposed(to, node, x_, {1, 0, 2});
}

// What belongs to one direction.
std::string Layer::part(const std::string& value, int64_t direction) const {
  if (directions_ == 1) return value;
  return p_.op("Slice", {value, p_.to.integers({direction}), p_.to.integers({direction + 1}), p_.to.integers({0})});
}

// The state before the first step: zeros unless it is an input.
std::string Layer::state(Input input, int64_t direction) const {
  if (has(p_.node, input)) {
    const std::string value = p_.to.stored_plain(p_.node.inputs[input]);
    return part(batch_first_ ? transposed(p_.to, p_.node, value, {1, 0, 2}) : value, direction);
  }
  const std::string batch = p_.op("Gather", {p_.op("Shape", {x_}), p_.to.integers({1})});
  const std::string shape = p_.op("Concat", {p_.to.integers({1}), batch, p_.to.integers({hidden_})}, "axis", 0);
  return p_.op("Expand", {p_.to.number(0), shape});
}

Direction Layer::direction_of(int64_t index) const {
  const Order columns = {0, 2, 1};
  Direction d;
  d.first_function = index * functions_each;
  d.reverse = index == 1 || integer_of(p_.node, "direction", 0) == 1;
  d.products = p_.op("MatMul", {x_, part(p_.to.stored(p_.node.inputs[input_w], columns), index)});
  d.recurrent = part(p_.to.stored(p_.node.inputs[input_r], columns), index);
  if (has(p_.node, input_b)) {
    const std::string both = part(p_.to.stored_plain(p_.node.inputs[input_b]), index);
    const std::string bias =
        p_.op("Add", {p_.last(both, 0, gates * hidden_), p_.last(both, gates * hidden_, 2 * gates * hidden_)});
    d.products = p_.op("Add", {d.products, bias});
  }
  d.h = state(input_h, index);
  d.c = state(input_c, index);
  if (has(p_.node, input_peepholes)) d.peepholes = part(p_.to.stored_plain(p_.node.inputs[input_peepholes]), index);
  return d;
}

Lengths Layer::lengths() const {
  if (!has(p_.node, input_lengths)) return {};
  const std::string list = p_.to.stored_plain(p_.node.inputs[input_lengths]);
  const std::string steps = p_.op("Gather", {p_.op("Shape", {x_}), p_.to.integer(0)});
  return {p_.reshape(p_.op("Cast", {list}, "to", schema::TensorProto::INT64), {-1, 1}),
          p_.op("Range", {p_.to.integer(0), steps, p_.to.integer(1)})};
}

// Function `index` of the layer; `clips`: the parameter `clip` limits its input.
std::string Layer::applied(const Parts& p, std::string x, int64_t index, bool clips) const {
  const Parameter* const list = find_parameter(p.node, "activations");
  int64_t number = index % functions_each == 0 ? 0 : 1;
  if (list != nullptr && !list->integers.empty()) {
    if (at(index) >= list->integers.size()) throw Unsupported{"activations"};
    number = list->integers[at(index)];
  }
  const GateFunction& function = gate_function(number);
  const auto constant = [&](const char* parameter) {
    const Parameter* const found = find_parameter(p.node, parameter);
    return found == nullptr || at(index) >= found->floats.size() ? 0 : found->floats[at(index)];
  };
  const float alpha = constant("alpha"), beta = constant("beta"), clip = number_of(p.node, "clip", 0);
  if (clips && clip != 0) x = p.op("Clip", {x, p.to.number(-clip), p.to.number(clip)});
  const std::string name = function.name;
  if (name == "Affine") return p.op("Add", {p.op("Mul", {x, p.to.number(alpha)}), p.to.number(beta)});
  if (name == "ScaledTanh") {
    return p.op("Mul", {p.op("Tanh", {p.op("Mul", {x, p.to.number(beta)})}), p.to.number(alpha)});
  }
  schema::NodeProto* made = p.to.add_op(function.name, node_name(p.node, function.name), {x});
  if (function.has_alpha) set_number(made, "alpha", alpha);
  if (function.has_beta) set_number(made, "beta", beta);
  return made->output(0);
}

// The states after the last step, and those of h after each step: [steps, 1, batch, hidden].
std::vector<std::string> Layer::scan(const Direction& d, const Lengths& lengths) const {
  std::vector<Scanned> rows = {{d.products, QN_F32}};
  const bool measured = !lengths.steps.empty();
  if (measured) rows.push_back({lengths.steps, QN_S64});
  ScanWriter scan(p_.to, p_.node, {{d.h, QN_F32}, {d.c, QN_F32}}, rows);
  const Parts p = scan.body();
  const std::string h = scan.input(0), c = scan.input(1);
  const std::string sums = p.op("Add", {scan.input(2), p.op("MatMul", {h, d.recurrent})});
  const auto sum = [&](Gate gate) { return p.last(sums, gate * hidden_, (gate + 1) * hidden_); };
  const auto peeped = [&](Gate gate, const std::string& cells) {
    if (d.peepholes.empty()) return sum(gate);
    return p.op("Add", {sum(gate), p.op("Mul", {p.last(d.peepholes, gate * hidden_, (gate + 1) * hidden_), cells})});
  };
  const auto gate = [&](const std::string& x) { return applied(p, x, d.first_function, true); };
  const std::string i = gate(peeped(gate_i, c));
  const bool coupled = integer_of(p.node, "input_forget", 0) != 0;
  const std::string f = coupled ? p.op("Sub", {p.to.number(1), i}) : gate(peeped(gate_f, c));
  const std::string candidate = applied(p, sum(gate_c), d.first_function + 1, true);
  const float limit = number_of(p.node, "cell_clip", 0);
  std::string cells = p.op("Add", {p.op("Mul", {f, c}), p.op("Mul", {i, candidate})});
  cells = p.op("Clip", {cells, p.to.number(-limit), p.to.number(limit)});
  std::string hidden = p.op("Mul", {gate(peeped(gate_o, cells)), applied(p, cells, d.first_function + 2, false)});
  std::string row = hidden;
  if (measured) {  // a sequence that has ended keeps its states, and gives zeros
    const std::string goes_on = p.op("Less", {scan.input(3), lengths.of_batch});
    row = p.op("Where", {goes_on, hidden, p.to.number(0)});
    hidden = p.op("Where", {goes_on, hidden, h});
    cells = p.op("Where", {goes_on, cells, c});
  }
  std::vector<std::string> outputs = {scan.give(hidden, QN_F32), scan.give(cells, QN_F32), scan.give(row, QN_F32)};
  if (d.reverse) scan.reverse(rows.size(), 1);
  return outputs;
}

void Layer::define(size_t output, const std::string& value, const Order& batch_first_order) const {
  p_.define(batch_first_ ? transposed(p_.to, p_.node, value, batch_first_order) : value, output);
}

void Layer::write() {
  p_.to.need_opset(18);
  const Lengths sequences = lengths();
  std::vector<std::string> h, c, rows;
  for (int64_t i = 0; i < directions_; ++i) {
    const std::vector<std::string> outputs = scan(direction_of(i), sequences);
    h.push_back(outputs[0]);
    c.push_back(outputs[1]);
    rows.push_back(outputs[2]);
  }
  const auto joined = [&](const std::vector<std::string>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : p_.op("Concat", parts, "axis", axis);
  };
  define(0, joined(rows, 1), {2, 0, 1, 3});
  define(1, joined(h, 0), {1, 0, 2});
  define(2, joined(c, 0), {1, 0, 2});
}

}  // namespace

void write_limited_lstm(GraphWriter& to, const Node& node) { Layer(to, node).write(); }

}  // namespace quern::onnx

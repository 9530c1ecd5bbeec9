// Recurrent layers: kinds of libquern-extra.
#include "convert/onnx/export/recurrent.h"

#include <iterator>

#include "convert/onnx/export/rows.h"

namespace quern::onnx {

const GateFunction& gate_function(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(std::size(gate_functions))) throw Unsupported{"activations"};
  return gate_functions[number];
}

std::string transposed(GraphWriter& to, const Node& node, const std::string& value, const Order& perm) {
  if (value.empty()) return value;
  schema::NodeProto* transpose = to.add_op("Transpose", node_name(node, "transpose"), {value});
  set_integers(transpose, "perm", perm);
  return transpose->output(0);
}

namespace {

using Rule = AttributeRule;

// Lists of constants have numbers only for functions that have constants.
void set_constants(const Node& node, const char* parameter, bool GateFunction::*has_one, const char* attribute,
                   const Vector<int64_t>& functions, schema::NodeProto* to) {
  const Parameter* const list = find_parameter(node, parameter);
  schema::AttributeProto* made = nullptr;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (!(gate_functions[functions[i]].*has_one)) continue;
    if (made == nullptr) made = add_attribute(to, attribute, schema::AttributeProto::FLOATS);
    made->add_floats(list == nullptr || i >= list->floats.size() ? 0 : list->floats[i]);
  }
}

void set_activations(const Node& node, schema::NodeProto* to) {
  const Parameter* const functions = find_parameter(node, "activations");
  if (functions == nullptr || functions->integers.empty()) return;
  schema::AttributeProto* names = add_attribute(to, "activations", schema::AttributeProto::STRINGS);
  for (const int64_t function : functions->integers) {
    names->add_strings(gate_function(function).name);
  }
  set_constants(node, "alpha", &GateFunction::has_alpha, "activation_alpha", functions->integers, to);
  set_constants(node, "beta", &GateFunction::has_beta, "activation_beta", functions->integers, to);
}

// ONNX Runtime has no layers whose first dimension is the batch, so steps become the first.
void write_recurrent(GraphWriter& to, const Node& node, const ExportRow& row) {
  constexpr size_t recurrent_weights = 2;
  const Shape& weights = to.tensor(node.inputs[recurrent_weights]).shape;
  const int64_t hidden = integer_of(node, "hidden", weights.size() == 3 ? static_cast<int64_t>(weights[2]) : 0);
  if (hidden <= 0) throw Unsupported{"with weights that only a run sizes"};
  if (number_of(node, "cell_clip", 0) > 0) return write_limited_lstm(to, node);
  const bool batch_first = integer_of(node, "layout", 0) == 1;
  std::vector<std::string> inputs = stored_inputs(to, node);
  for (const size_t i : {0, 5, 6}) {
    if (batch_first && i < inputs.size()) inputs[i] = transposed(to, node, inputs[i], {1, 0, 2});
  }
  schema::NodeProto* layer = write_with(to, node, row, std::move(inputs));
  set_integer(layer, "hidden_size", hidden);
  set_activations(node, layer);
  for (int i = 0; batch_first && i < layer->output_size(); ++i) {
    const int output = node.outputs[static_cast<size_t>(i)];
    const Order perm = i == 0 ? Order{2, 0, 1, 3} : Order{1, 0, 2};
    to.define_stored(output, transposed(to, node, layer->output(i), perm), to.order_as_is(output));
  }
}

// ---- attributes that several rows have

const std::vector<Rule> recurrent_rules = {
    {Rule::word, "direction", "direction", {"forward", "reverse", "bidirectional"}}, {Rule::number, "clip", "clip"}};
std::vector<Rule> recurrent_and(const char* attribute) {
  std::vector<Rule> rules = recurrent_rules;
  rules.push_back({Rule::integer, attribute, attribute});
  return rules;
}
const std::vector<const char*> recurrent_parameters = {"activations", "alpha", "beta", "hidden", "layout"};
const std::vector<const char*> lstm_parameters = {"activations", "alpha", "beta", "cell_clip", "hidden", "layout"};

}  // namespace

const ExportTable& exported_recurrent() {
  static const ExportTable table = {
      {"gru", reads(recurrent_parameters, {write_recurrent, "GRU", 14, recurrent_and("linear_before_reset")})},
      {"lstm", reads(lstm_parameters, {write_recurrent, "LSTM", 14, recurrent_and("input_forget")})},
      {"rnn", reads(recurrent_parameters, {write_recurrent, "RNN", 14, recurrent_rules})},
  };
  return table;
}

}  // namespace quern::onnx

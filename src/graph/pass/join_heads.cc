// Pass join-heads: attention reads and writes heads where they lie side by side in rows, [batch, rows, heads * size],
// without the transposes that bring each head's rows together.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/match.h"
#include "graph/pass/order.h"

namespace quern {
namespace {

bool exchanges_rows_and_heads(const Node* node) { return node != nullptr && order_of(*node) == Order{0, 2, 1, 3}; }

// Whether `rows`, [batch, rows, heads * size], holds the same elements as `heads`, [batch, heads, rows, size], which have
// been split or are going to be joined.
bool are_rows_of(Rewriter& r, int rows, int heads) {
  const Shape &joined = r.shape(rows), &split = r.shape(heads);
  return joined.size() == 3 && joined[0] == split[0] && joined[1] == split[2] && joined[2] == split[1] * split[3];
}

// What is the same for all shapes that the inputs of the graph may get.
struct Fixed {
  bool channels;  // the size of the rows before a reshape
  bool channels_of_result;
};

// Whether a reshape that keeps the batch and the number of rows now, its first two dimensions, does so for all shapes.
// It does if it copies both; or one of them, if no other dimension of it or of its input changes. It may also give both,
// if their product cannot change: a model with such a reshape is made for these alone.
bool keeps_rows(const Node& reshape, const Fixed& fixed) {
  const Vector<int64_t>& values = reshape.attributes.values;
  const auto is_given = [](int64_t value) { return value > 0; };
  if (values[0] == 0 && values[1] == 0) return true;
  if (!fixed.channels) return false;
  const bool gives_rest = std::all_of(values.begin() + 2, values.end(), is_given);
  if (values[0] == 0 || values[1] == 0) return gives_rest;
  return is_given(values[0]) && is_given(values[1]) && (gives_rest || fixed.channels_of_result);
}

// Whether a reshape to heads makes the same number of them for all shapes.
bool has_fixed_heads(const Node& split, bool fixed_channels) {
  const Vector<int64_t>& values = split.attributes.values;
  return values[2] > 0 || (values[2] == -1 && values[3] > 0 && fixed_channels);
}

// The rows that a tensor of heads was made of; no_tensor if there are none.
int rows_of(Rewriter& r, int heads, bool fixed_result) {
  const Node* const transpose = r.writer(heads);
  if (!exchanges_rows_and_heads(transpose)) return no_tensor;
  const Node* const split = r.writer(transpose->inputs[0], OpKind::reshape);
  if (split == nullptr || !are_rows_of(r, split->inputs[0], heads)) return no_tensor;
  const bool fixed = has_fixed_channels(r, split->inputs[0]);
  return keeps_rows(*split, {fixed, fixed_result}) && has_fixed_heads(*split, fixed) ? split->inputs[0] : no_tensor;
}

Node* reader_of(Rewriter& r, const Readers& readers, int tensor) {
  if (!r.read_once(tensor) || readers.of(tensor).size() != 1) return nullptr;
  Node& node = r.node(readers.of(tensor)[0]);
  return r.removed(readers.of(tensor)[0]) ? nullptr : &node;
}

// Whether a tensor is read by layers alone, whose weights are for one number of channels.
bool only_layers_read(Rewriter& r, const Readers& readers, int tensor) {
  const std::span<const size_t> nodes = readers.of(tensor);
  return !nodes.empty() && !r.is_output(tensor) &&
         std::all_of(nodes.begin(), nodes.end(), [&](size_t i) { return kind_of(r.node(i).kind).has_weights(); });
}

bool has_heads(Rewriter& r, const Node& node) {
  if (!is_kind(node, "attention") || node.outputs.size() != 1 || node.inputs.size() > 4) return false;
  for (size_t i = 0; i < 3; ++i) {
    if (r.shape(node.inputs[i]).size() != 4) return false;
  }
  return true;
}

void set_heads(Node& node, const char* name, size_t heads) {
  const Vector<int64_t> value = {static_cast<int64_t>(heads)};
  for (Parameter& parameter : node.parameters) {
    if (parameter.name == name) return void(parameter.integers = value);
  }
  node.parameters.push_back({name, value, {}});
}

}  // namespace

qn_status join_heads(Rewriter& r) {
  const Readers readers(r);
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i) || !has_heads(r, node)) continue;
    const int y = node.outputs[0];
    Node* const transpose = reader_of(r, readers, y);
    if (!exchanges_rows_and_heads(transpose)) continue;
    Node* const join = reader_of(r, readers, transpose->outputs[0]);
    if (join == nullptr || join->kind != OpKind::reshape || !are_rows_of(r, join->outputs[0], y)) continue;
    const bool fixed_result = join->attributes.values[2] > 0 || only_layers_read(r, readers, join->outputs[0]);
    Vector<int> inputs = node.inputs;
    for (size_t k = 0; k < 3; ++k) inputs[k] = rows_of(r, node.inputs[k], fixed_result);
    if (inputs[0] == no_tensor || inputs[1] == no_tensor || inputs[2] == no_tensor) continue;
    if (!keeps_rows(*join, {has_fixed_channels(r, inputs[2]), fixed_result})) continue;
    set_heads(node, "q_heads", r.shape(node.inputs[0])[1]);
    set_heads(node, "kv_heads", r.shape(node.inputs[1])[1]);
    r.set_inputs(node, std::move(inputs));
    const int between = transpose->outputs[0];
    r.take_output(node, y, *transpose);
    r.take_output(node, between, *join);
  }
  return QN_OK;
}

}  // namespace quern

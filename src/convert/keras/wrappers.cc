// Imports Keras' layers around other layers.
#include "convert/common/elements.h"
#include "convert/common/kinds.h"
#include "convert/keras/masks.h"
#include "convert/keras/recurrent.h"

namespace quern::keras {
namespace {

// ---- TimeDistributed: its steps become a batch, and the results steps (network.h)

// Dense computes with the last dimension alone, so its steps may stay.
bool leaves_steps(const KerasNode& node) {
  const Json* layer = node.find("layer");
  return layer != nullptr && layer->is_object() && layer->contains("class_name") && (*layer)["class_name"] == "Dense";
}

// The first two dimensions as one.
Value merged_steps(const KerasNode& node, const Value& x) {
  std::vector<int64_t> shape = {-1};
  for (size_t d = 2; d < rank_of(node, x); ++d) shape.push_back(copy_dimension(d, d - 1));
  return convert::reshape(node.with({&x}, node.name), 0, shape);
}

Values time_distributed(const KerasNode& node) {
  const size_t rank = rank_of(node, node.value(0));
  if (rank < 3) throw Unsupported{"on a tensor of rank " + std::to_string(rank)};
  const bool leaves = leaves_steps(node);
  if (const Value* const mask = node.own_mask(0)) {
    if (rank_of(node, *mask) < 2) throw Unsupported{"a mask of rank " + std::to_string(rank_of(node, *mask))};
    node.set_mask(0, leaves ? *mask : merged_steps(node, *mask));
  }
  return {leaves ? node.value(0) : merged_steps(node, node.value(0))};
}

// The first dimension as two, of which the second are the steps of input 1.
Value with_steps(const KerasNode& node, const Value& x) {
  const Symbols::Number steps = node.dimension(1, 1);
  node.fix(steps.symbol);
  std::vector<int64_t> shape = {-1, steps.value};
  for (size_t d = 1; d < rank_of(node, x); ++d) shape.push_back(copy_dimension(d, d + 1));
  return convert::reshape(node.with({&x}, node.name), 0, shape);
}

// The result has the mask of the input. In Keras 2 it has that of the layer's result, or a bool for each step.
Values back_to_steps(const KerasNode& node) {
  const bool leaves = leaves_steps(node);
  node.ignore_all();
  const Value *const outer = node.own_mask(1), *const inner = node.own_mask(0);
  if (node.is_keras_3 || leaves) {
    if (outer != nullptr) node.set_mask(0, *outer);
  } else if (inner != nullptr) {
    node.set_mask(0, with_steps(node, *inner));
  } else if (outer != nullptr) {
    Value mask = as_bools(node, *outer);
    for (size_t rank = rank_of(node, mask); rank > 2; --rank) mask = any_of_last(node, mask);
    node.set_mask(0, mask);
  }
  return {leaves ? node.value(0) : with_steps(node, node.value(0))};
}

// ---- Bidirectional

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

// Both directions give 0 for steps that are left out, if all steps are asked for.
Outcome run_direction(const KerasNode& node, const Call& call, size_t direction) {
  Operands operands = {{&node.value(0)}, {}};
  const size_t given = node.input_count() - 1, own = given / 2;
  if (given % 2 != 0) node.fail("has an odd number of states");
  for (size_t s = 0; s < own; ++s) operands.inputs.push_back(&node.value(1 + direction * own + s));
  const KerasNode layer(node, call, std::move(operands));
  const bool goes_back = layer.flag("go_backwards", false);
  if (goes_back && (direction == 0 || !node.find("backward_layer"))) {
    throw Unsupported{"of a layer that goes backwards"};
  }
  const bool zeros = layer.flag("return_sequences", false);
  Outcome outcome = run_sequence(layer, {direction == 1, true, zeros, node.call_mask(2)});
  layer.flag("return_state", false);
  node.end_part(layer);
  return outcome;
}

Values bidirectional(const KerasNode& node) {
  Call calls[] = {wrapped(node, "layer", "/forward"),
                  wrapped(node, node.find("backward_layer") ? "backward_layer" : "layer", "/backward")};
  View y[2];
  Values states;
  for (size_t i = 0; i < 2; ++i) {
    if (!is_recurrent(calls[i].type)) throw Unsupported{"of " + calls[i].type};
    calls[i].part = folder_of(node, *calls[i].config, i == 0 ? "forward_" : "backward_");
    Outcome outcome = run_direction(node, calls[i], i);
    y[i] = outcome.y;
    states.insert(states.end(), outcome.states.begin(), outcome.states.end());
  }
  Values results;
  if (node.is_null("merge_mode")) {
    results = {y[0], y[1]};
  } else {
    results = {merged(node, node.text("merge_mode", "concat"), y[0], y[1])};
  }
  const KerasNode last(node, calls[1], {});
  if (last.flag("return_sequences", false) && node.mask(0) != nullptr) {
    for (size_t i = 0; i < results.size(); ++i) node.set_mask(i, *node.mask(0));
  }
  if (last.flag("return_state", false)) results.insert(results.end(), states.begin(), states.end());
  return results;
}

}  // namespace

const KerasRow* find_wrapper(const std::string& type) {
  static const KerasTable kinds = {
      {steps_call, {back_to_steps, 2, 2}},
      {"Bidirectional", {bidirectional, 1, 5}},
      {"TimeDistributed", {time_distributed, 1, 1}},
  };
  return find_in(kinds, type);
}

}  // namespace quern::keras

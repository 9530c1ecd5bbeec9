#include "convert/common/control.h"

#include <optional>

#include "convert/common/kinds.h"

namespace quern::convert {
namespace {

std::vector<qn_type> our_types(const Values& values) {
  std::vector<qn_type> types;
  for (const Value& value : values) types.push_back(operand_type(value.type));
  return types;
}

// A value as a graph has it that the node runs: a copy of what is known, or an input.
Value formal_of(const SourceNode& node, Builder& inner, const Value& value, const std::string& name, bool copies,
                bool sized) {
  Value formal;
  formal.type = value.type;
  if (copies && value.integers != nullptr) {
    for (const Symbol symbol : value.integers->symbols) node.fix(symbol);
    return integer_value({value.integers->shape, value.integers->values, {}}, value.type);
  }
  if (copies && node.builder.is_constant(value.view)) {
    formal.view = inner.copy_constant(node.builder, value.view);
    return formal;
  }
  const qn_type type = operand_type(value.type);
  const bool known = value.integers != nullptr || node.builder.is_sized(value.view);
  if (!sized || !known) {
    formal.view = inner.unsized_input(name, type);
    return formal;
  }
  formal.view = inner.input(name, shape_at_import(node, value), type, {});
  for (size_t d = 0; value.integers == nullptr && d < formal.view.rank(); ++d) {
    if (node.builder.is_open(node.builder.symbol(value.view, d))) inner.leave_open(formal.view, d, "");
  }
  return formal;
}

// Makes values the outputs of a graph that the node runs.
void put_outputs(Builder& inner, const Values& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    const View view = value.view ? value.view : integer_constant(inner, *value.integers, value.type);
    if (inner.type(view) != operand_type(value.type)) throw Unsupported{"a quantized output of a graph"};
    inner.output(view, "output " + std::to_string(i), inner.type(view));
  }
}

Values outputs_of(const std::vector<View>& views, const Values& like) {
  Values outputs;
  for (size_t i = 0; i < views.size(); ++i) {
    outputs.emplace_back(views[i]);
    outputs.back().type = like[i].type;
  }
  return outputs;
}

bool is_known(const SourceNode& node, const Value& value) {
  return value.integers != nullptr || node.builder.is_constant(value.view);
}

View operand(const SourceNode& node, const Value& value, size_t index) {
  return node.operand(value, node.name + "/operand" + std::to_string(index));
}

// What a loop carries. Values that are known, and that the body passes on, are constants in the body.
struct Carried {
  Values all;
  std::vector<bool> constant;
};

bool same_shapes(const Builder& inner, const Value& formal, const Value& next) {
  if (!formal.view || !inner.is_sized(formal.view)) return true;
  if (next.integers != nullptr) return next.integers->shape == inner.shape(formal.view);
  return inner.is_sized(next.view) && inner.shape(next.view) == inner.shape(formal.view);
}

// Makes the graph of one run: the body, then the condition of the next run. Returns nothing if `sized` and shapes change.
std::optional<Graph> graph_of_run(const SourceNode& node, const Carried& carried, const Body& condition,
                                  const Body& body, bool sized) {
  Builder inner("part");
  inner.share_budget(node.builder);
  inner.allow_empty();  // as tensors of unknown shape may be
  inner.input("run", {}, QN_S64, {});
  inner.input("goes_on", {}, QN_BOOL, {});
  Values formals;
  for (const Value& value : carried.all) {
    const size_t i = formals.size();
    formals.push_back(formal_of(node, inner, value, "input " + std::to_string(i), carried.constant[i], sized));
  }
  Values next = body(inner, formals);
  if (next.size() != formals.size()) node.fail("the body has another number of outputs");
  for (size_t i = 0; i < next.size(); ++i) {
    if (next[i].type != formals[i].type) throw Unsupported{"a value that changes its type"};
    if (sized && !same_shapes(inner, formals[i], next[i])) return std::nullopt;
  }
  Values outputs = condition(inner, next);
  if (outputs.size() != 1 || outputs[0].type != ElementType::boolean) node.fail("the condition is not one bool");
  for (size_t i = 0; i < next.size(); ++i) {
    if (!carried.constant[i]) outputs.push_back(next[i]);
  }
  put_outputs(inner, outputs);
  return inner.finish();
}

}  // namespace

Values branch(const SourceNode& node, const Value& condition, const Values& inputs, const Body& yes, const Body& no) {
  if (condition.integers != nullptr) {
    if (condition.integers->values.size() != 1) node.fail("the condition is not one value");
    for (const Symbol symbol : condition.integers->symbols) node.fix(symbol);
    return (condition.integers->values[0] != 0 ? yes : no)(node.builder, inputs);
  }
  std::vector<View> operands = {operand(node, condition, 0)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_known(node, inputs[i])) operands.push_back(operand(node, inputs[i], 1 + i));
  }
  std::vector<Graph> graphs;
  Values outputs;
  for (const Body* body : {&yes, &no}) {
    Builder inner("part");
    inner.share_budget(node.builder);
    inner.allow_empty();  // as tensors of unknown shape may be
    Values formals;
    for (const Value& value : inputs) {
      formals.push_back(formal_of(node, inner, value, "input " + std::to_string(formals.size()), true, true));
    }
    const Values found = (*body)(inner, formals);
    put_outputs(inner, found);
    graphs.push_back(inner.finish());
    if (!outputs.empty() && our_types(outputs) != our_types(found)) throw Unsupported{"graphs that differ in type"};
    outputs = found;
  }
  const std::vector<qn_type> types = our_types(outputs);
  return outputs_of(node.builder.control(OpKind::branch, node.name, operands, std::move(graphs), 0, types), outputs);
}

Values while_loop(const SourceNode& node, const Values& inputs, const std::vector<bool>& passed, const Body& condition,
                  const Body& body) {
  Carried carried;
  for (size_t i = 0; i < inputs.size(); ++i) {
    carried.all.push_back(inputs[i]);
    carried.constant.push_back(i < passed.size() && passed[i] && is_known(node, inputs[i]));
  }
  const Values goes_on = condition(node.builder, carried.all);
  if (goes_on.size() != 1) node.fail("the condition is not one bool");
  std::optional<Graph> run = graph_of_run(node, carried, condition, body, true);
  if (!run) run = graph_of_run(node, carried, condition, body, false);
  const Value& first = goes_on[0];
  std::vector<View> operands = {{},
                                first.view ? first.view : integer_constant(node.builder, *first.integers, first.type)};
  Values changing;
  for (size_t i = 0; i < carried.all.size(); ++i) {
    if (carried.constant[i]) continue;
    operands.push_back(operand(node, carried.all[i], i));
    changing.push_back(carried.all[i]);
  }
  std::vector<Graph> graphs;
  graphs.push_back(std::move(*run));
  const std::vector<View> results =
      node.builder.control(OpKind::loop, node.name, operands, std::move(graphs), changing.size(), our_types(changing));
  Values outputs = carried.all;
  for (size_t i = 0, k = 0; i < outputs.size(); ++i) {
    if (carried.constant[i]) continue;
    const ElementType type = outputs[i].type;
    outputs[i] = Value(results[k++]);
    outputs[i].type = type;
  }
  return outputs;
}

}  // namespace quern::convert

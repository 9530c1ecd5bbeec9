// IF and WHILE: operators that run other graphs of the model.
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

std::vector<qn_type> our_types(const Values& values) {
  std::vector<qn_type> types;
  for (const Value& value : values) types.push_back(operand_type(value.type));
  return types;
}

// A value as a graph has it that the node runs: a copy of what is known, or an input.
Value formal_of(const TfliteNode& node, Builder& inner, const Value& value, const std::string& name, bool copies,
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

bool is_known(const TfliteNode& node, size_t input) {
  return node.value(input).integers != nullptr || node.builder.is_constant(node.value(input).view);
}

Values if_then_else(const TfliteNode& node) {
  const auto& o = node.options<schema::IfOptions>();
  Values inputs;
  for (size_t i = 1; i < node.input_count(); ++i) inputs.push_back(node.value(i));
  if (node.is_integer(0)) {  // the condition is known
    const bool condition = only_integer_of(node, 0) != 0;
    return node.call(node.builder, condition ? o.then_graph() : o.else_graph(), inputs);
  }
  std::vector<View> operands = {node.operand(0)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_known(node, 1 + i)) operands.push_back(node.operand(1 + i));
  }
  std::vector<Graph> graphs;
  Values outputs;
  for (const int32_t graph : {o.then_graph(), o.else_graph()}) {
    Builder inner("tflite");
    inner.share_budget(node.builder);
    Values formals;
    for (const Value& value : inputs) {
      formals.push_back(formal_of(node, inner, value, "input " + std::to_string(formals.size()), true, true));
    }
    const Values found = node.call(inner, graph, formals);
    put_outputs(inner, found);
    graphs.push_back(inner.finish());
    if (!outputs.empty() && our_types(outputs) != our_types(found)) throw Unsupported{"graphs that differ in type"};
    outputs = found;
  }
  const std::vector<qn_type> types = our_types(outputs);
  return outputs_of(node.builder.control(OpKind::branch, node.name, operands, std::move(graphs), 0, types), outputs);
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
std::optional<Graph> graph_of_run(const TfliteNode& node, const Carried& carried, bool sized) {
  const auto& o = node.options<schema::WhileOptions>();
  Builder inner("tflite");
  inner.share_budget(node.builder);
  inner.input("run", {}, QN_S64, {});
  inner.input("goes_on", {}, QN_BOOL, {});
  Values formals;
  for (const Value& value : carried.all) {
    const size_t i = formals.size();
    formals.push_back(formal_of(node, inner, value, "input " + std::to_string(i), carried.constant[i], sized));
  }
  Values next = node.call(inner, o.body_graph(), formals);
  if (next.size() != formals.size()) node.fail("the body has another number of outputs");
  for (size_t i = 0; i < next.size(); ++i) {
    if (next[i].type != formals[i].type) throw Unsupported{"a value that changes its type"};
    if (sized && !same_shapes(inner, formals[i], next[i])) return std::nullopt;
  }
  Values outputs = node.call(inner, o.condition_graph(), next);
  if (outputs.size() != 1 || outputs[0].type != ElementType::boolean) node.fail("the condition is not one bool");
  for (size_t i = 0; i < next.size(); ++i) {
    if (!carried.constant[i]) outputs.push_back(next[i]);
  }
  put_outputs(inner, outputs);
  return inner.finish();
}

Values while_loop(const TfliteNode& node) {
  const auto& o = node.options<schema::WhileOptions>();
  Carried carried;
  const std::vector<bool> passed = node.passed_on(o.body_graph());
  for (size_t i = 0; i < node.input_count(); ++i) {
    carried.all.push_back(node.value(i));
    carried.constant.push_back(i < passed.size() && passed[i] && is_known(node, i));
  }
  const Values condition = node.call(node.builder, o.condition_graph(), carried.all);
  if (condition.size() != 1) node.fail("the condition is not one bool");
  std::optional<Graph> body = graph_of_run(node, carried, true);
  if (!body) body = graph_of_run(node, carried, false);
  const Value& first = condition[0];
  std::vector<View> operands = {{},
                                first.view ? first.view : integer_constant(node.builder, *first.integers, first.type)};
  Values changing;
  for (size_t i = 0; i < carried.all.size(); ++i) {
    if (carried.constant[i]) continue;
    operands.push_back(node.operand(i));
    changing.push_back(carried.all[i]);
  }
  std::vector<Graph> graphs;
  graphs.push_back(std::move(*body));
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

}  // namespace

const TfliteTable& general_control() {
  static const TfliteTable table = {
      {"IF", {if_then_else, 1, many_inputs}},
      {"WHILE", {while_loop, 1, many_inputs}},
  };
  return table;
}

}  // namespace quern::tflite

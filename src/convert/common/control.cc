#include "convert/common/control.h"

#include <algorithm>
#include <optional>

#include "convert/common/kinds.h"

namespace quern::convert {
namespace {

std::vector<qn_type> our_types(const Values& values) {
  std::vector<qn_type> types;
  for (const Value& value : values) types.push_back(operand_type(value.type));
  return types;
}

// What is not supported in several graphs of a node, in one message.
class Reasons {
 public:
  template <class Import>
  void collect(Import&& import) {
    try {
      import();
    } catch (const Unsupported& unsupported) {
      if (std::find(reasons_.begin(), reasons_.end(), unsupported.reason) == reasons_.end()) {
        reasons_.push_back(unsupported.reason);
      }
    }
  }
  void throw_if_any() const {
    if (reasons_.empty()) return;
    std::string all = reasons_[0];
    for (size_t i = 1; i < reasons_.size(); ++i) all += "; " + reasons_[i];
    throw Unsupported{all};
  }

 private:
  std::vector<std::string> reasons_;
};

// What a graph that the node runs knows of the shape of an input: all, what it is expected to be, or nothing.
enum class Knows { size, expected, nothing };

// A value as a graph has it that the node runs: a copy of what is known, or an input.
Value formal_of(const SourceNode& node, Builder& inner, const Value& value, const std::string& name, bool copies,
                Knows knows) {
  Value formal;
  formal.type = value.type;
  formal.list = value.list;
  if (copies && value.integers != nullptr) {
    for (const Symbol symbol : value.integers->symbols) node.fix(symbol);
    formal.integers = integer_value({value.integers->shape, value.integers->values, {}}).integers;
    return formal;
  }
  if (copies && node.builder.is_constant(value.view)) {
    formal.view = inner.copy_constant(node.builder, value.view);
    return formal;
  }
  const qn_type type = operand_type(value.type);
  const bool known = value.integers != nullptr || node.builder.is_sized(value.view);
  if (knows != Knows::size || !known) {
    formal.view = inner.unsized_input(name, type);
    const bool expects = knows != Knows::nothing;
    const std::optional<Shape> expected = expects ? expected_shape(node.builder, value) : std::nullopt;
    if (expected) inner.expect_shape(formal.view, *expected);
    return formal;
  }
  formal.view = inner.input(name, shape_at_import(node, value), type, {});
  for (size_t d = 0; value.integers == nullptr && d < formal.view.rank(); ++d) {
    if (node.builder.is_open(node.builder.symbol(value.view, d))) inner.leave_open(formal.view, d, "");
  }
  return formal;
}

void refuse_unshaped(const Values& values) {
  for (const Value& value : values) {
    if (value.is_complex) throw Unsupported{"complex numbers"};
    if (value.is_unshaped()) throw Unsupported{"a list of tensors whose shape is not known"};
  }
}

// Makes values the outputs of a graph that the node runs.
void put_outputs(Builder& inner, const Values& values) {
  refuse_unshaped(values);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    const std::string name = "output " + std::to_string(i);
    const View view = value.view ? value.view : integers_in_run(inner, name, *value.integers, value.type);
    if (inner.type(view) != operand_type(value.type)) throw Unsupported{"a quantized output of a graph"};
    inner.output(view, name, inner.type(view));
  }
}

Values outputs_of(const std::vector<View>& views, const Values& like) {
  Values outputs;
  for (size_t i = 0; i < views.size(); ++i) {
    outputs.emplace_back(views[i]);
    outputs.back().type = like[i].type;
    outputs.back().list = like[i].list;
  }
  return outputs;
}

bool is_known(const SourceNode& node, const Value& value) {
  return value.integers != nullptr || node.builder.is_constant(value.view);
}

View operand(const SourceNode& node, const Value& value, size_t index) {
  const std::string name = node.name + "/operand" + std::to_string(index);
  return value.view ? node.operand(value, name) : integers_in_run(node.builder, name, *value.integers, value.type);
}

// Sizes of the source that are open are known at import as examples only, so graphs get them as tensors.
Values without_open_sizes(const SourceNode& node, const Values& inputs) {
  Values values = inputs;
  for (size_t i = 0; i < values.size(); ++i) {
    Value& value = values[i];
    if (value.integers == nullptr) continue;
    const std::vector<Symbol>& symbols = value.integers->symbols;
    const auto is_open = [&](Symbol symbol) { return symbol != no_symbol && node.builder.is_open(symbol); };
    if (std::none_of(symbols.begin(), symbols.end(), is_open)) continue;
    value.view = operand(node, value, 1 + i);
    value.integers = nullptr;
  }
  return values;
}

// What a loop carries. Values that are known, and that the body passes on, are constants in the body.
struct Carried {
  Values all;
  std::vector<bool> constant;
  std::vector<Knows> knows;  // what the body knows of their shapes
};

// What a body may know of a shape if it makes `next` of `formal`.
Knows kept(const Builder& inner, const Value& formal, const Value& next, Knows knows) {
  const std::optional<Shape> expected = formal.view ? inner.expected_shape(formal.view) : std::nullopt;
  if (!expected || knows == Knows::nothing) return knows;
  if (expected_shape(inner, next) != expected) return Knows::nothing;
  const bool sized = next.integers != nullptr || inner.is_sized(next.view) || !inner.is_sized(formal.view);
  return sized ? knows : Knows::expected;
}

// Makes the graph of one run: the body, then the condition of the next run. Returns nothing if the body does not keep
// the shapes that it knows; then it will know less.
std::optional<Graph> graph_of_run(const SourceNode& node, Carried& carried, const Body& condition, const Body& body) {
  Builder inner("part");
  inner.share_budget(node.builder);
  inner.allow_empty();  // as tensors of unknown shape may be
  inner.input("run", {}, QN_S64, {});
  inner.input("goes_on", {}, QN_BOOL, {});
  Values formals;
  for (const Value& value : carried.all) {
    const size_t i = formals.size();
    formals.push_back(
        formal_of(node, inner, value, "input " + std::to_string(i), carried.constant[i], carried.knows[i]));
  }
  Values next = body(inner, formals);
  if (next.size() != formals.size()) node.fail("the body has another number of outputs");
  const std::vector<Knows> before = carried.knows;
  for (size_t i = 0; i < next.size(); ++i) {
    const bool changes = next[i].type != formals[i].type || (next[i].list == nullptr) != (formals[i].list == nullptr);
    if (changes) throw Unsupported{"a value that changes its type"};
    if (next[i].is_unshaped()) throw Unsupported{"a list of tensors whose shape is not known"};
    carried.knows[i] = kept(inner, formals[i], next[i], carried.knows[i]);
  }
  if (carried.knows != before) return std::nullopt;
  Values outputs = condition(inner, next);
  if (outputs.size() != 1 || outputs[0].type != ElementType::boolean) node.fail("the condition is not one bool");
  for (size_t i = 0; i < next.size(); ++i) {
    if (!carried.constant[i]) outputs.push_back(next[i]);
  }
  put_outputs(inner, outputs);
  return inner.finish();
}

struct Branch {
  Values outputs;  // in the graph of the branch
  std::vector<std::optional<Shape>> shapes;
};

// Makes the graph of a branch.
Branch graph_of_branch(const SourceNode& node, const Values& inputs, const Body& body, std::vector<Graph>* graphs) {
  Builder inner("part");
  inner.share_budget(node.builder);
  inner.allow_empty();  // as tensors of unknown shape may be
  Values formals;
  for (const Value& value : inputs) {
    formals.push_back(formal_of(node, inner, value, "input " + std::to_string(formals.size()), true, Knows::size));
  }
  Branch branch{body(inner, formals), {}};
  put_outputs(inner, branch.outputs);
  for (const Value& output : branch.outputs) branch.shapes.push_back(expected_shape(inner, output));
  graphs->push_back(inner.finish());
  return branch;
}

}  // namespace

Values branch(const SourceNode& node, const Value& condition, const Values& given, const Body& yes, const Body& no) {
  if (condition.integers != nullptr) {
    if (condition.integers->values.size() != 1) node.fail("the condition is not one value");
    for (const Symbol symbol : condition.integers->symbols) node.fix(symbol);
    return (condition.integers->values[0] != 0 ? yes : no)(node.builder, given);
  }
  refuse_unshaped(given);
  const bool is_sized = node.builder.is_sized(condition.view);
  if (is_sized && node.builder.elements(condition.view) != 1) node.fail("the condition is not one value");
  const Values inputs = without_open_sizes(node, given);
  std::vector<View> operands = {operand(node, condition, 0)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_known(node, inputs[i])) operands.push_back(operand(node, inputs[i], 1 + i));
  }
  std::vector<Graph> graphs;
  Branch one, other;
  Reasons reasons;
  reasons.collect([&] { one = graph_of_branch(node, inputs, yes, &graphs); });
  reasons.collect([&] { other = graph_of_branch(node, inputs, no, &graphs); });
  reasons.throw_if_any();
  const std::vector<qn_type> types = our_types(one.outputs);
  if (types != our_types(other.outputs)) throw Unsupported{"graphs that differ in type"};
  const std::vector<View> results =
      node.builder.control(OpKind::branch, node.name, operands, std::move(graphs), 0, types);
  for (size_t i = 0; i < results.size(); ++i) {
    if (one.shapes[i] && one.shapes[i] == other.shapes[i]) node.builder.expect_shape(results[i], *one.shapes[i]);
  }
  return outputs_of(results, one.outputs);
}

Values while_loop(const SourceNode& node, const Values& given, const std::vector<bool>& passed, const Body& condition,
                  const Body& body) {
  refuse_unshaped(given);
  const Values inputs = without_open_sizes(node, given);
  Carried carried;
  for (size_t i = 0; i < inputs.size(); ++i) {
    carried.all.push_back(inputs[i]);
    carried.constant.push_back(i < passed.size() && passed[i] && is_known(node, inputs[i]));
    carried.knows.push_back(Knows::size);
  }
  Values goes_on;
  std::optional<Graph> run;
  Reasons reasons;
  reasons.collect([&] { goes_on = condition(node.builder, carried.all); });
  reasons.collect([&] { run = graph_of_run(node, carried, condition, body); });
  reasons.throw_if_any();
  if (!run) run = graph_of_run(node, carried, condition, body);
  if (!run) {  // what a value loses may take more from others: no third look
    carried.knows.assign(carried.all.size(), Knows::nothing);
    run = graph_of_run(node, carried, condition, body);
  }
  if (goes_on.size() != 1) node.fail("the condition is not one bool");
  std::vector<View> operands = {{}, operand(node, goes_on[0], inputs.size())};
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
    const std::optional<Shape> shape = expected_shape(node.builder, outputs[i]);
    outputs[i].view = results[k++];
    if (carried.knows[i] != Knows::nothing && shape) node.builder.expect_shape(outputs[i].view, *shape);
    outputs[i].integers = nullptr;
    outputs[i].quantized.clear();
  }
  return outputs;
}

}  // namespace quern::convert

#include "convert/onnx/export/rows.h"

#include <algorithm>

namespace quern::onnx {

namespace {

// Kinds of libquern-extra are written for operator sets from this one on: before, lists such as axes were attributes.
constexpr int64_t lists_are_inputs = 18;

const char* word_of(const Node& node, const AttributeRule& rule) {
  const int64_t index = rule.parameter == nullptr ? 0 : integer_of(node, rule.parameter, 0);
  if (index < 0 || static_cast<size_t>(index) >= rule.words.size()) throw Unsupported{rule.parameter};
  return rule.words[static_cast<size_t>(index)];
}

void set_attribute(const GraphWriter& from, const Node& node, const AttributeRule& rule, schema::NodeProto* to) {
  if (rule.form == AttributeRule::type) {
    return set_integer(to, rule.attribute, data_type(from.tensor(node.outputs[0]).type));
  }
  if (rule.form == AttributeRule::word) return set_text(to, rule.attribute, word_of(node, rule));
  const Parameter* const found = find_parameter(node, rule.parameter);
  if (found == nullptr) return;
  if (rule.form == AttributeRule::integers && !found->integers.empty()) {
    set_integers(to, rule.attribute, found->integers);
  }
  if (rule.form == AttributeRule::integer && !found->integers.empty()) {
    set_integer(to, rule.attribute, found->integers[0]);
  }
  if (rule.form == AttributeRule::number && !found->floats.empty()) set_number(to, rule.attribute, found->floats[0]);
}

// Adds the operator without the inputs behind the last one that it has, and without outputs that nobody reads.
schema::NodeProto* add_operator(GraphWriter& to, const Node& node, const ExportRow& row,
                                std::vector<std::string> inputs) {
  to.need_opset(std::max(row.opset, lists_are_inputs));
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  schema::NodeProto* op = to.add_op(row.op, node_name(node), inputs);
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    op->add_output(i < row.outputs || to.is_read(node.outputs[i]) ? to.model.new_name() : "");
  }
  while (op->output(op->output_size() - 1).empty()) op->mutable_output()->RemoveLast();
  set_attributes(to, node, row, op);
  return op;
}

bool is_named(const ExportRow& row, const String& parameter) {
  return std::any_of(row.parameters.begin(), row.parameters.end(), [&](auto name) { return parameter == name; }) ||
         std::any_of(row.attributes.begin(), row.attributes.end(), [&](const AttributeRule& rule) {
           return rule.parameter != nullptr && parameter == rule.parameter;
         });
}

}  // namespace

void expect_written(const Node& node, const ExportRow& row) {
  std::string unknown;
  for (const Parameter& parameter : node.parameters) {
    if (!is_named(row, parameter.name)) unknown += (unknown.empty() ? "" : ", ") + std::string(parameter.name.c_str());
  }
  if (!unknown.empty()) throw Unsupported{"with the parameter " + unknown};
}

void set_attributes(const GraphWriter& from, const Node& node, const ExportRow& row, schema::NodeProto* to) {
  for (const AttributeRule& rule : row.attributes) set_attribute(from, node, rule, to);
}

schema::NodeProto* write_with(GraphWriter& to, const Node& node, const ExportRow& row,
                              std::vector<std::string> inputs) {
  schema::NodeProto* op = add_operator(to, node, row, std::move(inputs));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const int output = node.outputs[i];
    if (static_cast<int>(i) < op->output_size()) {
      to.define_stored(output, op->output(static_cast<int>(i)), to.order_as_is(output));
    }
  }
  return op;
}

std::vector<std::string> stored_inputs(GraphWriter& to, const Node& node) {
  std::vector<std::string> inputs;
  for (const int input : node.inputs) inputs.push_back(input == no_tensor ? "" : to.stored_plain(input));
  return inputs;
}

void write_operator(GraphWriter& to, const Node& node, const ExportRow& row) {
  write_with(to, node, row, stored_inputs(to, node));
}

void write_elementwise(GraphWriter& to, const Node& node, const ExportRow& row) {
  const size_t rank = to.tensor(node.outputs[0]).shape.size();
  for (const int input : node.inputs) {
    const bool same = input != no_tensor && to.tensor(input).shape.size() == rank && !to.tensor(input).sized_by_run;
    if (!same) return write_operator(to, node, row);
  }
  const Order order = to.following(node);
  std::vector<std::string> inputs;
  for (const int input : node.inputs) inputs.push_back(to.stored(input, order));
  to.define_stored(node.outputs[0], add_operator(to, node, row, std::move(inputs))->output(0), order);
}

}  // namespace quern::onnx

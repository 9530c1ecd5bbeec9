#include "convert/onnx/sequences.h"

#include <algorithm>
#include <map>

#include "convert/common/kinds.h"

namespace quern::onnx {
namespace {

constexpr int64_t most_parts = 1024;

const Values& expect_sequence(const OnnxNode& node, const Values* sequence) {
  if (sequence == nullptr) node.fail("expected a sequence as input 0");
  node.builder.charge(sequence->size() * sizeof(Value));
  return *sequence;
}

// The number that an input holds, from 0 up to below `end`. Numbers below 0 count from `length`.
size_t position_in(const OnnxNode& node, size_t input, size_t length, size_t end) {
  node.expect_closed(input);
  const std::vector<int64_t>& list = node.integers(input).values;
  if (list.size() != 1) node.fail("the position is not one number");
  const int64_t at = list[0] < 0 ? list[0] + static_cast<int64_t>(length) : list[0];
  if (at < 0 || static_cast<uint64_t>(at) >= end) node.fail("the position is outside of the sequence");
  return static_cast<size_t>(at);
}

// Imports a node in the place of this one. Whatever the model's operator set is, the node is one of set 13, the first in
// which axes and sizes are inputs.
Values import_as(const OnnxNode& node, const schema::NodeProto& proto, const Values& inputs) {
  std::vector<const Value*> pointers;
  for (const Value& input : inputs) pointers.push_back(&input);
  const OnnxNode part(node.builder, proto, proto.name(), 13, node.folder, pointers);
  try {
    return find_shape(proto.op_type())->import(part);
  } catch (const Unsupported&) {
    return find_general(proto.op_type())->import(part);
  }
}

schema::NodeProto operator_of(const std::string& type, const std::string& name, int64_t axis) {
  schema::NodeProto proto;
  proto.set_op_type(type);
  proto.set_name(name);
  schema::AttributeProto* const attribute = proto.add_attribute();
  attribute->set_name("axis");
  attribute->set_type(schema::AttributeProto::INT);
  attribute->set_i(axis);
  return proto;
}

// ---- sequences of parts -----------------------------------------------------------------------

// The sizes of the parts: those that the node lists, or as many of one size as there are, the last one what is left.
Value part_sizes(const OnnxNode& node, size_t axis) {
  if (node.has(1) && node.symbolic(1).shape.size() == 1) return node.value(1);
  const Symbols::Number size = node.dimension(0, axis);
  if (node.builder.is_open(size.symbol)) throw Unsupported{"into as many parts as an open size says"};
  node.fix(size.symbol);
  if (node.has(1)) node.expect_closed(1);
  const std::vector<int64_t> one = node.has(1) ? node.integers(1).values : std::vector<int64_t>{1};
  if (one.size() != 1 || one[0] < 1) node.fail("the size of a part is not one positive number");
  const int64_t each = one[0];
  if (size.value / each >= most_parts) throw Unsupported{"into more than 1024 parts"};
  std::vector<int64_t> sizes;
  for (int64_t left = size.value; left > 0; left -= each) sizes.push_back(std::min(left, each));
  return integer_list(sizes);
}

Values split(const OnnxNode& node, const Values* /*sequence*/) {
  const size_t axis = node.axis(node.integer("axis", 0), node.dims(0).size());
  const bool squeezes = node.integer("keepdims", 1) == 0 && !node.has(1);
  const Value sizes = part_sizes(node, axis);
  const size_t count = sizes.integers->values.size();
  if (count > most_parts) throw Unsupported{"into more than 1024 parts"};
  schema::NodeProto proto = operator_of("Split", node.name, static_cast<int64_t>(axis));
  for (size_t i = 0; i < count; ++i) proto.add_output(node.name + "/" + std::to_string(i));
  Values parts = count == 0 ? Values() : import_as(node, proto, {node.value(0), sizes});
  for (size_t i = 0; squeezes && i < parts.size(); ++i) {
    schema::NodeProto squeeze;
    squeeze.set_op_type("Squeeze");
    squeeze.set_name(node.name + "/squeezed" + std::to_string(i));
    parts[i] = import_as(node, squeeze, {parts[i], integer_list({static_cast<int64_t>(axis)})}).at(0);
  }
  return parts;
}

Values construct(const OnnxNode& node, const Values* /*sequence*/) {
  Values values;
  for (size_t i = 0; i < node.input_count(); ++i) values.push_back(node.value(i));
  return values;
}

Values empty(const OnnxNode& node, const Values* /*sequence*/) {
  node.ignore("dtype");
  return {};
}

Values insert(const OnnxNode& node, const Values* sequence) {
  Values values = expect_sequence(node, sequence);
  const size_t at = node.has(2) ? position_in(node, 2, values.size(), values.size() + 1) : values.size();
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), node.value(1));
  return values;
}

Values erase(const OnnxNode& node, const Values* sequence) {
  Values values = expect_sequence(node, sequence);
  if (values.empty()) node.fail("the sequence is empty");
  const size_t at = node.has(1) ? position_in(node, 1, values.size(), values.size()) : values.size() - 1;
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
  return values;
}

// ---- tensors of sequences ---------------------------------------------------------------------

Values element(const OnnxNode& node, const Values* sequence) {
  const Values& values = expect_sequence(node, sequence);
  return {values[position_in(node, 1, values.size(), values.size())]};
}

Values length(const OnnxNode& node, const Values* sequence) {
  return {integer_number(static_cast<int64_t>(expect_sequence(node, sequence).size()))};
}

Values concat(const OnnxNode& node, const Values* sequence) {
  Values values = expect_sequence(node, sequence);
  if (values.empty()) node.fail("the sequence is empty");
  if (!node.has_attribute("axis")) node.fail("axis is missing");
  int64_t axis = node.integer("axis", 0);
  if (node.integer("new_axis", 0) != 0) {
    axis = static_cast<int64_t>(node.axis(axis, rank_of(node, values[0]) + 1));
    for (size_t i = 0; i < values.size(); ++i) {
      schema::NodeProto proto;
      proto.set_op_type("Unsqueeze");
      proto.set_name(node.name + "/" + std::to_string(i));
      values[i] = import_as(node, proto, {values[i], integer_list({axis})}).at(0);
    }
  }
  return import_as(node, operator_of("Concat", node.name, axis), values);
}

struct Row {
  Values (*import)(const OnnxNode& node, const Values* sequence);
  bool makes_sequence;
  size_t min_inputs, max_inputs;
};

const std::map<std::string, Row>& rows() {
  static const std::map<std::string, Row> table = {
      {"ConcatFromSequence", {concat, false, 1, 1}},
      {"SequenceAt", {element, false, 2, 2}},
      {"SequenceConstruct", {construct, true, 1, many_inputs}},
      {"SequenceEmpty", {empty, true, 0, 0}},
      {"SequenceErase", {erase, true, 1, 2}},
      {"SequenceInsert", {insert, true, 2, 3}},
      {"SequenceLength", {length, false, 1, 1}},
      {"SplitToSequence", {split, true, 1, 2}},
  };
  return table;
}

}  // namespace

bool is_about_sequences(const std::string& op_type) { return rows().count(op_type) != 0; }

SequenceResult import_sequence(const OnnxNode& node, const Values* sequence) {
  const Row& row = rows().at(node.proto.op_type());
  node.expect_inputs(row.min_inputs, row.max_inputs);
  return {row.import(node, sequence), row.makes_sequence};
}

}  // namespace quern::onnx

// Calls of functions, among them branches and loops.
#include "convert/common/control.h"
#include "convert/tensorflow/general/general.h"

namespace quern::tensorflow {
namespace {

Body body_of(const TfNode& node, const char* attribute) {
  const std::string function = node.function(attribute);
  return [&node, function](Builder& to, const Values& inputs) { return node.call(to, function, inputs); };
}

void ignore_shapes_and_types(const TfNode& node) {
  for (const char* unused : {"Tcond", "Tin", "Tout", "config", "config_proto", "executor_type", "output_shapes",
                             "parallel_iterations", "read_only_resource_inputs"}) {
    node.ignore(unused);
  }
}

// The nodes of the function stand for the call.
Values call_function(const TfNode& node) {
  ignore_shapes_and_types(node);
  return node.call(node.builder, node.function("f"), all_inputs(node));
}

// Whether a number is not 0. (A list would be true if it has any elements.)
Value as_condition(const TfNode& node, const Value& value) {
  const bool is_sized = value.integers != nullptr || node.builder.is_sized(value.view);
  if (is_sized && !shape_at_import(node, value).empty()) throw Unsupported{"a condition that is not a scalar"};
  if (value.integers != nullptr) return value;
  if (value.type == ElementType::boolean) return value;
  const Value zero = number_of(node, 0, value.type);
  return make(node, "not", {make(node, "equal", {value, zero}, {}, ElementType::boolean)});
}

Values if_function(const TfNode& node) {
  ignore_shapes_and_types(node);
  Values inputs = all_inputs(node);
  inputs.erase(inputs.begin());
  const Value condition = as_condition(node, node.value(0));
  for (const char* branch : {"then_branch", "else_branch"}) {
    if (condition.integers == nullptr) shape_lists(node, &inputs, node.function(branch));
  }
  return branch(node, condition, inputs, body_of(node, "then_branch"), body_of(node, "else_branch"));
}

Values while_function(const TfNode& node) {
  ignore_shapes_and_types(node);
  const std::vector<bool> passed = node.passed_on(node.function("body"));
  Values inputs = all_inputs(node);
  shape_lists(node, &inputs, node.function("body"));
  return while_loop(node, inputs, passed, body_of(node, "cond"), body_of(node, "body"));
}

}  // namespace

const TfTable& general_control() {
  static const TfTable table = {
      {"If", {if_function, 1, many_inputs}},
      {"PartitionedCall", {call_function, 0, many_inputs}},
      {"StatefulPartitionedCall", {call_function, 0, many_inputs}},
      {"StatelessIf", {if_function, 1, many_inputs}},
      {"StatelessWhile", {while_function, 1, many_inputs}},
      {"While", {while_function, 1, many_inputs}},
  };
  return table;
}

}  // namespace quern::tensorflow

// IF and WHILE: operators that run other graphs of the model.
#include "convert/common/control.h"
#include "convert/tflite/general/general.h"

namespace quern::tflite {
namespace {

Body body_of(const TfliteNode& node, int32_t graph) {
  return [&node, graph](Builder& to, const Values& inputs) { return node.call(to, graph, inputs); };
}

Values if_then_else(const TfliteNode& node) {
  const auto& o = node.options<schema::IfOptions>();
  Values inputs;
  for (size_t i = 1; i < node.input_count(); ++i) inputs.push_back(node.value(i));
  return branch(node, node.value(0), inputs, body_of(node, o.then_graph()), body_of(node, o.else_graph()));
}

Values while_of(const TfliteNode& node) {
  const auto& o = node.options<schema::WhileOptions>();
  Values inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.value(i));
  return while_loop(node, inputs, node.passed_on(o.body_graph()), body_of(node, o.condition_graph()),
                    body_of(node, o.body_graph()));
}

}  // namespace

const TfliteTable& general_control() {
  static const TfliteTable table = {
      {"IF", {if_then_else, 1, many_inputs}},
      {"WHILE", {while_of, 1, many_inputs}},
  };
  return table;
}

}  // namespace quern::tflite

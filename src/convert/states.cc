#include "convert/states.h"

#include "graph/pass/passes.h"

namespace quern {

uint32_t find_port(const Graph& graph, const Vector<Port>& ports, const char* what, const std::string& name) {
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (name == tensor_of(graph, ports[i].tensor).name.c_str()) return i;
  }
  throw Error(std::string("the model has no ") + what + " '" + name + "'");
}

void add_states(const std::vector<ImportOptions::State>& states, Graph* graph) {
  if (states.empty()) return;
  for (const auto& [input, output] : states) {
    graph->states.push_back(
        {find_port(*graph, graph->inputs, "input", input), find_port(*graph, graph->outputs, "output", output)});
  }
  expect_ok(check_graph(*graph));
  expect_ok(infer_shapes(*graph));
}

}  // namespace quern

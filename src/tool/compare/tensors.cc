#include "tool/compare/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/file/format.h"

namespace quern {
namespace {

// How two tensors of one name differ; "" if they do not.
std::string describe_difference(const Computed& expected, const Computed& got, double tolerance, Difference* result) {
  if (!are_alike(expected.shape, got.shape))
    return fmt::format("its shape is {}, not {}", shape_text(got.shape.data(), got.shape.size()),
                       shape_text(expected.shape.data(), expected.shape.size()));
  *result = difference_of(got.numbers, expected.numbers, tolerance);
  if (result->within) return "";
  return fmt::format("largest difference {:.3g} absolute, {:.3g} relative; element {} is {:.9g}, not {:.9g}",
                     result->absolute, result->relative, result->first, got.numbers[result->first],
                     expected.numbers[result->first]);
}

}  // namespace

void name_tensors(Graph* graph) {
  std::set<std::string> names;
  for (const Tensor& tensor : graph->tensors) names.insert(tensor.name.c_str());
  for (const Node& node : graph->nodes) {
    for (const int output : node.outputs) {
      Tensor& tensor = graph->tensors[at(output)];
      if (!tensor.name.empty() || node.name.empty()) continue;
      std::string name = node.name.c_str();
      for (size_t i = 1; !names.insert(name).second; ++i) name = fmt::format("{}#{}", node.name.c_str(), i);
      tensor.name = String(name.c_str());
    }
  }
}

void expose_tensors(Graph* graph) {
  Vector<Port> given = std::move(graph->outputs);
  graph->outputs.clear();
  std::set<int> computed;
  for (const Node& node : graph->nodes) {
    for (const int output : node.outputs) {
      const Tensor& tensor = tensor_of(*graph, output);
      computed.insert(output);
      const auto is_this = [output](const Port& port) { return port.tensor == output; };
      const auto own = std::find_if(given.begin(), given.end(), is_this);
      if (own == given.end() && !tensor.name.empty()) graph->outputs.push_back({.tensor = output, .type = tensor.type});
      if (own != given.end()) graph->outputs.push_back(*own);
    }
  }
  for (const Port& port : given)  // inputs and constants
    if (computed.count(port.tensor) == 0) graph->outputs.push_back(port);
  graph->postprocessing = {};  // it counts outputs
  for (State& state : graph->states) {
    const int carried = given[state.output].tensor;
    const auto is_carried = [carried](const Port& port) { return port.tensor == carried; };
    const auto now = std::find_if(graph->outputs.begin(), graph->outputs.end(), is_carried);
    state.output = static_cast<uint32_t>(now - graph->outputs.begin());
  }
}

std::vector<Computed> compute(Graph graph, const char* flag, const std::vector<std::string>& files,
                              const InputFlags& flags) {
  qn_model* made = nullptr;
  check(make_model(std::move(graph), nullptr, &made));
  const ModelPtr model(made);
  const Round round = plan_round(flag, files, made);
  std::vector<InputData> data;
  for (size_t i = 0; i < round.size(); ++i) data.push_back(read_input(round[i], made, i, flags));
  const SessionPtr session = make_session(made, {.any_size = !flags.sizes.empty()});
  run_session(session.get(), data);
  std::vector<Computed> all;
  for (const Output& output : session_outputs(session.get(), output_ports(made)))
    all.push_back({output.name, output.shape(), real_numbers(output)});
  return all;
}

Comparison compare(const std::vector<Computed>& expected, const std::vector<Computed>& got, double tolerance) {
  std::map<std::string, const Computed*> by_name;
  for (const Computed& tensor : got) by_name.emplace(tensor.name, &tensor);
  Comparison result;
  for (const Computed& tensor : expected) {
    const auto other = by_name.find(tensor.name);
    if (other == by_name.end()) continue;
    ++result.compared;
    Difference difference;
    result.why = describe_difference(tensor, *other->second, tolerance, &difference);
    if (result.largest_name.empty() || !(difference.absolute <= result.largest)) {
      result.largest = difference.absolute;
      result.largest_name = tensor.name;
    }
    if (result.why.empty()) continue;
    result.first = tensor.name;
    return result;
  }
  return result;
}

}  // namespace quern

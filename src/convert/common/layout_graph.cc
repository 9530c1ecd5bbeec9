// The outputs of a graph, and the graph as a whole.
#include "convert/common/layout.h"

#include <algorithm>

#include "graph/pass/passes.h"

namespace quern::convert {

void Builder::output(const View& view, const std::string& name, qn_type type) {
  View as_type = view;
  if (type == QN_U8 && tensor(view).type == QN_S8) {
    Quantization quantization = tensor(view).quantization;
    for (int32_t& zero : quantization.zero_points) zero += 128;
    as_type.tensor = add(OpKind::requantize, name + "/unsigned", view.tensor, QN_U8, std::move(quantization));
  }
  const int shown = in_order(as_type, source_order(view.rank()));
  const auto [at, fresh] = ports_.try_emplace(name, NamedPort{shown, shown});
  NamedPort& port = at->second;
  if (port.shows != shown) throw Error("output '" + name + "' is also the name of another input or output");
  if (fresh) {
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(shown)];
    const bool is_taken = !tensor.name.empty() || tensor.constant >= 0, is_real = tensor.type == QN_F32;
    if (is_taken && is_real && is_sized(view)) {
      port.tensor = add(OpKind::clamp, name, {shown}, {});
    } else if (is_taken && view.rank() > 0) {  // a transpose that leaves all elements where they are
      Attributes same;
      for (size_t d = 0; d < view.rank(); ++d) same.values.push_back(static_cast<int64_t>(d));
      port.tensor = add(OpKind::transpose, name, {shown}, same);
    } else if (is_taken) {
      port.tensor = custom("identity", name, {view}, {}, {tensor.type})[0].tensor;
    }
    graph_.tensors[static_cast<size_t>(port.tensor)].name = port_name(name).c_str();
  }
  graph_.outputs.push_back({.tensor = port.tensor, .type = type, .preprocessing = {}});
}

namespace {

// Takes the nodes of a graph on which an output depends, in their order. Marks the tensors of these and of all ports.
Vector<Node> take_live_nodes(Graph& from, std::vector<char>* live) {
  for (const auto* ports : {&from.inputs, &from.outputs}) {
    for (const Port& port : *ports) (*live)[static_cast<size_t>(port.tensor)] = 1;
  }
  Vector<Node> nodes;
  for (size_t i = from.nodes.size(); i-- > 0;) {
    Node& node = from.nodes[i];
    const auto is_live = [&](int output) { return (*live)[static_cast<size_t>(output)] != 0; };
    if (std::none_of(node.outputs.begin(), node.outputs.end(), is_live)) continue;
    for (const int output : node.outputs) (*live)[static_cast<size_t>(output)] = 1;
    for (const int input : node.inputs) {
      if (input != no_tensor) (*live)[static_cast<size_t>(input)] = 1;
    }
    nodes.push_back(std::move(node));
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

// Moves the live tensors and their constants into another graph. Returns the new number of each tensor.
std::vector<int> move_live_tensors(Graph& from, const std::vector<char>& live, Graph* to) {
  std::vector<int> tensor_at(from.tensors.size(), no_tensor), constant_at(from.constants.size(), -1);
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    if (!live[i]) continue;
    tensor_at[i] = static_cast<int>(to->tensors.size());
    Tensor& tensor = to->tensors.emplace_back(std::move(from.tensors[i]));
    if (tensor.constant < 0) continue;
    int& at = constant_at[static_cast<size_t>(tensor.constant)];
    if (at < 0) {
      at = static_cast<int>(to->constants.size());
      to->constants.push_back(std::move(from.constants[static_cast<size_t>(tensor.constant)]));
    }
    tensor.constant = at;
  }
  return tensor_at;
}

}  // namespace

// Drops nodes, tensors, constants and subgraphs on which no output depends, for example constants that were copied to
// another order.
Graph Builder::finish() {
  for (const auto& [source, name] : fixed_) {
    Port& port = graph_.inputs[source.first];
    port.fixed = static_cast<uint8_t>(port.fixed | 1u << source.second);
    if (port.fixed_by.empty()) port.fixed_by = plain_name(name).c_str();
  }
  Graph graph;
  graph.source = graph_.source;
  graph.name = graph_.name;
  std::vector<char> live(graph_.tensors.size(), 0);
  graph.nodes = take_live_nodes(graph_, &live);
  graph.inputs = std::move(graph_.inputs);
  graph.outputs = std::move(graph_.outputs);
  const std::vector<int> tensor_at = move_live_tensors(graph_, live, &graph);
  const auto move_to = [&](int& tensor) {
    tensor = tensor == no_tensor ? tensor : tensor_at[static_cast<size_t>(tensor)];
  };
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), move_to);
    std::for_each(node.outputs.begin(), node.outputs.end(), move_to);
    for (uint32_t& index : node.subgraphs) {
      graph.subgraphs.push_back(std::move(graph_.subgraphs[index]));
      index = static_cast<uint32_t>(graph.subgraphs.size() - 1);
    }
  }
  for (auto* ports : {&graph.inputs, &graph.outputs}) {
    for (Port& port : *ports) move_to(port.tensor);
  }
  *this = Builder(graph.source.c_str());
  expect_ok(check_graph(graph));
  expect_ok(infer_shapes(graph));
  return graph;
}

}  // namespace quern::convert

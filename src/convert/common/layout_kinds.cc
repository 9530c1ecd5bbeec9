// Nodes of registered kinds, and those that run graphs.
#include "convert/common/layout.h"

#include "base/tensor.h"
#include "convert/common/kind_symbols.h"
#include "graph/backend/backend.h"
#include "graph/pass/passes.h"

namespace quern::convert {

Parameters&& Parameters::integers(const char* name, const std::vector<int64_t>& values) && {
  list.push_back({name, Vector<int64_t>(values.begin(), values.end()), {}});
  return std::move(*this);
}

Parameters&& Parameters::floats(const char* name, const std::vector<float>& values) && {
  list.push_back({name, {}, Vector<float>(values.begin(), values.end())});
  return std::move(*this);
}

std::vector<View> Builder::custom(const std::string& kind, const std::string& name, const std::vector<View>& inputs,
                                  Parameters parameters, const std::vector<qn_type>& types) {
  Vector<int> tensors;
  for (const View& input : inputs) {
    tensors.push_back(input ? in_order(input, source_order(input.rank())) : no_tensor);
  }
  const auto first = static_cast<size_t>(
      add_node(graph_, OpKind::custom, plain_name(name).c_str(), std::move(tensors), {}, types.size()));
  graph_.nodes.back().type = kind.c_str();
  graph_.nodes.back().parameters = std::move(parameters.list);
  for (size_t i = 0; i < types.size(); ++i) graph_.tensors[first + i].type = types[i];
  infer_last();
  expect_of_last();
  fix(symbol_of_rank(symbols_, graph_, graph_.nodes.back()), name);
  compute_if_constant(first);
  std::vector<View> outputs;
  for (size_t i = first; i < first + types.size(); ++i) {
    outputs.push_back({static_cast<int>(i), source_order(graph_.tensors[i].shape.size())});
  }
  return outputs;
}

// Computes the last node now, whose outputs begin with tensor `first`: the nodes that follow may be better ones if they
// know its elements.
void Builder::compute_if_constant(size_t first) {
  constexpr size_t limit = size_t{1} << 20;  // bytes
  const Node& node = graph_.nodes.back();
  for (const int input : node.inputs) {
    if (input != no_tensor && graph_.tensors[static_cast<size_t>(input)].constant < 0) return;
  }
  size_t bytes = 0;
  for (size_t i = first; i < graph_.tensors.size(); ++i) {
    const Tensor& output = graph_.tensors[i];
    size_t size;
    if (output.sized_by_run || !tensor_size(output.type, output.shape, &size) || size > limit) return;
    if (size == 0 && output.type == QN_F32) return;
    bytes += size;
  }
  charge(bytes);
  if (evaluate(graph_, node) == QN_OK) return graph_.nodes.pop_back();
  for (size_t i = first; i < graph_.tensors.size(); ++i)
    graph_.tensors[i].constant = -1;  // a run may say what is wrong
}

// Fixes the dimensions of tensors that are fixed in a graph that has these tensors as inputs.
void Builder::fix_as_in(const Graph& graph, const std::vector<View>& inputs) {
  for (size_t i = 0; i < inputs.size() && i < graph.inputs.size(); ++i) {
    const Port& port = graph.inputs[i];
    for (size_t d = 0; d < inputs[i].rank() && !port.unsized; ++d) {
      if ((port.fixed >> d & 1) != 0) fix(symbol(inputs[i], d), port.fixed_by.c_str());
    }
  }
}

std::vector<View> Builder::control(OpKind kind, const std::string& name, const std::vector<View>& inputs,
                                   std::vector<Graph> graphs, size_t size, const std::vector<qn_type>& types,
                                   const std::vector<Shape>& rows) {
  Vector<int> tensors;
  for (const View& input : inputs) {
    tensors.push_back(input ? in_order(input, source_order(input.rank())) : no_tensor);
  }
  const std::vector<View> read(inputs.begin() + (kind == OpKind::branch ? 1 : 0), inputs.end());
  for (const Graph& graph : graphs) fix_as_in(graph, read);
  Attributes attributes;
  attributes.size = size;
  for (const Shape& row : rows) {
    attributes.values.push_back(static_cast<int64_t>(row.size()));
    for (size_t d = 0; d + 1 < QN_MAX_RANK; ++d) {
      attributes.values.push_back(d < row.size() ? static_cast<int64_t>(row[d]) : 0);
    }
  }
  const auto first = static_cast<size_t>(
      add_node(graph_, kind, plain_name(name).c_str(), std::move(tensors), attributes, types.size()));
  for (Graph& graph : graphs) {
    graph_.nodes.back().subgraphs.push_back(static_cast<uint32_t>(graph_.subgraphs.size()));
    graph_.subgraphs.push_back(std::move(graph));
  }
  std::vector<View> outputs;
  for (size_t i = 0; i < types.size(); ++i) {
    Tensor& output = graph_.tensors[first + i];
    output.type = types[i];
    output.sized_by_run = true;
    outputs.push_back({static_cast<int>(first + i), {}});
  }
  return outputs;
}

}  // namespace quern::convert

#include "convert/model_stats.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "convert/common/error.h"
#include "convert/needs.h"
#include "convert/node_macs.h"
#include "graph/file/encoded.h"
#include "graph/ir/kinds.h"
#include "graph/ir/rules.h"
#include "graph/pass/passes.h"

namespace quern {
namespace {

uint64_t product(const Vector<size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

// Zeros of integers have only bytes of 0; floats may be -0.
uint64_t count_zeros(const void* data, size_t bytes, qn_type type) {
  if (type == QN_F32) {
    const std::span floats(static_cast<const float*>(data), bytes / sizeof(float));
    return static_cast<uint64_t>(std::count(floats.begin(), floats.end(), 0.0f));
  }
  const auto* const from = static_cast<const char*>(data);
  const size_t item = qn_type_size(type);
  uint64_t zeros = 0;
  for (size_t i = 0; i < bytes; i += item) {
    zeros += std::all_of(from + i, from + i + item, [](char byte) { return byte == 0; });
  }
  return zeros;
}

uint64_t count_zeros(const Constant& constant, qn_type type) {
  const size_t rows = constant.encoded == nullptr ? 1 : constant.encoded->rows();
  ConstantRows from(constant, rows);
  uint64_t zeros = 0;
  for (size_t row = 0; row < rows; ++row) {
    const void* data;
    expect_ok(from.read(row, 1, &data));
    zeros += count_zeros(data, from.row_bytes(), type);
  }
  return zeros;
}

// The graph that a node runs, with inputs of the shapes that the node's inputs have in the graph around it.
Graph with_shapes_of(const Graph& child, const Graph& outer, const Node& node) {
  Graph graph = child;
  const bool loop = node.kind == OpKind::loop;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    Tensor& input = graph.tensors[at(graph.inputs[i].tensor)];
    input.sized_by_run = graph.inputs[i].unsized;
    const size_t from = loop ? i : i + 1;
    if ((loop && i < 2) || from >= node.inputs.size() || node.inputs[from] == no_tensor) continue;
    const Tensor& given = tensor_of(outer, node.inputs[from]);
    if (given.sized_by_run) continue;
    input.shape = given.shape;
    input.sized_by_run = false;
  }
  return graph;
}

void set_shape(const Shape& shape, Tensor* tensor) {
  tensor->shape = shape;
  tensor->sized_by_run = false;
}

// Gives a branch outputs of the shapes that both of its graphs give them.
void size_branch(const std::vector<Graph>& children, const Node& node, Graph* graph) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor &first = tensor_of(children[0], children[0].outputs[i].tensor),
                 &second = tensor_of(children[1], children[1].outputs[i].tensor);
    const bool known = !first.sized_by_run && !second.sized_by_run && first.shape == second.shape;
    if (known) set_shape(first.shape, &graph->tensors[at(node.outputs[i])]);
  }
}

// Gives a loop outputs of the shapes that the first of its iterations, if there are any, gives them.
void size_loop(const Graph& body, const Node& node, uint64_t iterations, Graph* graph) {
  const size_t carried = node.attributes.size;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor& made = tensor_of(body, body.outputs[1 + i].tensor);
    if (made.sized_by_run || iterations == 0) continue;
    Shape shape = made.shape;
    if (i >= carried) shape.insert(shape.begin(), static_cast<size_t>(iterations));
    if (shape.size() <= QN_MAX_RANK) set_shape(shape, &graph->tensors[at(node.outputs[i])]);
  }
}

// Returns how many iterations a loop has; 0 if only a run knows.
uint64_t iterations_of(const Graph& graph, const Node& node) {
  const int limit = node.inputs[0];
  if (node.inputs[1] != no_tensor || limit == no_tensor) return 0;
  const Tensor& tensor = tensor_of(graph, limit);
  if (tensor.constant < 0 || tensor.type != QN_S64 || is_empty(tensor.shape)) return 0;
  const int64_t count = *static_cast<const int64_t*>(graph.constants[at(tensor.constant)].data);
  return count < 0 ? 0 : static_cast<uint64_t>(count);
}

void count_node(const Node& node, std::map<std::string, KindStats>* kinds) {
  KindStats& kind = (*kinds)[kind_name(node)];
  if (kind.count++ == 0) kind.first = std::string(node.name);
}

class Counter {
 public:
  using Macs = std::map<std::string, uint64_t>;

  // Adds the nodes of a graph, whose shapes it infers once more; returns their work by kinds.
  Macs add(Graph* sized, bool inner) {
    Graph& graph = *sized;
    Macs macs;
    for (const Node& node : graph.nodes) {
      if (infer_node(graph, node) != QN_OK) {
        for (const int output : node.outputs) graph.tensors[at(output)].sized_by_run = true;
      }
      if (inner) ++stats_.inner[kind_name(node)];
      if (node.kind == OpKind::custom) count_node(node, &stats_.extra);
      if (!has_kernels(graph, node)) count_node(node, &stats_.scalar);
      if (node.kind == OpKind::branch || node.kind == OpKind::loop) {
        for (const auto& [kind, count] : add_graphs(node, &graph)) macs[kind] += count;
        continue;
      }
      const std::optional<uint64_t> own = macs_of(graph, node);
      if (!own) count_node(node, &stats_.unsized);
      if (own && multiplies(node)) macs[kind_name(node)] += *own;
      add_constants(graph, node);
    }
    return macs;
  }

  ModelStats finish(Macs macs) {
    stats_.macs = sum(macs);
    stats_.macs_of = std::move(macs);
    return std::move(stats_);
  }

 private:
  static uint64_t sum(const Macs& macs) {
    uint64_t sum = 0;
    for (const auto& [kind, count] : macs) sum += count;
    return sum;
  }

  // The graphs that a node runs.
  Macs add_graphs(const Node& node, Graph* graph) {
    Macs most;
    std::vector<Graph> children;
    for (const uint32_t index : node.subgraphs) {
      spend(graph->subgraphs[index]);
      children.push_back(with_shapes_of(graph->subgraphs[index], *graph, node));
      Macs macs = add(&children.back(), true);
      if (sum(macs) >= sum(most)) most = std::move(macs);
    }
    if (node.kind == OpKind::branch) {
      size_branch(children, node, graph);
      return most;
    }
    const uint64_t iterations = iterations_of(*graph, node);
    size_loop(children[0], node, iterations, graph);
    stats_.loops.push_back({std::string(node.name), iterations, sum(most)});
    for (auto& [kind, count] : most) count *= std::max<uint64_t>(iterations, 1);
    return most;
  }

  // Nodes of a small file may run one graph again and again, and these graphs others.
  void spend(const Graph& graph) {
    each_graph(graph, [&](const Graph& any) {
      const size_t tensors = 1 + any.tensors.size();
      if (tensors > budget_) throw Error("branches and loops of the model have too many tensors to count them");
      budget_ -= tensors;
    });
  }

  void add_constants(const Graph& graph, const Node& node) {
    for (const int input : node.inputs) {
      if (input == no_tensor || tensor_of(graph, input).constant < 0) continue;
      const qn_type type = tensor_of(graph, input).type;
      if (type != QN_F32 && !multiplies(node)) continue;
      const Constant& constant = graph.constants[at(tensor_of(graph, input).constant)];
      const auto [known, added] = zeros_of_.try_emplace(key_of(constant), 0);
      if (!added) continue;
      const uint64_t count = product(tensor_of(graph, input).shape);
      if (count != 0) known->second = count_zeros(constant, type);
      stats_.parameters += count;
      stats_.nonzeros += count - known->second;
    }
    if (!kind_of(node.kind).has_weights()) return;
    const Tensor& weights = tensor_of(graph, node.inputs[1]);
    const Constant& constant = graph.constants[at(weights.constant)];
    stats_.layers.push_back({std::string(node.name), product(weights.shape), zeros_of_.at(key_of(constant)),
                             constant.encoded == nullptr ? constant.bytes : constant.encoded->stored()});
  }

  // Graphs may share the content of constants.
  static const void* key_of(const Constant& constant) {
    return constant.data != nullptr ? constant.data : static_cast<const void*>(constant.encoded.get());
  }

  ModelStats stats_;
  size_t budget_ = size_t{1} << 20;           // of tensors in graphs that nodes run
  std::map<const void*, uint64_t> zeros_of_;  // per constant: its number of zeros
};

}  // namespace

ModelStats model_stats(const Graph& graph) {
  Counter counter;
  Graph sized = graph;
  Counter::Macs macs = counter.add(&sized, false);
  return counter.finish(std::move(macs));
}

}  // namespace quern

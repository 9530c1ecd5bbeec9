#include "convert/model_stats.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace quern {
namespace {

uint64_t product(const Vector<size_t>& shape, size_t from = 0) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end(), uint64_t{1},
                         std::multiplies<>());
}

}  // namespace

ModelStats model_stats(const Graph& graph) {
  const auto tensor = [&](int index) -> const Tensor& { return graph.tensors[static_cast<size_t>(index)]; };
  ModelStats stats;
  std::set<int> counted;
  for (const Node& node : graph.nodes) {
    // Weights are O, then everything that one output element sums over.
    if (node.kind == OpKind::conv2d || node.kind == OpKind::fully_connected)
      stats.macs += product(tensor(node.outputs[0]).shape) * product(tensor(node.inputs[1]).shape, 1);
    for (const int input : node.inputs) {
      if (input == no_tensor || tensor(input).constant < 0 || tensor(input).type != QN_F32) continue;
      if (!counted.insert(input).second) continue;
      const uint64_t count = product(tensor(input).shape);
      const float* data = constant_floats(graph, input);
      stats.parameters += count;
      stats.nonzeros += count - static_cast<uint64_t>(std::count(data, data + count, 0.0f));
    }
  }
  return stats;
}

}  // namespace quern

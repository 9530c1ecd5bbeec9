#include "convert/model_stats.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "convert/common/error.h"
#include "graph/file/sparse.h"
#include "graph/ir/kinds.h"

namespace quern {
namespace {

uint64_t product(const Vector<size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

// Of integers, whose zeros have only bytes of 0.
uint64_t count_zeros(const Constant& constant, size_t item) {
  const auto* bytes = static_cast<const char*>(constant.data);
  uint64_t zeros = 0;
  for (size_t i = 0; i < constant.bytes; i += item) {
    zeros += std::all_of(bytes + i, bytes + i + item, [](char byte) { return byte == 0; });
  }
  return zeros;
}

uint64_t count_zeros(const Constant& constant) {
  const size_t rows = constant.sparse == nullptr ? 1 : constant.sparse->rows();
  ConstantRows from(constant, rows);
  uint64_t zeros = 0;
  for (size_t row = 0; row < rows; ++row) {
    const float* data;
    expect_ok(from.read(row, 1, &data));
    zeros += static_cast<uint64_t>(std::count(data, data + from.depth(), 0.0f));
  }
  return zeros;
}

}  // namespace

ModelStats model_stats(const Graph& graph) {
  const auto tensor = [&](int index) -> const Tensor& { return graph.tensors[static_cast<size_t>(index)]; };
  ModelStats stats;
  std::map<int, uint64_t> zeros_of;  // per tensor: its number of zeros
  for (const Node& node : graph.nodes) {
    const bool has_weights = kind_of(node.kind).has_weights();
    if (has_weights) stats.macs += product(tensor(node.outputs[0]).shape) * terms_of(graph, node);
    for (const int input : node.inputs) {
      if (input == no_tensor || tensor(input).constant < 0) continue;
      const qn_type type = tensor(input).type;
      if (type != QN_F32 && !has_weights) continue;
      if (zeros_of.contains(input)) continue;
      const uint64_t count = product(tensor(input).shape);
      const Constant& constant = graph.constants[static_cast<size_t>(tensor(input).constant)];
      const uint64_t zeros = type == QN_F32 ? count_zeros(constant) : count_zeros(constant, qn_type_size(type));
      zeros_of[input] = zeros;
      stats.parameters += count;
      stats.nonzeros += count - zeros;
    }
    if (has_weights)
      stats.layers.push_back(
          {std::string(node.name), product(tensor(node.inputs[1]).shape), zeros_of.at(node.inputs[1])});
  }
  return stats;
}

}  // namespace quern

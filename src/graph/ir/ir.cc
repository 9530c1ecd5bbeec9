#include "graph/ir/ir.h"

#include <cstring>

#include "base/math.h"
#include "base/needs.h"
#include "graph/ir/kinds.h"

namespace quern {
bool tensor_size(qn_type type, const Vector<size_t>& shape, size_t* bytes) {
  size_t size = qn_type_size(type);
  for (const size_t d : shape) {
    if (!checked_mul(size, d, &size)) return false;
  }
  *bytes = size;
  return size <= static_cast<size_t>(PTRDIFF_MAX);
}

void copy_booleans(const void* from, size_t count, void* to) {
  const auto* const x = static_cast<const unsigned char*>(from);
  for (size_t i = 0; i < count; ++i) static_cast<unsigned char*>(to)[i] = x[i] != 0;
}

#ifndef QN_NO_INTEGERS
qn_quantization quantization_of(const Tensor& tensor) {
  const Quantization& from = tensor.quantization;
  qn_quantization to = {};
  if (from.scales.empty()) return to;
  if (from.axis < 0) {
    to.scale = from.scales[0];
    if (!from.zero_points.empty()) to.zero_point = from.zero_points[0];
    return to;
  }
  to.scales = from.scales.data();
  to.zero_points = from.zero_points.empty() ? nullptr : from.zero_points.data();
  to.count = from.scales.size();
  to.axis = static_cast<uint32_t>(from.axis);
  return to;
}
#endif

int add_tensor(Graph& graph, String name, qn_type type, Vector<size_t> shape) {
  graph.tensors.push_back({std::move(name), type, std::move(shape), -1});
  return static_cast<int>(graph.tensors.size() - 1);
}

int add_constant(Graph& graph, String name, qn_type type, Vector<size_t> shape, const void* data) {
  size_t bytes;
  if (!tensor_size(type, shape, &bytes)) out_of_memory();
  auto buffer = make_shared<Buffer>(bytes);
  if (bytes != 0) std::memcpy(buffer->data(), data, bytes);
  const void* copy = buffer->data();
  graph.constants.push_back({std::move(buffer), copy, bytes});
  const int tensor = add_tensor(graph, std::move(name), type, std::move(shape));
  graph.tensors.back().constant = static_cast<int>(graph.constants.size() - 1);
  return tensor;
}

int add_node(Graph& graph, OpKind kind, String name, Vector<int> inputs, Attributes attributes, size_t outputs) {
  qn_type type = QN_F32;
  if (!inputs.empty() && inputs[0] != no_tensor) type = graph.tensors[static_cast<size_t>(inputs[0])].type;
  if (has_integers && kind_of(kind).types == TypeRule::made_real) type = QN_F32;
  if (has_integers && kind_of(kind).types == TypeRule::made_quantized) type = QN_S8;
  const int first = static_cast<int>(graph.tensors.size());
  Vector<int> made;
  for (size_t i = 0; i < outputs; ++i) made.push_back(add_tensor(graph, String(), type, {}));
  graph.nodes.push_back({kind, std::move(name), std::move(inputs), std::move(made), std::move(attributes)});
  return first;
}

}  // namespace quern

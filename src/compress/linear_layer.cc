#include "compress/linear_layer.h"

#include <algorithm>

#include "graph/ir/kinds.h"

namespace quern {
namespace {

uint64_t floats_in(const Tensor& tensor) {
  size_t bytes = 0;
  return tensor_size(QN_F32, tensor.shape, &bytes) ? bytes / sizeof(float) : 0;
}

}  // namespace

LayerCost cost_of(const Graph& graph, const Node& layer) {
  const Tensor& output = tensor_of(graph, layer.outputs[0]);
  LayerCost cost;
  cost.weights = floats_in(tensor_of(graph, layer.inputs[1]));
  if (has_bias(layer)) cost.weights += floats_in(tensor_of(graph, layer.inputs[2]));
  if (!output.sized_by_run) cost.macs = floats_in(output) * terms_of(graph, layer);
  return cost;
}

bool is_plain_layer(Rewriter& r, const Node& node) {
  if (!kind_of(node.kind).has_weights() || node.attributes.groups != 1 || node.attributes.quantize_input) return false;
  const int x = node.inputs[0], weights = node.inputs[1];
  if (!r.is_float(x) || !r.is_float(weights) || (has_bias(node) && !r.is_float(node.inputs[2]))) return false;
  return r.read_once(weights) && !r.tensor(node.outputs[0]).sized_by_run && !is_empty(r.shape(weights)) &&
         !is_empty(r.shape(x));
}

bool may_pad(const Attributes& a) {
  const qn_padding& p = a.padding;
  return a.same_padding != SamePadding::no || p.top + p.bottom + p.left + p.right > 0;
}

bool is_pointwise(Rewriter& r, const Node& layer) {
  if (layer.kind == OpKind::fully_connected) return true;
  const Attributes& a = layer.attributes;
  const Shape& weights = r.shape(layer.inputs[1]);
  // A window of one pixel that moves by one has no padding with any of SamePadding.
  const qn_padding& p = a.padding;
  return weights[1] * weights[2] == 1 && a.stride.h * a.stride.w == 1 && p.top + p.bottom + p.left + p.right == 0;
}

size_t product_of(const Shape& shape, size_t from) {
  size_t product = 1;
  for (size_t d = from; d < shape.size(); ++d) product *= shape[d];
  return product;
}

size_t nonzeros_of(std::span<const float> values) {
  return values.size() - static_cast<size_t>(std::count(values.begin(), values.end(), 0.0f));
}

RealMatrix matrix_of(std::span<const float> values, size_t columns) {
  RealMatrix matrix(values.size() / columns, columns);
  std::copy(values.begin(), values.end(), matrix.row(0));
  return matrix;
}

Vector<float> as_floats(const RealMatrix& matrix) {
  Vector<float> values;
  for (const double value : matrix.values()) values.push_back(static_cast<float>(value));
  return values;
}

}  // namespace quern

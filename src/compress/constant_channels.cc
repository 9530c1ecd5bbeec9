#include "compress/constant_channels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "compress/linear_layer.h"
#include "graph/ir/kinds.h"
#include "graph/pass/affine.h"

namespace quern {
namespace {

constexpr float varying = std::numeric_limits<float>::quiet_NaN();

double magnitude_of(const float* row, size_t depth) {
  double sum = 0;
  for (size_t i = 0; i < depth; ++i) sum += std::fabs(double{row[i]});
  return sum;
}

// Activations after which a channel that was zero is zero.
bool keeps_zeros(OpKind kind) { return kind == OpKind::hard_swish || kind == OpKind::prelu || kind == OpKind::tanh; }

// Whether each channel of the output has the mean, the largest or all elements of the same channel of the input.
bool keeps_channels(const Graph& graph, const Node& node) {
  if (node.kind == OpKind::global_average_pool || node.kind == OpKind::global_max_pool) return is_unclamped(node);
  const Shape &from = tensor_of(graph, node.inputs[0]).shape, &to = tensor_of(graph, node.outputs[0]).shape;
  return node.kind == OpKind::reshape && !from.empty() && !to.empty() && from.back() == to.back();
}

// Returns whether the layer has changed.
bool fold_into_bias(Rewriter& r, const ConstantChannels& constants, Node& layer) {
  const Vector<float>* const inputs = constants.values(layer.inputs[0]);
  if (inputs == nullptr || !is_plain_layer(r, layer) || may_pad(layer.attributes)) return false;
  const std::span<const float> before = r.floats(layer.inputs[1]);
  const size_t rows = r.shape(layer.inputs[1])[0], columns = r.shape(layer.inputs[1]).back();
  Vector<float> weights(before.begin(), before.end());
  Vector<double> sums(rows);
  for (size_t i = 0; i < weights.size(); ++i) {
    const float input = (*inputs)[i % columns];
    if (!std::isfinite(input)) continue;
    sums[i / (weights.size() / rows)] += double{weights[i]} * double{input};
    weights[i] = 0;
  }
  if (std::equal(weights.begin(), weights.end(), before.begin())) return false;
  Vector<float> bias(rows);
  for (size_t o = 0; o < rows; ++o) {
    const double own = has_bias(layer) ? double{r.floats(layer.inputs[2])[o]} : 0;
    bias[o] = static_cast<float>(own + sums[o]);
  }
  if (!is_finite(bias)) return false;
  r.set_inputs(
      layer, {layer.inputs[0], r.add_constant(Shape(r.shape(layer.inputs[1])), weights), r.add_constant({rows}, bias)});
  return true;
}

}  // namespace

ConstantChannels::ConstantChannels(const Graph& graph) : graph_(graph) {
  for (const Node& node : graph.nodes) {
    if (kind_of(node.kind).has_weights()) {
      if (tensor_of(graph, node.inputs[1]).type == QN_F32) visit_layer(node);
    } else if (!node.inputs.empty() && values_.contains(node.inputs[0])) {
      pass(node);
    }
  }
}

const Vector<float>* ConstantChannels::values(int tensor) const {
  const auto found = values_.find(tensor);
  return found == values_.end() ? nullptr : &found->second;
}

// A row is constant if its weights are negligible, but for those that read constants.
void ConstantChannels::visit_layer(const Node& node) {
  const float* const weights = constant_floats(graph_, node.inputs[1]);
  const Vector<size_t>& shape = tensor_of(graph_, node.inputs[1]).shape;
  const size_t rows = shape[0], depth = terms_of(graph_, node), columns = shape.back();
  const bool pads = may_pad(node.attributes);
  double largest = 0;
  for (size_t o = 0; o < rows; ++o) largest = std::max(largest, magnitude_of(weights + o * depth, depth));
  const Vector<float>* const inputs = values(node.inputs[0]);
  Vector<float> outputs;
  bool any = false;
  for (size_t o = 0; o < rows; ++o) {
    const size_t first = o / (rows / node.attributes.groups) * columns;  // of the channels that it reads
    double sum = has_bias(node) ? double{constant_floats(graph_, node.inputs[2])[o]} : 0, rest = 0;
    for (size_t i = 0; i < depth; ++i) {
      const float input = inputs == nullptr ? varying : (*inputs)[first + i % columns];
      const double weight = double{weights[o * depth + i]};
      const bool fixed = input == 0 || (std::isfinite(input) && !pads);  // padding has zeros
      fixed ? sum += weight * double{input} : rest += std::fabs(weight);
    }
    const auto result = static_cast<float>(sum);
    const bool constant = rest <= largest * negligible_row && std::isfinite(largest) && std::isfinite(result);
    outputs.push_back(constant ? std::clamp(result, node.attributes.min, node.attributes.max) : varying);
    any = any || constant;
  }
  if (any) values_[node.outputs[0]] = std::move(outputs);
}

void ConstantChannels::pass(const Node& node) {
  Vector<float> outputs = *values(node.inputs[0]);
  if (!keeps_channels(graph_, node)) {
    if (!keeps_zeros(node.kind)) return;
    for (float& value : outputs) value = value == 0 ? 0 : varying;
  }
  values_[node.outputs[0]] = std::move(outputs);
}

bool fold_constant_channels(Graph& graph) {
  const ConstantChannels constants(graph);
  Rewriter r(graph);
  for (size_t i = 0; i < r.size(); ++i) fold_into_bias(r, constants, r.node(i));
  if (r.changed()) compact(graph);
  return r.changed();
}

}  // namespace quern

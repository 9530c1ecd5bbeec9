// Pass fuse-quantized: nodes between dequantize and quantize compute with bytes.
#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "graph/pass/quantized.h"
#include "op/core/numbers.h"

namespace quern {
namespace {

// Adds the bias in steps of the sums of products. Returns no_tensor if it has too many of them.
int integer_bias(Rewriter& r, int bias, const Tensor& in, const Tensor& weights, Shape shape) {
  const std::span<const float> real = r.floats(bias);
  Quantization q = weights.quantization;
  for (float& scale : q.scales) scale *= in.quantization.scales[0];
  q.zero_points.clear();
  q.axis = q.scales.size() == 1 ? -1 : 0;
  Vector<int32_t> steps(real.size());
  for (size_t o = 0; o < steps.size(); ++o) {
    const double x = std::nearbyint(double{real[o]} / double{q.scales[q.scales.size() == 1 ? 0 : o]});
    if (!(std::abs(x) < 0x1p30)) return no_tensor;
    steps[o] = static_cast<int32_t>(x);
  }
  const int added = r.add_constant(std::move(shape), QN_S32, steps.data());
  r.tensor(added).quantization = std::move(q);
  return added;
}

// Whether a bias of integers has the scales of the sums of products, as far as floats can tell.
bool has_scales_of_sums(const Tensor& bias, const Tensor& in, const Tensor& weights) {
  const Vector<float>&of_bias = bias.quantization.scales, &of_weights = weights.quantization.scales;
  for (size_t o = 0; o < std::max(of_bias.size(), of_weights.size()); ++o) {
    const double actual = of_bias[of_bias.size() == 1 ? 0 : o];
    const double expected = double{in.quantization.scales[0]} * of_weights[of_weights.size() == 1 ? 0 : o];
    if (!(std::abs(actual - expected) <= 1e-6 * expected)) return false;
  }
  return true;
}

// Sets `inputs` to what a layer of bytes reads. Returns false if there is no such layer.
bool inputs_of_sums(Rewriter& r, const Node& node, Vector<int>* inputs) {
  const int x = bytes_behind(r, node.inputs[0]);
  const Tensor& bytes = r.tensor(node.inputs[1]);
  if (x == no_tensor || bytes.type != QN_S8 || bytes.quantization.block != 0) return false;
  *inputs = node.inputs;
  (*inputs)[0] = x;
  if (inputs->size() < 3 || (*inputs)[2] == no_tensor) return true;
  const Tensor in = r.tensor(x), weights = r.tensor((*inputs)[1]), bias = r.tensor((*inputs)[2]);
  if (bias.type == QN_S32) return has_scales_of_sums(bias, in, weights);
  (*inputs)[2] = integer_bias(r, (*inputs)[2], in, weights, bias.shape);
  return (*inputs)[2] != no_tensor;
}

// Finds what `node` would read if it computed bytes with the numbers of `output`. Inserts nodes before it where bytes
// must get other scales first. Returns an empty list if the node cannot.
Vector<int> inputs_as_bytes(Rewriter& r, const Node& node, const Tensor& output) {
  Vector<int> inputs;
  switch (kind_of(node.kind).types) {
    case TypeRule::sums:
      if (!inputs_of_sums(r, node, &inputs)) inputs.clear();
      return inputs;
    case TypeRule::steps:
      if (node.kind == OpKind::power && !is_exact_power(node.attributes.gamma)) return inputs;
      return all_bytes_behind(r, node);
    case TypeRule::moved:
    case TypeRule::chosen: break;
    default: return inputs;
  }
  if (!treats_bytes_alike(node)) return inputs;
  inputs = all_bytes_behind(r, node);
  for (int& input : inputs) {
    if (same_numbers(r.tensor(input), output)) continue;
    const int other = r.add_tensor(output.type, output.quantization);
    r.insert_before(node, OpKind::requantize, name_of(node, "/requantize"), input, other);
    input = other;
  }
  return inputs;
}

// Whether the factors between steps of the inputs and of the output, by which kernels multiply, are finite.
bool has_finite_factors(Rewriter& r, const Node& node, const Vector<int>& inputs, const Tensor& output) {
  const auto largest = [&](int tensor) {
    float most = 0;
    for (const float scale : r.tensor(tensor).quantization.scales) most = std::max(most, scale);
    return most;
  };
  const auto fits = [&](float scale) { return std::isfinite(scale / output.quantization.scales[0]); };
  if (kind_of(node.kind).types == TypeRule::sums) return fits(largest(inputs[0]) * largest(inputs[1]));
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](int input) { return input == no_tensor || fits(largest(input)); });
}

// Makes the node that computes the input of `quantize` compute bytes instead. Returns false if it cannot.
bool fuse(Rewriter& r, Node& quantize) {
  const int real = quantize.inputs[0];
  Node* node = r.writer(real);
  if (node == nullptr || !r.read_once(real) || node->outputs.size() != 1) return false;
  const Tensor output = r.tensor(quantize.outputs[0]);
  if (output.type != QN_S8) return false;
  // A clamp in between becomes part of the node.
  Node* clamp = nullptr;
  if (node->kind == OpKind::clamp && bytes_behind(r, node->inputs[0]) == no_tensor && r.read_once(node->inputs[0])) {
    Node* before = r.writer(node->inputs[0]);
    if (before == nullptr || !kind_of(before->kind).has(Kind::clamps)) return false;
    clamp = node;
    node = before;
  }
  Vector<int> inputs = inputs_as_bytes(r, *node, output);
  if (inputs.empty() || !has_finite_factors(r, *node, inputs, output)) return false;
  Attributes& a = node->attributes;
  if (clamp != nullptr) {
    const Attributes& c = clamp->attributes;
    a.min = std::min(std::max(a.min, c.min), c.max);
    a.max = std::min(std::max(a.max, c.min), c.max);
    r.take_output(*node, node->outputs[0], *clamp);
  }
  if (node->kind == OpKind::pad) convert_padding(output, node);
  a.quantize_input = false;  // it is bytes already
  r.set_inputs(*node, std::move(inputs));
  r.take_output(*node, node->outputs[0], quantize);
  return true;
}

}  // namespace

qn_status fuse_quantized(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i)) continue;
    if (node.kind == OpKind::requantize && same_numbers(r.tensor(node.inputs[0]), r.tensor(node.outputs[0]))) {
      r.bypass(node, node.inputs[0]);
    } else if (node.kind == OpKind::quantize && bytes_behind(r, node.inputs[0]) != no_tensor) {
      node.kind = OpKind::requantize;  // the next round removes it if nothing is left to do
      r.set_input(node, 0, bytes_behind(r, node.inputs[0]));
    } else if (node.kind == OpKind::quantize) {
      fuse(r, node);
    }
  }
  return QN_OK;
}

}  // namespace quern

// Pass fold-affine: scales and offsets behind a layer go into its weights.
#include "base/needs.h"
#include "base/status.h"
#include "graph/ir/check.h"
#include "graph/pass/affine.h"

namespace quern {
namespace {

// weights' = weights * scale, bias' = bias * scale + bias of f, per output channel. False when a number overflows, or if
// the bias is of integers.
bool fold_into_weights(Rewriter& r, Node& node, const Affine& f) {
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != no_tensor;
  if (has_bias && !r.is_float(node.inputs[2])) return false;
  const Shape shape = r.shape(node.inputs[1]);
  const size_t outputs = shape[0];
  const std::span<const float> w = r.floats(node.inputs[1]);
  const size_t each = w.size() / outputs;
  Vector<float> weights(w.begin(), w.end()), bias(outputs, 0.0f);
  if (has_bias) {
    const std::span<const float> b = r.floats(node.inputs[2]);
    bias.assign(b.begin(), b.end());
  }
  for (size_t o = 0; o < outputs; ++o) {
    const double s = element(f.scale, o);
    for (size_t i = 0; i < each; ++i) weights[o * each + i] = static_cast<float>(double{weights[o * each + i]} * s);
    bias[o] = static_cast<float>(double{bias[o]} * s + element(f.bias, o));
  }
  if (!is_finite(weights) || !is_finite(bias)) return false;
  const bool scales = f.scale != Vector<double>{1};
  const int new_weights = scales ? r.add_constant(shape, weights) : node.inputs[1];
  r.set_inputs(node, {node.inputs[0], new_weights, r.add_constant({outputs}, bias)});
  return true;
}

// The same for bytes with scales: only these and the bias change. False also if a scale would not be above 0, unless it
// is that of a block.
bool fold_into_scales(Rewriter& r, Node& node, const Affine& f) {
  const int bytes = node.inputs[1];
  const size_t outputs = r.shape(bytes)[0];
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != no_tensor;
  if (has_bias && !r.is_float(node.inputs[2])) return false;
  Quantization q = r.tensor(bytes).quantization;
  const size_t runs =
      !has_scaled_blocks || q.block == 0 ? 1 : q.scales.size() / outputs;  // of elements that share a scale
  Vector<float> scales(outputs * runs), bias(outputs, 0.0f);
  if (has_bias) {
    const std::span<const float> b = r.floats(node.inputs[2]);
    bias.assign(b.begin(), b.end());
  }
  for (size_t i = 0; i < scales.size(); ++i) {
    const double scale = double{q.scales[q.scales.size() == 1 ? 0 : i]};
    scales[i] = static_cast<float>(scale * element(f.scale, i / runs));
    if (!(scales[i] > 0 || has_blocks(r.tensor(bytes)))) return false;
  }
  for (size_t o = 0; o < outputs; ++o) {
    bias[o] = static_cast<float>(double{bias[o]} * element(f.scale, o) + element(f.bias, o));
  }
  if (!is_finite(scales) || !is_finite(bias)) return false;
  q.scales = std::move(scales);
  q.zero_points.clear();
  q.axis = 0;
  const Constant content = r.graph().constants[static_cast<size_t>(r.tensor(bytes).constant)];
  const int scaled = r.add_constant(Shape(r.shape(bytes)), r.tensor(bytes).type, content.data);
  r.tensor(scaled).quantization = std::move(q);
  r.set_inputs(node, {node.inputs[0], scaled, r.add_constant({outputs}, bias)});
  return true;
}

}  // namespace

qn_status fold_affine(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Affine f;
    int x;
    if (r.removed(i) || !read_affine(r, r.node(i), &f, &x) || f.only_clamps()) continue;
    Node* layer = r.writer(x);
    if (layer == nullptr || !r.read_once(x) || !kind_of(layer->kind).has_weights() || !is_unclamped(*layer)) continue;
    const bool floats = r.is_float(layer->inputs[1]);
    const bool stays_real = layer->attributes.quantize_input || has_blocks(r.tensor(layer->inputs[1]));
    if (!floats && (small || !stays_real)) continue;
    if (!(floats ? fold_into_weights(r, *layer, f) : fold_into_scales(r, *layer, f))) continue;
    layer->attributes.min = f.min;
    layer->attributes.max = f.max;
    r.take_output(*layer, x, r.node(i));
  }
  return QN_OK;
}

}  // namespace quern

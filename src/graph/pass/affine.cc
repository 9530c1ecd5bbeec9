// Passes about y = clamp(scale * x + bias), the form that batch normalization, scaling, offsets and most activations
// share.
#include <algorithm>
#include <cmath>

#include "base/needs.h"
#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

// y = min(max(scale * x + bias, min), max): scale and bias have one element, or one per channel.
struct Affine {
  Vector<float> scale = {1}, bias = {0};
  float min = -infinity, max = infinity;

  bool clamps() const { return min != -infinity || max != infinity; }
  bool is_uniform() const { return scale.size() == 1 && bias.size() == 1; }
  bool only_clamps() const { return is_uniform() && scale[0] == 1 && bias[0] == 0; }
};

float element(const Vector<float>& v, size_t i) { return v.size() == 1 ? v[0] : v[i]; }

bool is_finite(const Vector<float>& v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); });
}

// Returns one element if all elements are equal, or else the vector as it is.
Vector<float> reduced(Vector<float> v) {
  if (std::all_of(v.begin(), v.end(), [&](float x) { return x == v[0]; })) v.resize(1);
  return v;
}

Vector<float> values(Rewriter& r, int constant) {
  const std::span<const float> floats = r.floats(constant);
  return reduced({floats.begin(), floats.end()});
}

Vector<float> map(Vector<float> v, float (*f)(float)) {
  std::transform(v.begin(), v.end(), v.begin(), f);
  return v;
}

// Whether the constant has one element, or one per channel of x, and does not make the result larger than x.
bool is_per_channel(Rewriter& r, int constant, int x, int output) {
  const Shape& c = r.shape(constant);
  const size_t n = r.floats(constant).size();
  if (r.shape(x) != r.shape(output)) return false;
  return n == 1 || (c.back() == n && r.shape(x).back() == n);
}

// add, sub, mul, div of x and a constant, in either order.
bool read_binary(Rewriter& r, const Node& node, Affine* f, int* x) {
  const bool first = r.is_constant(node.inputs[0]);
  if (first == r.is_constant(node.inputs[1])) return false;
  const int constant = node.inputs[first ? 0 : 1];
  *x = node.inputs[first ? 1 : 0];
  if (!is_per_channel(r, constant, *x, node.outputs[0])) return false;
  const Vector<float> c = values(r, constant);
  const auto negative = [](float v) { return -v; };
  const auto inverse = [](float v) { return 1 / v; };
  switch (node.kind) {
    case OpKind::add: f->bias = c; return true;
    case OpKind::mul: f->scale = c; return true;
    case OpKind::sub:
      f->bias = first ? c : map(c, negative);
      f->scale = {first ? -1.0f : 1.0f};
      return true;
    case OpKind::div: f->scale = map(c, inverse); return !first && is_finite(c);  // an infinite divisor has no inverse
    default: return false;
  }
}

// Reads a node as an affine function of x. Returns false if the node is none.
bool read_affine(Rewriter& r, const Node& node, Affine* f, int* x) {
  const Attributes& a = node.attributes;
  *f = Affine();
  *x = node.inputs[0];
  if (!r.is_float(node.outputs[0])) return false;  // bytes are rounded after each node
  switch (node.kind) {
    case OpKind::power:
      if (a.gamma != 1) return false;
      f->scale = {a.alpha};
      f->bias = {a.beta};
      return true;
    case OpKind::scale:
      f->scale = values(r, node.inputs[1]);
      if (node.inputs.size() > 2 && node.inputs[2] != no_tensor) f->bias = values(r, node.inputs[2]);
      break;
    case OpKind::add:
    case OpKind::sub:
    case OpKind::mul:
    case OpKind::div:
      if (!read_binary(r, node, f, x)) return false;
      break;
    case OpKind::clamp: break;
    default: return false;
  }
  f->min = a.min;
  f->max = a.max;
  return is_finite(f->scale) && is_finite(f->bias);
}

// The range [min, max] after a clamp to [low, high].
void clamp_range(float low, float high, float* min, float* max) {
  *min = std::min(std::max(*min, low), high);
  *max = std::min(std::max(*max, low), high);
}

// first = second(first(x)). Not all chains have this form: a clamp followed by a scale per channel would clamp each
// channel to another range.
bool compose(const Affine& second, Affine* first) {
  Affine f = *first;
  if (f.clamps()) {
    if (!second.is_uniform() || second.scale[0] == 0) return false;
    f.min = f.min * second.scale[0] + second.bias[0];
    f.max = f.max * second.scale[0] + second.bias[0];
    if (second.scale[0] < 0) std::swap(f.min, f.max);
  }
  const size_t n = std::max({f.scale.size(), f.bias.size(), second.scale.size(), second.bias.size()});
  Vector<float> scale(n), bias(n);
  for (size_t i = 0; i < n; ++i) {
    const double s = double{element(second.scale, i)};
    scale[i] = static_cast<float>(double{element(f.scale, i)} * s);
    bias[i] = static_cast<float>(double{element(f.bias, i)} * s + double{element(second.bias, i)});
  }
  f.scale = reduced(std::move(scale));
  f.bias = reduced(std::move(bias));
  clamp_range(second.min, second.max, &f.min, &f.max);
  if (!is_finite(f.scale) || !is_finite(f.bias) || !(f.min <= f.max)) return false;
  *first = std::move(f);
  return true;
}

int spread(Rewriter& r, const Vector<float>& v, size_t channels) {
  return r.add_constant({channels}, v.size() == channels ? v : Vector<float>(channels, v[0]));
}

// Whether the number of channels of x is the same for all shapes that the inputs of the graph may get.
bool has_fixed_channels(Rewriter& r, int x) {
  for (const Node* node = r.writer(x); node != nullptr; node = r.writer(node->inputs[0])) {
    const Kind& kind = kind_of(node->kind);
    if (kind.has(Kind::parameters)) return true;
    if (!kind.has(Kind::keeps_channels)) return false;
  }
  return false;
}

// Turns the node into f(x), of the simplest kind that can compute it. Returns false if no kind can.
bool write_affine(Rewriter& r, Node& node, const Affine& f, int x) {
  Attributes attributes;
  if (f.only_clamps()) {
    node.kind = OpKind::clamp;
    r.set_inputs(node, {x});
  } else if (f.is_uniform() && !f.clamps()) {
    node.kind = OpKind::power;
    attributes.alpha = f.scale[0];
    attributes.beta = f.bias[0];
    attributes.gamma = 1;
    r.set_inputs(node, {x});
  } else {
    if (f.is_uniform() && !has_fixed_channels(r, x)) return false;
    const size_t channels = f.is_uniform() ? r.shape(x).back() : std::max(f.scale.size(), f.bias.size());
    Vector<int> inputs = {x, spread(r, f.scale, channels)};
    if (f.bias != Vector<float>{0}) inputs.push_back(spread(r, f.bias, channels));
    node.kind = OpKind::scale;
    r.set_inputs(node, std::move(inputs));
  }
  attributes.min = f.min;
  attributes.max = f.max;
  node.attributes = std::move(attributes);
  return true;
}

bool is_unclamped(const Node& node) { return node.attributes.min == -infinity && node.attributes.max == infinity; }

// weights' = weights * scale, bias' = bias * scale + bias of f, per output channel. False when a number overflows.
bool fold_into_weights(Rewriter& r, Node& node, const Affine& f) {
  const Shape shape = r.shape(node.inputs[1]);
  const size_t outputs = shape[0];
  const std::span<const float> w = r.floats(node.inputs[1]);
  const size_t each = w.size() / outputs;
  Vector<float> weights(w.begin(), w.end()), bias(outputs, 0.0f);
  if (node.inputs.size() > 2 && node.inputs[2] != no_tensor) {
    const std::span<const float> b = r.floats(node.inputs[2]);
    bias.assign(b.begin(), b.end());
  }
  for (size_t o = 0; o < outputs; ++o) {
    const double s = double{element(f.scale, o)};
    for (size_t i = 0; i < each; ++i) weights[o * each + i] = static_cast<float>(double{weights[o * each + i]} * s);
    bias[o] = static_cast<float>(double{bias[o]} * s + double{element(f.bias, o)});
  }
  if (!is_finite(weights) || !is_finite(bias)) return false;
  const bool scales = f.scale != Vector<float>{1};
  const int new_weights = scales ? r.add_constant(shape, weights) : node.inputs[1];
  r.set_inputs(node, {node.inputs[0], new_weights, r.add_constant({outputs}, bias)});
  return true;
}

// The same for bytes with scales: only these and the bias change. False also if a scale would not be above 0.
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
    scales[i] = static_cast<float>(scale * double{element(f.scale, i / runs)});
    if (!(scales[i] > 0)) return false;
  }
  for (size_t o = 0; o < outputs; ++o) {
    bias[o] = static_cast<float>(double{bias[o]} * double{element(f.scale, o)} + double{element(f.bias, o)});
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

qn_status merge_affine(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Affine first, second;
    int x, between;
    if (r.removed(i) || !read_affine(r, r.node(i), &second, &between)) continue;
    Node* before = r.writer(between);
    if (before == nullptr || !r.read_once(between) || !read_affine(r, *before, &first, &x)) continue;
    if (compose(second, &first) && write_affine(r, r.node(i), first, x)) r.remove(*before);
  }
  return QN_OK;
}

qn_status fold_affine_into_weights(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Affine f;
    int x;
    if (r.removed(i) || !read_affine(r, r.node(i), &f, &x) || f.only_clamps()) continue;
    Node* layer = r.writer(x);
    if (layer == nullptr || !r.read_once(x) || !kind_of(layer->kind).has_weights() || !is_unclamped(*layer)) continue;
    const bool floats = r.is_float(layer->inputs[1]);
    if (!floats && (small || !layer->attributes.quantize_input)) continue;
    if (!(floats ? fold_into_weights(r, *layer, f) : fold_into_scales(r, *layer, f))) continue;
    layer->attributes.min = f.min;
    layer->attributes.max = f.max;
    r.take_output(*layer, x, r.node(i));
  }
  return QN_OK;
}

qn_status fuse_clamps(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& clamp = r.node(i);
    if (r.removed(i) || clamp.kind != OpKind::clamp || !r.is_float(clamp.inputs[0])) continue;
    Node* before = r.writer(clamp.inputs[0]);
    if (before == nullptr || !r.read_once(clamp.inputs[0]) || !kind_of(before->kind).has(Kind::clamps)) continue;
    clamp_range(clamp.attributes.min, clamp.attributes.max, &before->attributes.min, &before->attributes.max);
    r.take_output(*before, clamp.inputs[0], clamp);
  }
  return QN_OK;
}

}  // namespace quern

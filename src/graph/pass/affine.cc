// Reads nodes as affine functions.
#include "graph/pass/affine.h"
#include "base/search.h"

namespace quern {
namespace {

// Returns one element if all elements are equal, or else the vector as it is.
Vector<double> reduced(Vector<double> v) {
  if (std::all_of(v.begin(), v.end(), [&](double x) { return x == v[0]; })) v.resize(1);
  return v;
}

Vector<double> values(Rewriter& r, int constant) {
  const std::span<const float> floats = r.floats(constant);
  return reduced({floats.begin(), floats.end()});
}

Vector<double> map(Vector<double> v, double (*f)(double)) {
  std::transform(v.begin(), v.end(), v.begin(), f);
  return v;
}

// Whether the constant has one element, or one per channel of x, and does not make the result larger than x. Where there
// are no channels now, others may come.
bool is_per_channel(Rewriter& r, int constant, int x, int output) {
  const Shape& c = r.shape(constant);
  const size_t n = r.floats(constant).size();
  if (r.shape(x) != r.shape(output)) return false;
  return n == 1 || (n != 0 && c.back() == n && r.shape(x).back() == n);
}

// add, sub, mul, div of x and a constant, in either order.
bool read_binary(Rewriter& r, const Node& node, Affine* f, int* x) {
  const bool first = r.is_constant(node.inputs[0]);
  if (first == r.is_constant(node.inputs[1])) return false;
  const int constant = node.inputs[first ? 0 : 1];
  *x = node.inputs[first ? 1 : 0];
  if (!is_per_channel(r, constant, *x, node.outputs[0])) return false;
  const Vector<double> c = values(r, constant);
  if (node.kind == OpKind::sub && first && contains(c, 0.0)) return false;  // 0 - 0 is 0, -1 * 0 is -0
  const auto negative = [](double v) { return -v; };
  const auto inverse = [](double v) { return 1 / v; };
  switch (node.kind) {
    case OpKind::add: f->bias = c; return true;
    case OpKind::mul: f->scale = c; return true;
    case OpKind::sub:
      f->bias = first ? c : map(c, negative);
      f->scale = {first ? -1.0 : 1.0};
      return true;
    case OpKind::div: f->scale = map(c, inverse); return !first && is_finite(c);  // an infinite divisor has no inverse
    default: return false;
  }
}

}  // namespace

bool read_affine(Rewriter& r, const Node& node, Affine* f, int* x) {
  const Attributes& a = node.attributes;
  *f = Affine();
  if (node.inputs.empty()) return false;
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

void clamp_range(float low, float high, float* min, float* max) {
  *min = std::min(std::max(*min, low), high);
  *max = std::min(std::max(*max, low), high);
}

int spread(Rewriter& r, const Vector<double>& v, size_t channels) {
  Vector<float> floats(channels);
  for (size_t i = 0; i < channels; ++i) floats[i] = static_cast<float>(element(v, i));
  return r.add_constant({channels}, floats);
}

bool compose(const Affine& second, Affine* first) {
  Affine f = *first;
  if (f.clamps()) {
    if (!second.is_uniform() || second.scale[0] == 0) return false;
    const auto rounded = [&](float x) {
      const double product = double{static_cast<float>(double{x} * second.scale[0])};
      return static_cast<float>(product + second.bias[0]);
    };
    f.min = rounded(f.min);
    f.max = rounded(f.max);
    if (second.scale[0] < 0) std::swap(f.min, f.max);
  }
  const size_t n = std::max({f.scale.size(), f.bias.size(), second.scale.size(), second.bias.size()});
  Vector<double> scale(n), bias(n);
  for (size_t i = 0; i < n; ++i) {
    scale[i] = element(f.scale, i) * element(second.scale, i);
    bias[i] = element(f.bias, i) * element(second.scale, i) + element(second.bias, i);
  }
  f.scale = reduced(std::move(scale));
  f.bias = reduced(std::move(bias));
  clamp_range(second.min, second.max, &f.min, &f.max);
  if (!is_finite(f.scale) || !is_finite(f.bias) || !(f.min <= f.max)) return false;
  *first = std::move(f);
  return true;
}

}  // namespace quern

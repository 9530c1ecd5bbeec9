// Pass merge-affine: a chain of multiply, add and clamp by constants becomes one node.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/affine.h"
#include "graph/pass/match.h"

namespace quern {
namespace {

int spread(Rewriter& r, const Vector<float>& v, size_t channels) {
  return r.add_constant({channels}, v.size() == channels ? v : Vector<float>(channels, v[0]));
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

}  // namespace quern

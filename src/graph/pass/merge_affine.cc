// Pass merge-affine: a chain of multiply, add and clamp by constants becomes one node.
#include <algorithm>

#include "base/status.h"
#include "graph/ir/custom.h"
#include "graph/pass/affine.h"
#include "graph/pass/match.h"

namespace quern {
namespace {

// Turns the node into f(x), of the simplest kind that can compute it. Returns false if no kind can.
bool write_affine(Rewriter& r, Node& node, const Affine& f, int x) {
  const auto is_float = [](double v) { return std::isfinite(static_cast<float>(v)); };
  if (!std::all_of(f.scale.begin(), f.scale.end(), is_float) || !std::all_of(f.bias.begin(), f.bias.end(), is_float))
    return false;
  Attributes attributes;
  if (f.only_clamps()) {
    node.kind = OpKind::clamp;
    r.set_inputs(node, {x});
  } else if (f.is_uniform() && !f.clamps()) {
    node.kind = OpKind::power;
    attributes.alpha = static_cast<float>(f.scale[0]);
    attributes.beta = static_cast<float>(f.bias[0]);
    attributes.gamma = 1;
    r.set_inputs(node, {x});
  } else {
    if (f.is_uniform() && !has_fixed_channels(r, x)) return false;
    const size_t channels = f.is_uniform() ? r.shape(x).back() : std::max(f.scale.size(), f.bias.size());
    Vector<int> inputs = {x, spread(r, f.scale, channels)};
    if (f.bias != Vector<double>{0}) inputs.push_back(spread(r, f.bias, channels));
    node.kind = OpKind::scale;
    r.set_inputs(node, std::move(inputs));
  }
  attributes.min = f.min;
  attributes.max = f.max;
  node.attributes = std::move(attributes);
  return true;
}

// Sets the range of x, which is limited if a node that clamps computed it.
void range_of(Rewriter& r, int x, double* low, double* high) {
  const Node* node = r.writer(x);
  const bool clamped = node != nullptr && kind_of(node->kind).has(Kind::clamps);
  *low = clamped ? double{node->attributes.min} : -double{infinity};
  *high = clamped ? double{node->attributes.max} : double{infinity};
}

// Returns the flags of a node of a registered kind; 0 for other nodes.
uint32_t flags_of(const Node& node) {
  const qn_kind* const kind = node.kind == OpKind::custom ? find_kind(node.type.c_str()) : nullptr;
  return kind == nullptr ? 0 : kind->flags;
}

// Whether the node computes each element of its output from one element of each input, or moves elements.
bool passes_elements(const Node& node) {
  if (node.kind == OpKind::custom) return (flags_of(node) & (QN_KIND_ELEMENTWISE | QN_KIND_MOVES)) != 0;
  const Kind& kind = kind_of(node.kind);
  return kind.has(Kind::elementwise) || kind.types == TypeRule::moved || kind.types == TypeRule::chosen;
}

// Whether results of the node jump where its inputs change little. Comparisons and casts give integers.
bool jumps(Rewriter& r, const Node& node) {
  const uint32_t flags = flags_of(node);
  const auto is_float = [&](int tensor) { return tensor != no_tensor && r.is_float(tensor); };
  const bool leaves_floats =
      std::any_of(node.inputs.begin(), node.inputs.end(), is_float) && !is_float(node.outputs[0]);
  return (flags & QN_KIND_JUMPS) != 0 || ((flags & QN_KIND_ELEMENTWISE) != 0 && leaves_floats);
}

// Returns for each tensor whether its elements reach a node whose results jump.
Vector<bool> find_jumps(Rewriter& r) {
  Vector<bool> reach(r.graph().tensors.size(), false);
  const auto visit = [&](const Node& node) {
    const bool passes = passes_elements(node) && std::any_of(node.outputs.begin(), node.outputs.end(), [&](int output) {
                          return reach[static_cast<size_t>(output)];
                        });
    if (!passes && !jumps(r, node)) return;
    for (const int input : node.inputs) {
      if (input != no_tensor) reach[static_cast<size_t>(input)] = true;
    }
  };
  for (size_t i = r.later().size(); i-- > 0;) visit(r.later()[i]);
  for (size_t i = r.size(); i-- > 0;) visit(r.node(i));
  return reach;
}

// x limited to [0, 6] as some exporters of Caffe models write it: 6 - max(6 - max(x, 0), 0). It rounds x to multiples of
// an ulp of 6, which is not what the model means.
bool is_limit(const Affine& first, const Affine& second) {
  const auto reflects = [](const Affine& f) {
    return f.is_uniform() && f.scale[0] == -1 && f.bias[0] > 0 && f.bias[0] <= 6;
  };
  return reflects(first) && reflects(second) && first.bias == second.bias && first.min == 0;
}

// Whether two steps become one with the same bits: one of them only clamps, or the first only scales and the second only
// adds.
bool is_exact(const Affine& first, const Affine& second) {
  const auto has_float = [](const Affine& f) {
    return std::all_of(f.scale.begin(), f.scale.end(), [](double s) { return double{static_cast<float>(s)} == s; });
  };
  const bool adds = second.scale.size() == 1 && std::abs(second.scale[0]) == 1;
  return has_float(first) && has_float(second) &&
         (first.only_clamps() || second.only_clamps() || (first.bias == Vector<double>{0} && adds));
}

// A node and those before it that can become one with it.
struct Chain {
  Vector<Affine> steps;  // the first one first
  Vector<Node*> nodes;   // those that write the inputs of steps other than the first
  Affine merged;
  int x;
};

// Returns false if the node is not an affine function.
bool find_chain(Rewriter& r, const Node& node, Chain* chain) {
  if (!read_affine(r, node, &chain->merged, &chain->x)) return false;
  chain->steps = {chain->merged};
  chain->nodes = {};
  constexpr size_t most_steps = 16;
  while (chain->steps.size() < most_steps) {
    Node* const before = r.writer(chain->x);
    Affine step;
    int x;
    if (before == nullptr || !r.read_once(chain->x) || !read_affine(r, *before, &step, &x)) return true;
    Affine merged = step;
    if (!compose(chain->merged, &merged)) return true;
    chain->merged = std::move(merged);
    chain->steps.insert(chain->steps.begin(), std::move(step));
    chain->nodes.insert(chain->nodes.begin(), before);
    chain->x = x;
  }
  return true;
}

// Merges the whole chain if its result reaches no jump and stays close. Returns whether it did.
bool merge_all(Rewriter& r, Node& last, const Chain& chain, const Vector<bool>& reaches_jump) {
  Affine merged = chain.steps[0];  // in this order its clamps round as the steps do
  for (size_t i = 1; i < chain.steps.size(); ++i) {
    if (!compose(chain.steps[i], &merged)) return false;
  }
  double low, high;
  range_of(r, chain.x, &low, &high);
  if (reaches_jump[static_cast<size_t>(last.outputs[0])] ||
      !is_close_to_steps(merged, {chain.steps.data(), chain.steps.size()}, low, high) ||
      !write_affine(r, last, merged, chain.x)) {
    return false;
  }
  for (Node* node : chain.nodes) r.remove(*node);
  return true;
}

// Merges the last two steps of the chain if the bits remain, or if they are a limit.
void merge_last(Rewriter& r, Node& last, const Chain& chain) {
  const size_t n = chain.nodes.size();
  const Affine &first = chain.steps[n - 1], &second = chain.steps[n];
  Affine merged = first;
  if ((!is_exact(first, second) && !is_limit(first, second)) || !compose(second, &merged)) return;
  const int x = n == 1 ? chain.x : chain.nodes[n - 2]->outputs[0];
  if (write_affine(r, last, merged, x)) r.remove(*chain.nodes.back());
}

}  // namespace

qn_status merge_affine(Rewriter& r) {
  const Vector<bool> reaches_jump = find_jumps(r);
  // The last node of a chain comes first. If the chain cannot become one, no part of it can: a later step may cancel what
  // is large, and leave the error.
  Vector<bool> refused(r.size(), false);
  Chain chain;
  for (size_t i = r.size(); i-- > 0;) {
    if (r.removed(i) || refused[i] || !find_chain(r, r.node(i), &chain) || chain.nodes.empty()) continue;
    if (merge_all(r, r.node(i), chain, reaches_jump)) continue;
    for (const Node* before : chain.nodes) refused[static_cast<size_t>(before - &r.node(0))] = true;
  }
  for (size_t i = 0; i < r.size(); ++i) {
    if (r.removed(i) || !find_chain(r, r.node(i), &chain) || chain.nodes.empty()) continue;
    merge_last(r, r.node(i), chain);
  }
  return QN_OK;
}

}  // namespace quern

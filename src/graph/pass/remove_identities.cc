// Pass remove-identities: nodes that change nothing go.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

// Whether the node's output is its input whatever the shapes: an explicit size that happens to be the present one is
// not enough.
bool is_identity(const Node& node) {
  const Attributes& a = node.attributes;
  const Vector<int64_t>& v = a.values;
  const auto all = [](auto begin, auto end, int64_t value) {
    return std::all_of(begin, end, [&](int64_t x) { return x == value; });
  };
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  switch (node.kind) {
    case OpKind::clamp: return a.min == -infinity && a.max == infinity;
    case OpKind::concat: return node.inputs.size() == 1;
    case OpKind::pad: return all(v.begin(), v.end(), 0);
    case OpKind::power: return a.alpha == 1 && a.beta == 0 && a.gamma == 1;
    case OpKind::resize: return v.empty() && a.alpha == 1 && a.beta == 1;
    case OpKind::slice: return all(v.begin(), middle, 0) && all(middle, v.end(), -1);
    case OpKind::transpose: return std::is_sorted(v.begin(), v.end());
    default: return false;
  }
}

// A reshape that copies every dimension; one of them may also be inferred.
bool is_identity_reshape(Rewriter& r, const Node& node) {
  if (node.kind != OpKind::reshape) return false;
  const Vector<int64_t>& v = node.attributes.values;
  return v.size() == r.shape(node.inputs[0]).size() &&
         std::all_of(v.begin(), v.end(), [](int64_t x) { return x == 0 || x == -1; });
}

}  // namespace

qn_status remove_identities(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (is_identity(node) || is_identity_reshape(r, node)) r.bypass(node, node.inputs[0]);
  }
  return QN_OK;
}

}  // namespace quern

// Passes that compute values which are known before a run, and remove nodes that nobody needs.
#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/status.h"
#include "graph/backend/backend.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

// Folding trades file size for time, so a result must be small, or not much larger than the constants from which it is
// computed. This also limits the time and memory that a hostile model can cost.
constexpr size_t small_bytes = size_t{1} << 20;
constexpr size_t max_growth = 4;
constexpr uint64_t max_work = uint64_t{1} << 32;

size_t count(const Shape& shape) {
  size_t n = 1;
  for (const size_t d : shape) n *= d;
  return n;
}

bool worth_folding(Rewriter& r, const Node& node) {
  size_t in = 0;
  for (const int input : node.inputs) {
    if (input == no_tensor) continue;
    if (!r.is_constant(input)) return false;
    in += r.floats(input).size_bytes();
  }
  size_t out = 0;
  for (const int output : node.outputs) {
    if (!checked_add(out, count(r.shape(output)), &out)) return false;
  }
  if (out > std::max(small_bytes, max_growth * in) / sizeof(float)) return false;
  uint64_t work;
  return checked_mul<uint64_t>(out, std::max<uint64_t>(terms_of(r.graph(), node), 1), &work) && work <= max_work;
}

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

qn_status fold_constants(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (!worth_folding(r, node)) continue;
    QN_TRY(evaluate(r.graph(), node));
    r.remove(node);
  }
  return QN_OK;
}

qn_status remove_identities(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (is_identity(node) || is_identity_reshape(r, node)) r.bypass(node, node.inputs[0]);
  }
  return QN_OK;
}

qn_status remove_dead(Rewriter& r) {
  for (size_t i = r.size(); i-- > 0;) {
    const Vector<int>& outputs = r.node(i).outputs;
    if (std::none_of(outputs.begin(), outputs.end(), [&](int x) { return r.is_read(x); })) r.remove(r.node(i));
  }
  return QN_OK;
}

}  // namespace quern

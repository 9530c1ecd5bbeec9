// Pass fold-constants: nodes whose inputs are constants become constants.
#include <algorithm>

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

}  // namespace quern

// Pass merge-reshapes: a reshape of a reshape becomes one.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

// Replaces `second` by one reshape that does what `first` and then `second` do. Returns false if no list of values can
// express it.
bool compose_reshapes(const Vector<int64_t>& first, Vector<int64_t>* second) {
  bool infers = std::find(second->begin(), second->end(), -1) != second->end();
  for (size_t d = 0; d < second->size(); ++d) {
    const int64_t between = copied_dimension((*second)[d], d);
    if (between < 0) continue;
    const int64_t value = first[static_cast<size_t>(between)];
    if (value == -1 && infers) return false;
    infers = infers || value == -1;
    const int64_t source = copied_dimension(value, static_cast<size_t>(between));
    (*second)[d] = source < 0 ? value : copy_dimension(static_cast<size_t>(source), d);
  }
  return true;
}

}  // namespace

qn_status merge_reshapes(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i) || node.kind != OpKind::reshape) continue;
    const Node* before = r.writer(node.inputs[0], OpKind::reshape);
    if (before == nullptr) continue;
    Vector<int64_t> values = node.attributes.values;
    if (!compose_reshapes(before->attributes.values, &values)) continue;
    node.attributes.values = std::move(values);
    r.set_input(node, 0, before->inputs[0]);
  }
  return QN_OK;
}

}  // namespace quern

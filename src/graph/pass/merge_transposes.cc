// Pass merge-transposes: a transpose of a transpose becomes one, and none if both cancel each other.
#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {

qn_status merge_transposes(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i) || node.kind != OpKind::transpose) continue;
    const Node* before = r.writer(node.inputs[0], OpKind::transpose);
    if (before == nullptr) continue;
    for (int64_t& d : node.attributes.values) d = before->attributes.values[static_cast<size_t>(d)];
    r.set_input(node, 0, before->inputs[0]);
  }
  return QN_OK;
}

}  // namespace quern

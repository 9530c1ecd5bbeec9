// Pass fuse-clamps: an activation that clamps becomes part of the operator before it.
#include "base/status.h"
#include "graph/pass/affine.h"

namespace quern {

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

// Pass fold-pads: zeros around a convolution's or pooling's input become its padding.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

constexpr int64_t h = 1, w = 2;  // dimensions of an image

// Whether a pad adds to height and width alone.
bool pads_image(const Vector<int64_t>& widths) {
  return widths.size() == 8 && widths[0] == 0 && widths[3] == 0 && widths[4] == 0 && widths[7] == 0;
}

qn_padding enlarged(qn_padding p, const Vector<int64_t>& widths) {
  p.top += static_cast<size_t>(widths[h]);
  p.left += static_cast<size_t>(widths[w]);
  p.bottom += static_cast<size_t>(widths[4 + h]);
  p.right += static_cast<size_t>(widths[4 + w]);
  return p;
}

bool has_padding(const qn_padding& p) { return p.top + p.left + p.bottom + p.right != 0; }

// A lower bound of the elements that the tensor's writer computes.
float lower_bound(Rewriter& r, int tensor) {
  const Node* node = r.writer(tensor);
  return node != nullptr && kind_of(node->kind).has(Kind::clamps) ? node->attributes.min : -infinity;
}

// The element that stands for 0.
float zero_of(Rewriter& r, int tensor) {
  const Vector<int32_t>& zero_points = r.tensor(tensor).quantization.zero_points;
  if (zero_points.size() == 1) return static_cast<float>(zero_points[0]);
  return 0;
}

// Whether the node can do the work of `pad` with its own padding.
bool absorbs(Rewriter& r, const Node& pad, Node& node) {
  const Attributes& a = node.attributes;
  if (a.same_padding != SamePadding::no || a.quantize_input) return false;
  if (is_empty(r.tensor(pad.inputs[0]).shape)) return false;  // only a pad makes elements of nothing
  if (node.kind == OpKind::conv2d) return pad.attributes.alpha == zero_of(r, pad.inputs[0]);
  if (!r.is_float(pad.inputs[0])) return false;  // of integers, the value is an element and no real number
  const qn_padding p = enlarged(a.padding, pad.attributes.values);
  // With dilation, a window could contain only elements that `pad` has added, and no pixel of the image.
  if (a.dilation.h != 1 || a.dilation.w != 1) return false;
  if (a.ceil_mode || std::max(p.top, p.bottom) >= a.kernel.h || std::max(p.left, p.right) >= a.kernel.w) return false;
  // Padding never takes part in a maximum, and a value that is not above any pixel does not change one.
  if (node.kind == OpKind::max_pool) return pad.attributes.alpha <= lower_bound(r, pad.inputs[0]);
  // The elements that `pad` adds count in the average, so the pooling's own padding must count, too.
  return node.kind == OpKind::average_pool && pad.attributes.alpha == 0 && a.pool_rounding == QN_POOL_ROUND_REAL &&
         (a.count_padding || !has_padding(a.padding));
}

}  // namespace

qn_status fold_pads(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i) || node.inputs.empty()) continue;
    const Node* pad = r.writer(node.inputs[0], OpKind::pad);
    if (pad == nullptr || !pads_image(pad->attributes.values) || !absorbs(r, *pad, node)) continue;
    node.attributes.padding = enlarged(node.attributes.padding, pad->attributes.values);
    node.attributes.count_padding = node.kind == OpKind::average_pool;
    r.set_input(node, 0, pad->inputs[0]);
  }
  return QN_OK;
}

}  // namespace quern

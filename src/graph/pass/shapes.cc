// Passes about nodes that move elements: reshape, transpose, pad.
#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

// Replaces `second` by one reshape that does what `first` and then `second` do. Returns false if no list of values can
// express it.
bool compose_reshapes(const Vector<int64_t>& first, Vector<int64_t>* second) {
  const bool infers = std::find(second->begin(), second->end(), -1) != second->end();
  for (size_t d = 0; d < second->size(); ++d) {
    const int64_t between = copied_dimension((*second)[d], d);
    if (between < 0) continue;
    const int64_t value = first[static_cast<size_t>(between)];
    if (value == -1 && infers) return false;
    const int64_t source = copied_dimension(value, static_cast<size_t>(between));
    (*second)[d] = source < 0 ? value : copy_dimension(static_cast<size_t>(source), d);
  }
  return true;
}

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
  if (a.same_padding != SamePadding::no) return false;
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

// [O, C*H*W] -> [O, H, W, C]
int image_weights(Rewriter& r, int weights, const Shape& image) {
  const size_t outputs = r.shape(weights)[0], area = image[h] * image[w], channels = image[3];
  const std::span<const float> from = r.floats(weights);
  Vector<float> to(from.size());
  for (size_t o = 0; o < outputs; ++o) {
    const float* matrix = from.data() + o * area * channels;
    float* out = to.data() + o * area * channels;
    for (size_t c = 0; c < channels; ++c) {
      for (size_t i = 0; i < area; ++i) out[i * channels + c] = matrix[c * area + i];
    }
  }
  return r.add_constant({outputs, image[h], image[w], channels}, to);
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

qn_status fold_pads(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i)) continue;
    const Node* pad = r.writer(node.inputs[0], OpKind::pad);
    if (pad == nullptr || !pads_image(pad->attributes.values) || !absorbs(r, *pad, node)) continue;
    node.attributes.padding = enlarged(node.attributes.padding, pad->attributes.values);
    node.attributes.count_padding = node.kind == OpKind::average_pool;
    r.set_input(node, 0, pad->inputs[0]);
  }
  return QN_OK;
}

// Replaces a transpose to N,C,H,W, a reshape to N,C*H*W and a fully connected layer by a convolution whose kernel is
// the whole image, which needs no transpose. Unlike a fully connected layer with reordered weights, the convolution
// still refuses images of another height and width when the model is resized.
qn_status flatten_without_transpose(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& layer = r.node(i);
    if (r.removed(i) || layer.kind != OpKind::fully_connected || !r.is_float(layer.inputs[1])) continue;
    Node* reshape = r.writer(layer.inputs[0], OpKind::reshape);
    if (reshape == nullptr || !r.read_once(layer.inputs[0]) || r.shape(layer.inputs[0]).size() != 2) continue;
    const Node* transpose = r.writer(reshape->inputs[0], OpKind::transpose);
    if (transpose == nullptr || transpose->attributes.values != Vector<int64_t>{0, 3, 1, 2}) continue;
    const Shape image = r.shape(transpose->inputs[0]);
    if (r.shape(layer.inputs[0])[0] != image[0] || image[h] * image[w] == 1) continue;

    Vector<int> inputs = layer.inputs;
    inputs[0] = transpose->inputs[0];
    inputs[1] = image_weights(r, layer.inputs[1], image);
    Attributes flat;
    flat.values = {0, static_cast<int64_t>(r.shape(inputs[1])[0])};
    std::swap(layer.name, reshape->name);
    std::swap(layer.attributes, flat);
    reshape->attributes = std::move(flat);
    reshape->kind = OpKind::conv2d;
    layer.kind = OpKind::reshape;
    r.set_inputs(*reshape, std::move(inputs));
    r.set_inputs(layer, {reshape->outputs[0]});
  }
  return QN_OK;
}

}  // namespace quern

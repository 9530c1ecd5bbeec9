// Pass flatten-image: a fully-connected layer of a transposed image reads the image.
#include <utility>

#include "base/math.h"
#include "base/status.h"
#include "graph/pass/rewrite.h"

namespace quern {
namespace {

// Whether rows of weights have an element for each of an image's: a reshape of no image at all may say otherwise.
bool covers(const Shape& weights, const Shape& image) {
  size_t area, elements;
  return checked_mul(image[1], image[2], &area) && checked_mul(area, image[3], &elements) && weights[1] == elements;
}

// [O, C*H*W] -> [O, H, W, C]
int image_weights(Rewriter& r, int weights, const Shape& image) {
  const size_t outputs = r.shape(weights)[0], area = image[1] * image[2], channels = image[3];
  const std::span<const float> from = r.floats(weights);
  Vector<float> to(from.size());
  for (size_t o = 0; o < outputs; ++o) {
    const float* matrix = from.data() + o * area * channels;
    float* out = to.data() + o * area * channels;
    for (size_t c = 0; c < channels; ++c) {
      for (size_t i = 0; i < area; ++i) out[i * channels + c] = matrix[c * area + i];
    }
  }
  return r.add_constant({outputs, image[1], image[2], channels}, to);
}

}  // namespace

// Replaces a transpose to N,C,H,W, a reshape to N,C*H*W and a fully connected layer by a convolution whose kernel is
// the whole image, which needs no transpose. Unlike a fully connected layer with reordered weights, the convolution
// still refuses images of another height and width when the model is resized.
qn_status flatten_image(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& layer = r.node(i);
    if (r.removed(i) || layer.kind != OpKind::fully_connected || !r.is_float(layer.inputs[1])) continue;
    Node* reshape = r.writer(layer.inputs[0], OpKind::reshape);
    if (reshape == nullptr || !r.read_once(layer.inputs[0]) || r.shape(layer.inputs[0]).size() != 2) continue;
    const Node* transpose = r.writer(reshape->inputs[0], OpKind::transpose);
    if (transpose == nullptr || transpose->attributes.values != Vector<int64_t>{0, 3, 1, 2}) continue;
    const Shape image = r.shape(transpose->inputs[0]);
    if (r.shape(layer.inputs[0])[0] != image[0] || image[1] * image[2] == 1) continue;
    if (!covers(r.shape(layer.inputs[1]), image)) continue;

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

// Questions about nodes that could compute with bytes.
#include "graph/pass/quantized.h"

namespace quern {

int bytes_behind(Rewriter& r, int tensor) {
  const Node* dequantize = r.writer(tensor, OpKind::dequantize);
  if (dequantize == nullptr) return no_tensor;
  const Tensor& bytes = r.tensor(dequantize->inputs[0]);
  return bytes.type == QN_S8 && has_one_scale(bytes) ? dequantize->inputs[0] : no_tensor;
}

String name_of(const Node& node, const char* part) {
  String name = node.name;
  name += part;
  return name;
}

Vector<int> all_bytes_behind(Rewriter& r, const Node& node) {
  Vector<int> bytes;
  for (size_t i = 0; i < data_inputs(node); ++i) {
    bytes.push_back(bytes_behind(r, node.inputs[i]));
    if (bytes.back() == no_tensor) return {};
  }
  return bytes;
}

bool treats_bytes_alike(const Node& node) {
  const TypeRule types = kind_of(node.kind).types;
  const Attributes& a = node.attributes;
  if (types != TypeRule::moved && types != TypeRule::chosen) return false;
  if (node.kind == OpKind::pad) return a.alpha == 0;
  return node.kind != OpKind::resize || a.mode == QN_RESIZE_NEAREST;
}

void convert_padding(const Tensor& bytes, Node* node) {
  const Vector<int32_t>& zero_points = bytes.quantization.zero_points;
  if (node->kind == OpKind::pad) node->attributes.alpha = zero_points.empty() ? 0 : static_cast<float>(zero_points[0]);
}

}  // namespace quern

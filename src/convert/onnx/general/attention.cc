// Attention and RotaryEmbedding.
#include "convert/onnx/general/general.h"

namespace quern::onnx {
namespace {

Values attention(const OnnxNode& node) {
  const ElementType type = node.value(0).type;
  // We compute softmax as f32, also where the source's type is f16.
  if (node.integer("softmax_precision", 1) != 1) throw Unsupported{"softmax_precision of other than f32"};
  const float softcap = node.number("softcap", 0);
  int64_t scores = node.integer("qk_matmul_output_mode", 0);
  if (scores == 1 && softcap == 0 && node.opset < 25) scores = 2;  // ONNX came to tell the two apart
  Parameters parameters = Parameters()
                              .integer("causal", node.integer("is_causal", 0))
                              .integer("q_heads", node.integer("q_num_heads", 0))
                              .integer("kv_heads", node.integer("kv_num_heads", 0))
                              .integer("scores", scores)
                              .integer("left", node.integer("left_window_size", -1))
                              .integer("right", node.integer("right_window_size", -1))
                              .number("softcap", softcap);
  if (node.has_attribute("scale")) parameters = std::move(parameters).number("scale", node.number("scale", 1));
  return of_kind(node, "attention", std::move(parameters), std::vector<ElementType>(4, type));
}

Values rotary_embedding(const OnnxNode& node) {
  return of_kind(node, "rotary_embedding",
                 Parameters()
                     .integer("heads", node.integer("num_heads", 0))
                     .integer("rotated", node.integer("rotary_embedding_dim", 0))
                     .integer("interleaved", node.integer("interleaved", 0)),
                 {node.value(0).type});
}

}  // namespace

const OnnxTable& general_attention() {
  static const OnnxTable table = {
      {"Attention", {attention, 3, 7}},
      {"RotaryEmbedding", {rotary_embedding, 3, 4}},
  };
  return table;
}

}  // namespace quern::onnx

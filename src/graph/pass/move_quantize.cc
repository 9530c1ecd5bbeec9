// Pass move-quantize: nodes that move elements of floats do so after these have become bytes.
#include "base/status.h"
#include "graph/pass/quantized.h"

namespace quern {

qn_status move_quantize(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& quantize = r.node(i);
    if (r.removed(i) || quantize.kind != OpKind::quantize || !r.read_once(quantize.inputs[0])) continue;
    Node* node = r.writer(quantize.inputs[0]);
    if (node == nullptr || (node->kind != OpKind::transpose && node->kind != OpKind::reshape)) continue;
    const Tensor output = r.tensor(quantize.outputs[0]);
    if (!has_one_scale(output)) continue;
    const int real = node->inputs[0], bytes = r.add_tensor(output.type, output.quantization);
    r.insert_before(*node, OpKind::quantize, name_of(*node, "/quantize"), real, bytes);
    r.set_input(*node, 0, bytes);
    r.take_output(*node, node->outputs[0], quantize);
  }
  return QN_OK;
}

}  // namespace quern

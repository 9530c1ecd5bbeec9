// Pass move-dequantize: nodes that move or choose elements of bytes do so before these become floats.
#include <algorithm>

#include "base/status.h"
#include "graph/pass/quantized.h"

namespace quern {
namespace {

bool has_clamp(const Node& node) {
  const Attributes& a = node.attributes;
  return kind_of(node.kind).has(Kind::clamps) && (a.min != -infinity || a.max != infinity);
}

}  // namespace

qn_status move_dequantize(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& node = r.node(i);
    if (r.removed(i) || node.outputs.size() != 1 || !treats_bytes_alike(node) || has_clamp(node)) continue;
    Vector<int> bytes = all_bytes_behind(r, node);
    if (bytes.empty()) continue;
    const Tensor first = r.tensor(bytes[0]);
    if (!std::all_of(bytes.begin(), bytes.end(), [&](int x) { return same_numbers(r.tensor(x), first); })) continue;
    convert_padding(first, &node);
    r.set_inputs(node, std::move(bytes));
    const int real = node.outputs[0], moved = r.add_tensor(first.type, first.quantization);
    r.set_output(node, moved);
    r.insert_after(node, OpKind::dequantize, name_of(node, "/dequantize"), moved, real);
  }
  return QN_OK;
}

}  // namespace quern

// What is expected of tensors that only a run sizes.
//
// Runs give the results of loops and branches their shapes, although most have one shape in all runs. It is known here
// if the body keeps shapes, and so are those of what registered kinds make of such tensors. Sizes may be open, but not
// ranks.
#include <algorithm>

#include "base/border.h"
#include "convert/common/layout.h"
#include "graph/ir/custom.h"

namespace quern::convert {

void Builder::expect_shape(const View& view, const Shape& shape) {
  if (!is_sized(view)) expected_[view.tensor] = shape;
}

std::optional<Shape> Builder::expected_shape(const View& view) const {
  if (is_sized(view)) return shape(view);
  const auto at = expected_.find(view.tensor);
  return at == expected_.end() ? std::nullopt : std::optional(at->second);
}

// Asks the kind of the last node for the shapes of its outputs, as if those of all inputs were known.
void Builder::expect_of_last() {
  const Node& node = graph_.nodes.back();
  const qn_kind& kind = *find_kind(node.type.c_str());
  if (!tensor({node.outputs[0], {}}).sized_by_run || (kind.flags & QN_KIND_SIZED_BY_RUN) != 0) return;
  Vector<qn_operand> inputs = operands_of(graph_, node.inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == no_tensor) continue;
    const bool needs_data = i < 64 && (kind.value_inputs >> i & 1) != 0;
    if (needs_data && inputs[i].data == nullptr) return;
    if (!tensor({node.inputs[i], {}}).sized_by_run) continue;
    const auto at = expected_.find(node.inputs[i]);
    if (at == expected_.end() || at->second.size() > QN_MAX_RANK) return;
    inputs[i].tensor.rank = static_cast<uint32_t>(at->second.size());
    std::copy(at->second.begin(), at->second.end(), inputs[i].tensor.shape);
  }
  Vector<qn_tensor> outputs(node.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].type = tensor({node.outputs[i], {}}).type;
  if (call_host(kind.infer, shown(node), inputs.data(), inputs.size(), outputs.data(), outputs.size()) != QN_OK) {
    throw Error("node '" + std::string(node.name.c_str()) + "' (" + kind.name + "): " + qn_last_message());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].rank > QN_MAX_RANK) continue;
    expected_[node.outputs[i]] = Shape(outputs[i].shape, outputs[i].shape + outputs[i].rank);
  }
}

}  // namespace quern::convert

#include "graph/plan/fusion.h"

#include <algorithm>

#include "base/math.h"
#include "base/needs.h"

namespace quern {
namespace {

class Finder {
 public:
  Finder(const Model& model, const Graph& graph, const Vector<Placement>& places, const ExecutionOptions& options)
      : model_(model),
        graph_(graph),
        places_(places),
        options_(options),
        fusions_(graph.nodes.size()),
        reads_(graph.tensors.size()),
        writer_(graph.tensors.size(), nobody) {
    for (const Port& port : graph_.outputs) ++reads_[at(port.tensor)];
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const int output : graph_.nodes[i].outputs) writer_[at(output)] = i;
      for (const int input : graph_.nodes[i].inputs) {
        if (input != no_tensor) ++reads_[at(input)];
      }
    }
  }

  qn_status run(Vector<Fusion>* fusions) {
    // Choices are measured for single operators, so a session that tunes makes no chains.
    for (size_t i = 0; i < graph_.nodes.size() && !options_.tune; ++i) QN_TRY(chain(i));
    for (size_t i = 0; has_residual && i < graph_.nodes.size(); ++i) QN_TRY(add_residual(i));
    *fusions = std::move(fusions_);
    return QN_OK;
  }

 private:
  static constexpr size_t nobody = SIZE_MAX;

  // Returns the node that writes the tensor, if `reader` is the only node that needs it and neither of them is fused
  // yet.
  size_t only_for(size_t reader, int tensor) const {
    const size_t i = writer_[at(tensor)];
    if (i == nobody || reads_[at(tensor)] != 1 || places_[at(tensor)].kind != Placement::own) return nobody;
    for (const size_t node : {i, reader}) {
      if (graph_.nodes[node].kind == OpKind::copy || graph_.nodes[node].outputs.size() != 1) return nobody;
      if (is_view(graph_, graph_.nodes[node])) return nobody;
    }
    if (fusions_[i].plan != nullptr || fusions_[i].absorbed || fusions_[reader].plan != nullptr) return nobody;
    return model_.operators[i].backend == model_.operators[reader].backend ? i : nobody;
  }

  qn_status fuse(size_t first, size_t last, Vector<int> inputs, size_t shown, qn_status status,
                 std::unique_ptr<NodePlan> plan) {
    if (status == QN_UNSUPPORTED) return QN_OK;
    QN_TRY(name_culprit(status, graph_.nodes[last]));
    fusions_[first].absorbed = true;
    fusions_[last].plan = std::move(plan);
    fusions_[last].inputs = std::move(inputs);
    fusions_[last].shown = shown;
    return QN_OK;
  }

  // Fuses the node with the one that writes its first input, so that both run in one pass.
  qn_status chain(size_t i) {
    const Node& second = graph_.nodes[i];
    if (second.kind == OpKind::custom) return QN_OK;
    const size_t first = only_for(i, second.inputs[0]);
    if (first == nobody || is_empty(graph_.tensors[at(second.outputs[0])].shape)) return QN_OK;
    const Node& node = graph_.nodes[first];
    std::unique_ptr<NodePlan> plan;
    const NodeOperator &a = *model_.operators[first].op, &b = *model_.operators[i].op;
    const qn_status status = a.plan_chain(graph_, node, b, second, options_, &plan);
    return fuse(first, i, {node.inputs[0]}, i, status, std::move(plan));
  }

  // Makes a sum of two tensors part of the node that computes the later one of them.
  qn_status add_residual(size_t i) {
    const Node& add = graph_.nodes[i];
    if (add.kind != OpKind::add || add.inputs[0] == add.inputs[1]) return QN_OK;
    const auto& tensors = graph_.tensors;
    const Tensor &a = tensors[at(add.inputs[0])], &b = tensors[at(add.inputs[1])];
    if (a.shape != b.shape || is_empty(a.shape) || a.constant >= 0 || b.constant >= 0) return QN_OK;
    Vector<int> inputs = add.inputs;
    heap_sort(inputs.begin(), inputs.end(), [&](int x, int y) { return writer_[at(x)] + 1 > writer_[at(y)] + 1; });
    for (const int sum : inputs) {
      const size_t conv = only_for(i, sum);
      if (conv == nobody) continue;
      const Node& node = graph_.nodes[conv];
      const int other = sum == add.inputs[0] ? add.inputs[1] : add.inputs[0];
      std::unique_ptr<NodePlan> plan;
      const Residual residual = {other, add.outputs[0], add.attributes.min, add.attributes.max};
      const qn_status status = model_.operators[conv].op->plan_residual(graph_, node, residual, options_, &plan);
      QN_TRY(fuse(conv, i, {node.inputs[0], other}, conv, status, std::move(plan)));
    }
    return QN_OK;
  }

  const Model& model_;
  const Graph& graph_;
  const Vector<Placement>& places_;
  const ExecutionOptions& options_;
  Vector<Fusion> fusions_;
  Vector<size_t> reads_, writer_;  // per tensor
};

}  // namespace

qn_status find_fusions(const Model& model, const Graph& graph, const Vector<Placement>& places,
                       const ExecutionOptions& options, Vector<Fusion>* fusions) {
  const bool open = options.algorithm == QN_ALGORITHM_AUTO || options.algorithm == QN_ALGORITHM_DENSE;
  if (!open) {  // a user who asks for an algorithm wants it for every operator
    fusions->resize(graph.nodes.size());
    return QN_OK;
  }
  return Finder(model, graph, places, options).run(fusions);
}

}  // namespace quern

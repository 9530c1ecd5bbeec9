// Nodes of registered kinds: the functions of the kind do what an operator of op.h does for other nodes.
#include "graph/backend/custom_backend.h"

#include <utility>

#include "base/journal.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/needs.h"
#include "base/status.h"
#include "base/tensor.h"

namespace quern {
namespace {

// What a function of a kind has made, which another one of its functions frees.
class Made {
 public:
  explicit Made(void (*release)(void*)) : release_(release) {}
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    if (thing_ == nullptr) return;
    forget(thing_);
    call_host(release_, thing_);
  }

  void* get() const { return thing_; }
  void set(void* thing) {
    if (thing != nullptr) note(thing, reinterpret_cast<size_t>(release_), free);
    thing_ = thing;
  }

 private:
  static void free(void* thing, size_t release) { reinterpret_cast<void (*)(void*)>(release)(thing); }

  void (*release_)(void*);
  void* thing_ = nullptr;
};

// Runs a node. Booleans that it computes become 0 or 1.
qn_status run_kind(const qn_kind& kind, const qn_node_run* run) {
  const qn_status status = call_host(kind.run, run);
  for (size_t i = 0; has_integers && status == QN_OK && i < run->output_count; ++i) {
    const qn_operand& output = run->outputs[i];
    if (output.tensor.type == QN_BOOL) copy_booleans(output.data, element_count(output.tensor), output.data);
  }
  return status;
}

class CustomPlan : public NodePlan {
 public:
  CustomPlan(const qn_kind& kind, const Graph& shapes, const Node& node, void* made)
      : kind_(kind),
        node_(node),
        made_(made),
        inputs_(operands_of(shapes, node.inputs)),
        outputs_(operands_of(shapes, node.outputs)),
        planned_(kind.release_plan) {}

  qn_status plan(size_t tasks) {
    if (kind_.plan == nullptr) return QN_OK;
    void* planned = nullptr;
    QN_TRY(call_host(kind_.plan, shown(node_), made_, std::as_const(inputs_).data(), inputs_.size(),
                     std::as_const(outputs_).data(), outputs_.size(), tasks, &planned, &workspace_));
    planned_.set(planned);
    if (workspace_ <= most_workspace) return QN_OK;
    return fail(QN_OUT_OF_MEMORY, "kind '%s': a workspace of %zu bytes is too large", kind_.name, workspace_);
  }

  size_t workspace_size() const override {
    return own_workspace() + (inputs_.size() + outputs_.size()) * sizeof(qn_operand);
  }
  PlanInfo info() const override { return {}; }

  qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location& workspace,
                const qn_parallel* parallel) const override {
    auto* const operands = reinterpret_cast<qn_operand*>(static_cast<char*>(address(workspace)) + own_workspace());
    const auto fill = [&](const Vector<qn_operand>& from, std::span<const Location> locations, qn_operand* to) {
      for (size_t i = 0; i < from.size(); ++i) to[i] = {from[i].tensor, address(locations[i])};
    };
    qn_operand* const results = operands + inputs.size();
    fill(inputs_, inputs, operands);
    fill(outputs_, outputs, results);
    const qn_node_run run = {shown(node_),   operands,           inputs.size(), results, outputs.size(), made_,
                             planned_.get(), address(workspace), parallel,      nullptr, nullptr};
    return run_kind(kind_, &run);
  }

 private:
  static constexpr size_t most_workspace = SIZE_MAX / 2;

  // The operands of a run lie behind the workspace that the kind has asked for.
  size_t own_workspace() const { return round_up(workspace_, cache_line); }

  const qn_kind& kind_;
  const Node& node_;
  void* const made_;
  const Vector<qn_operand> inputs_, outputs_;
  Made planned_;
  size_t workspace_ = 0;
};

class CustomOperator : public NodeOperator {
 public:
  explicit CustomOperator(const qn_kind& kind) : use_(kind), made_(kind.release) {}

  qn_status create(const Graph& graph, const Node& node) {
    if (use_.kind.create == nullptr) return QN_OK;
    const Vector<qn_operand> inputs = operands_of(graph, node.inputs);
    void* made = nullptr;
    QN_TRY(call_host(use_.kind.create, shown(node), inputs.data(), inputs.size(), &made));
    made_.set(made);
    return QN_OK;
  }

  qn_status run(qn_node_run* run) const {
    run->made = made_.get();
    return run_kind(use_.kind, run);
  }

  bool in_place(size_t) const override { return (use_.kind.flags & QN_KIND_IN_PLACE) != 0; }
  bool strided() const override { return false; }
  Layouts layouts() const override { return Layouts::nhwc; }
  double cost(const Graph&, const Node&, const ExecutionOptions&) const override { return 0; }

  qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions& options,
                 std::unique_ptr<NodePlan>* plan) const override {
    std::unique_ptr<CustomPlan> made(new CustomPlan(use_.kind, shapes, node, made_.get()));
    QN_TRY(made->plan(options.tasks));
    *plan = std::move(made);
    return QN_OK;
  }

  qn_status plan_chain(const Graph&, const Node&, const NodeOperator&, const Node&, const ExecutionOptions&,
                       std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }
  qn_status plan_residual(const Graph&, const Node&, const Residual&, const ExecutionOptions&,
                          std::unique_ptr<NodePlan>*) const override {
    return QN_UNSUPPORTED;
  }

 private:
  const KindUse use_;
  Made made_;
};

bool claims_custom(const Graph&, const Node& node) { return node.kind == OpKind::custom; }

qn_status create_custom(const Graph& graph, const Node& node, qn_weights_cache*, std::unique_ptr<NodeOperator>* made) {
  std::unique_ptr<CustomOperator> op(new CustomOperator(*find_kind(node.type.c_str())));
  QN_TRY(op->create(graph, node));
  *made = std::move(op);
  return QN_OK;
}

}  // namespace

qn_status run_custom(const NodeOperator& op, qn_node_run* run) {
  return static_cast<const CustomOperator&>(op).run(run);
}

const Backend custom_backend = {"custom", nullptr, claims_custom, create_custom, nullptr};

}  // namespace quern

// Who runs nodes.
//
// A backend is one entry of backends(). A model asks the entries in order which of them claims a node and lets that one
// make the node's operator; a session plans the operator for its shapes and runs the plan. Another backend, the
// operators of another library or of a host are further entries; nothing else changes.
#pragma once

#include <memory>
#include <span>

#include "graph/ir/kinds.h"

namespace quern {

// What a convolution does to its result: it adds `tensor`, clamps and writes that to `output`.
struct Residual {
  int tensor = no_tensor, output = no_tensor;
  float min = 0, max = 0;
};

// How a session runs what it plans.
struct ExecutionOptions {
  size_t tasks = 1;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;  // where it applies
  qn_tuning* tuning = nullptr;                 // the following as in qn_plan_options
  bool tune = false;
  const qn_parallel* parallel = nullptr;
  size_t traffic = 0;
};

// What qn_profile_entry tells about a plan.
struct PlanInfo {
  const char* algorithm = "";
  const char* kernel = "";
  uint64_t macs = 0;
};

// A node for one set of shapes. Immutable; sessions that share it may run it at the same time.
class NodePlan : public Allocated {
 public:
  virtual ~NodePlan() = default;
  // Bytes of memory, aligned to 64, that a run uses and that nothing relies on between runs.
  virtual size_t workspace_size() const = 0;
  virtual PlanInfo info() const = 0;
  // One address per input of the node (NULL where absent) and output. `workspace` may be NULL where none is needed.
  virtual qn_status run(const void* const* inputs, void* const* outputs, void* workspace,
                        const qn_parallel* parallel) const = 0;
};

// A node of a model, its weights packed as far as shapes do not matter. Shared by sessions.
class NodeOperator : public Allocated {
 public:
  virtual ~NodeOperator() = default;
  // The output may lie in the buffer of this input, if they have the same shape.
  virtual bool in_place(size_t input) const = 0;
  // Inputs and output may lie within larger tensors, with strides.
  virtual bool strided() const = 0;
  virtual Layouts layouts() const = 0;
  // About how many cycles the node takes with its tensors in the layouts they have, beyond what it takes in any;
  // infinite if it does not work so.
  virtual double cost(const Graph& shapes, const Node& node, const ExecutionOptions& options) const = 0;
  // `shapes` has the shapes of the node's tensors; its node and constants are those the operator was made from.
  virtual qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions& options,
                         std::unique_ptr<NodePlan>* plan) const = 0;
  // The same for this node and the only reader of its output, `next`, in one pass: the plan reads this one's inputs and
  // writes that one's output. QN_UNSUPPORTED where that is not possible or does not pay.
  virtual qn_status plan_chain(const Graph& shapes, const Node& node, const NodeOperator& next, const Node& next_node,
                               const ExecutionOptions& options, std::unique_ptr<NodePlan>* plan) const = 0;
  // The same for this node with a residual; the plan's inputs are this node's first one and the residual.
  virtual qn_status plan_residual(const Graph& shapes, const Node& node, const Residual& residual,
                                  const ExecutionOptions& options, std::unique_ptr<NodePlan>* plan) const = 0;
};

struct Backend {
  const char* name;
  bool (*claims)(const Graph& graph, const Node& node);
  // The constants of the graph outlive the operator.
  qn_status (*create)(const Graph& graph, const Node& node, qn_weights_cache* cache,
                      std::unique_ptr<NodeOperator>* made);
  // Waits until everything that run() began is done; called before anybody else touches the data. NULL: run() waits.
  void (*synchronise)();
};

extern const Backend cpu_backend;

// In the order in which they are asked.
std::span<const Backend* const> backends();

// The first backend that claims the node; NULL when none does.
const Backend* find_backend(const Graph& graph, const Node& node);

// Runs a node whose inputs are all constants and makes constants of its outputs, which it no longer writes.
qn_status evaluate(Graph& graph, const Node& node);

// Description of a tensor with a known shape.
qn_tensor describe(const Tensor& tensor);

}  // namespace quern

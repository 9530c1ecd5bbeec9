// Backends: they run the nodes of a model.
//
// For each node, a model asks the backends one after the other until one claims the node; that backend makes the node's
// operator. A session plans the operator for its shapes and runs the plan. The CPU is asked last; other backends, for
// example for a device or with the operators of another library or of a host, come before it (add_backend). A backend
// may have a memory of its own, which then holds everything that its nodes read and write. Copy nodes move tensors from
// one memory to another (plan/conversions.h).
#pragma once

#include <memory>
#include <span>

#include "base/needs.h"
#include "graph/backend/memory.h"
#include "graph/ir/kinds.h"

namespace quern {

// A sum that a convolution computes with its result: it adds `tensor`, clamps the sum to [min, max] and writes it to
// `output`.
struct Residual {
  int tensor = no_tensor, output = no_tensor;
  float min = 0, max = 0;
};

// Options of a session for planning and running.
struct ExecutionOptions {
  size_t tasks = 1;
  qn_algorithm algorithm = QN_ALGORITHM_AUTO;  // forced on the nodes to which it applies
  qn_tuning* tuning = nullptr;                 // this and the following members are as in qn_plan_options
  bool tune = false;
  const qn_parallel* parallel = nullptr;
  size_t traffic = 0;
};

// What qn_profile_entry says about a plan.
struct PlanInfo {
  const char* algorithm = "";
  const char* kernel = "";
  uint64_t macs = 0;
};

// A node planned for one set of shapes. Immutable; several sessions may share a plan and run it at the same time.
class NodePlan : public Allocated {
 public:
  virtual ~NodePlan() = default;
  // Size of the workspace that a run uses. It lies in the backend's memory, aligned to 64 bytes, and its content does
  // not matter between runs.
  virtual size_t workspace_size() const = 0;
  virtual PlanInfo info() const = 0;
  // Takes one location for each input that the plan was made for, and one for each output. All of them lie in the
  // backend's memory, except for parameters (such as weights), which stay where the graph has them. If `parallel` is
  // NULL, tasks run one after the other.
  virtual qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location& workspace,
                        const qn_parallel* parallel) const = 0;
};

// A node of a model. Its weights are packed as far as this does not depend on shapes. Shared by sessions.
class NodeOperator : public Allocated {
 public:
  virtual ~NodeOperator() = default;
  // Whether the output may lie in this input's buffer, provided that the node has one output and both have the same
  // shape.
  virtual bool in_place(size_t input) const = 0;
  // Whether inputs and output may lie within larger tensors, with strides.
  virtual bool strided() const = 0;
  virtual Layouts layouts() const = 0;
  // Estimates the cycles that the node takes with its tensors in their present layouts, not counting those that it
  // takes in every layout. Infinite if the node does not work with these layouts.
  virtual double cost(const Graph& shapes, const Node& node, const ExecutionOptions& options) const = 0;
  // Plans the node for the tensors' shapes in `shapes`, whose node and constants are those that the operator was made
  // from.
  virtual qn_status plan(const Graph& shapes, const Node& node, const ExecutionOptions& options,
                         std::unique_ptr<NodePlan>* plan) const = 0;
  // Plans this node and `next`, the only reader of its output, as one pass: the plan reads this node's inputs and
  // writes the output of `next`. Returns QN_UNSUPPORTED if that is not possible or not faster.
  virtual qn_status plan_chain(const Graph& shapes, const Node& node, const NodeOperator& next, const Node& next_node,
                               const ExecutionOptions& options, std::unique_ptr<NodePlan>* plan) const = 0;
  // Plans this node together with a residual; the plan's inputs are this node's first input and the residual.
  virtual qn_status plan_residual(const Graph& shapes, const Node& node, const Residual& residual,
                                  const ExecutionOptions& options, std::unique_ptr<NodePlan>* plan) const = 0;
};

struct Backend {
  const char* name;
  const Memory* memory;  // the memory that its nodes compute in; NULL: the host's
  bool (*claims)(const Graph& graph, const Node& node);
  // Makes the operator of a node that the backend claims. The constants of the graph outlive the operator.
  qn_status (*create)(const Graph& graph, const Node& node, qn_weights_cache* cache,
                      std::unique_ptr<NodeOperator>* made);
  // Waits until all runs of nodes and all copies of the memory that have begun are done, and returns an error if one of
  // them failed. It is called before anybody else touches the data, and after a failure. NULL: runs and copies only
  // return when they are done.
  qn_status (*synchronise)();
};

extern const Backend cpu_backend;
extern const Backend custom_backend;  // runs nodes of registered kinds

// Adds a backend, which is asked before those added earlier. It must outlive all models that are loaded from now on,
// and no model may be loading during the call. Fails if there are too many backends.
constexpr size_t max_backends = has_backends ? 8 : 1;
qn_status add_backend(const Backend& backend);
// Models that are loaded from now on do not use the backend.
void remove_backend(const Backend& backend);

// Points to place_conversions() of plan/conversions.h once a backend has been added, and is NULL before. So
// libquern.so, and programs that add no backend, are linked without that function.
struct Model;
extern void (*between_backends)(Model& model);

// Returns the first backend that claims the node, or NULL if none does.
const Backend* find_backend(const Graph& graph, const Node& node);

// Runs a node whose inputs are all constants, and turns its outputs into constants. The caller has to remove the node,
// which no longer writes them.
qn_status evaluate(Graph& graph, const Node& node);

// Whether a run of the node reads this input. It does not read parameters: they are already part of the operator.
bool is_read_by_runs(const Node& node, size_t input);

// Describes a tensor whose shape is known.
qn_tensor describe(const Tensor& tensor);

}  // namespace quern

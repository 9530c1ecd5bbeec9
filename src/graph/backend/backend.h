// Who runs nodes.
//
// A model asks the backends in order which of them claims a node and lets that one make the node's operator; a session
// plans the operator for its shapes and runs the plan. The CPU is the last to be asked; another backend, the operators
// of another library or of a host come before it (add_backend). A backend may have a memory of its own: what its nodes
// read and write lies there, and nodes that copy stand where tensors go from one memory to another (plan/conversions.h).
#pragma once

#include <memory>
#include <span>

#include "base/needs.h"
#include "graph/backend/memory.h"
#include "graph/ir/ir.h"

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

// What layouts the tensors of a node may have.
enum class Layouts : uint8_t {
  nhwc,  // that one
  same,  // any, but the same for all
  any,   // the input's and the output's may differ
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
  // Bytes of the backend's memory, aligned to 64, that a run uses and that nothing relies on between runs.
  virtual size_t workspace_size() const = 0;
  virtual PlanInfo info() const = 0;
  // One location per input that the plan was made for and per output, all of them in the backend's memory, but for
  // parameters (weights and the like), which stay where the graph has them. `parallel` may be NULL: one task at a time.
  virtual qn_status run(std::span<const Location> inputs, std::span<const Location> outputs, const Location& workspace,
                        const qn_parallel* parallel) const = 0;
};

// A node of a model, its weights packed as far as shapes do not matter. Shared by sessions.
class NodeOperator : public Allocated {
 public:
  virtual ~NodeOperator() = default;
  // The output, if it is the only one, may lie where this input does, if they have the same shape.
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
  const Memory* memory;  // that its nodes compute in; NULL: the host's
  bool (*claims)(const Graph& graph, const Node& node);
  // The constants of the graph outlive the operator.
  qn_status (*create)(const Graph& graph, const Node& node, qn_weights_cache* cache,
                      std::unique_ptr<NodeOperator>* made);
  // Waits until all that was begun is done, by runs of nodes and copies of the memory; called before anybody else
  // touches the data, and after a failure. Reports what went wrong meanwhile. NULL: nothing returns before it is done.
  qn_status (*synchronise)();
};

extern const Backend cpu_backend;

// Adds a backend, to be asked before those that are there already. It outlives the models that are loaded from now on,
// and no model is being loaded at this time. Fails where there are too many.
constexpr size_t max_backends = has_backends ? 8 : 1;
qn_status add_backend(const Backend& backend);
// Models that are loaded from now on do without it.
void remove_backend(const Backend& backend);

// place_conversions() of plan/conversions.h, once a backend has been added. NULL before, so that programs that add none,
// and libquern.so, are linked without it.
struct Model;
extern void (*between_backends)(Model& model);

// The first backend that claims the node; NULL when none does.
const Backend* find_backend(const Graph& graph, const Node& node);

// Whether the output of a node is its first input under another shape, so that there is nothing to run.
bool is_view(const Graph& graph, const Node& node);

// Runs a node whose inputs are all constants. `output` receives the dense result.
qn_status evaluate(const Graph& graph, const Node& node, Buffer* output);

// Does a run of the node read this input? Parameters went into the operator.
bool is_read_by_runs(const Node& node, size_t input);

// Description of a tensor with a known shape.
qn_tensor describe(const Tensor& tensor);

}  // namespace quern

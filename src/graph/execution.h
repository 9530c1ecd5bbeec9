// A model planned for one set of input shapes: every node's plan, the arena, and who reads and writes where.
#pragma once

#include "graph/fusion.h"
#include "graph/memory_plan.h"
#include "graph/model.h"

namespace quern {

class Execution : public Allocated {
 public:
  // One node to run.
  struct Step {
    size_t node;
    size_t shown;  // the node that a profile names
    const Backend* backend;
    std::unique_ptr<NodePlan> plan;
    Vector<const void*> inputs;  // addresses; NULL for those that lie in a user's buffer
    Vector<int> user_inputs;     // per input: the graph's input whose buffer it lies in, or -1
    Vector<size_t> offsets;      // and how far from the beginning of that buffer
    void* output;
    void* workspace;
  };

  // `graph` is the model's with the shapes of this session, already inferred.
  static qn_status make(const Model& model, Graph graph, const ExecutionOptions& options,
                        std::unique_ptr<Execution>* made);

  const Graph& graph() const { return graph_; }
  size_t arena_bytes() const { return arena_.size(); }
  const void* output(size_t index) const { return outputs_[index].data; }

  // A run is begin(), run() of every step in order, end(). `inputs`: the user's buffers, one per input of the graph.
  const Vector<Step>& steps() const { return steps_; }
  void begin(const void* const* inputs);
  qn_status run(size_t step, const qn_parallel* parallel);
  void end(const void* const* inputs);

 private:
  // Where the elements of a tensor lie.
  struct Home {
    enum { none, constant, user, arena } kind = none;
    size_t index = 0;   // of the constant, the graph's input, the block
    size_t offset = 0;  // from its beginning
  };
  // An output that the user does not get straight from its tensor: it has another type, or its elements lie in a buffer
  // of the user's that may be gone when the output is asked for.
  struct Output {
    const void* data = nullptr;  // what the user gets
    bool copied = false;
    size_t block = 0;  // of the copy
  };

  explicit Execution(Graph graph) : graph_(std::move(graph)) {}
  void find_lifetimes();
  void assign_homes(const Model& model);
  bool runs(const Node& node) const;
  bool run_in_place(const NodeOperator& op, size_t node);
  void assign_outputs();
  qn_status plan_nodes(const Model& model, const ExecutionOptions& options);
  void bind();

  const Tensor& tensor(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }
  size_t bytes(int index) const;
  size_t add_block(size_t size, size_t first, size_t last);
  void* block_address(size_t block) const;
  const void* address(const Home& home, const void* const* inputs) const;
  // Steps as the memory plan counts them: 0 converts inputs, then come the nodes, the last copies outputs.
  size_t last_step() const { return graph_.nodes.size() + 1; }

  Graph graph_;
  Vector<Placement> places_;  // per tensor
  Vector<int> source_;        // per tensor: the tensor whose elements it shows, itself unless it is a view
  Vector<Fusion> fusions_;    // per node; the steps have their plans
  Vector<size_t> last_use_;   // per tensor that is no view: the last step that reads it or a view of it
  Vector<Home> homes_;        // per tensor
  Vector<Block> blocks_;
  Vector<size_t> workspaces_;  // per step: its block
  Vector<Step> steps_;
  Vector<Output> outputs_;
  Buffer arena_;
};

}  // namespace quern

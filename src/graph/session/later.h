// Nodes whose tensors only a run can size: shapes depend on elements of tensors, or on which graph a node runs. All other
// nodes of a model are planned before a run and come first (Execution). Then these run one by one: each is planned for the
// shapes that it meets, unless these are those that it met last.
#pragma once

#include <quern/graph.h>

#include "base/vector.h"
#include "graph/backend/custom_backend.h"
#include "graph/session/model.h"

namespace quern {

// Adds one run of an operator to its entry.
inline void note_run(uint64_t start_ns, uint64_t time_ns, qn_profile_entry* entry) {
  entry->start_ns = start_ns;
  entry->time_ns += time_ns;
  ++entry->runs;
}

class LaterRun : public Allocated {
 public:
  // `limit`: bytes that the outputs of these nodes may take.
  LaterRun(const Model& model, const ExecutionOptions& options, size_t limit);
  ~LaterRun();

  // Says where the elements of a tensor lie that other nodes have computed, or that is an input, and which shape it has.
  void give(size_t index, const Tensor& tensor, const void* data);
  // Runs all nodes, unless `parallel` says that the run was cancelled. `profile`: an entry for each node, or NULL;
  // `start`: when the session's run began, by now_ns().
  qn_status run(const qn_parallel* parallel, qn_profile_entry* profile, uint64_t start);

  // After a run: the shape of a tensor, and its elements.
  const Tensor& tensor(size_t index) const { return shapes_.tensors[index]; }
  const void* data(size_t index) const { return data_[index]; }
  // The same of an output that the user sees as QN_F16, `output` counts them; made by run().
  const void* half(size_t output) const { return halves_[output].data(); }
#ifndef QN_SMALL  // has_subgraphs
  // The sessions of a node's graphs; NULL for those that have not run.
  const Vector<qn_session*>& sessions(size_t node) const { return planned_[node].sessions; }
#endif

 private:
  // What a node was last planned for.
  struct Planned {
    bool is_planned = false;
    std::unique_ptr<NodePlan> plan = nullptr;  // NULL: there is nothing to compute
    Vector<Shape> shapes = {};                 // of the inputs
    Vector<unsigned char> values = {};         // elements of the inputs on which shapes depend
    Buffer workspace = {};
    Vector<qn_session*> sessions = {};  // of the node's graphs; NULL until it is needed
  };
  struct Sizing;

  qn_status run_node(size_t index);
  qn_status run_sized_by_run(size_t index);
  bool is_value_input(size_t index, size_t input) const;
  bool has_met(size_t index) const;
  qn_status plan(size_t index);
  qn_status infer_and_plan(size_t index);
  qn_status make_room(int tensor);
  void make_halves();
  static qn_status allocate(const qn_node_run* run, size_t index, uint32_t rank, const size_t* shape, void** data);
#ifndef QN_SMALL  // has_subgraphs
  qn_status run_branch(size_t index);
  qn_status run_loop(size_t index);
  qn_status skip_loop(size_t index, const Vector<qn_tensor>& inputs);
  qn_status run_child(size_t index, size_t child, const Vector<qn_tensor>& tensors, const Vector<const void*>& data);
  qn_status keep_output(qn_session* session, size_t output, int to);
  qn_status append_output(qn_session* session, size_t output, size_t rows, Vector<unsigned char>* gathered, int to);
#endif

  const Model& model_;
  const ExecutionOptions& options_;
  bool profiling_ = false;
  uint64_t macs_inside_ = 0;   // of the graphs that the present node has run, if profiling
  size_t left_;                // bytes that outputs may still take
  Graph shapes_;               // tensors and constants of the model
  Vector<const void*> data_;   // per tensor: its elements
  Vector<Buffer> buffers_;     // per tensor that these nodes write
  Vector<Buffer> halves_;      // per output of the model
  Vector<Planned> planned_;    // per node
  Vector<Location> operands_;  // of the node that runs
  const qn_parallel* parallel_ = nullptr;
};

}  // namespace quern

// A model planned for one set of input shapes: the plan of each node, where each node reads and writes, and how large
// an arena it needs in each memory. Immutable, so that sessions can share it; each run brings its own buffers.
#pragma once

#include "base/vector.h"
#include "graph/plan/fusion.h"
#include "graph/plan/memory_plan.h"
#include "graph/session/model.h"

namespace quern {

// A buffer that the user has bound: an input is read there if a run is given no other buffer, and an output is written
// there, not in the arena.
struct Bound {
  void* data = nullptr;  // NULL: none
  size_t bytes = 0;
  bool lent = false;  // the session itself has bound it, see States
};

class Execution : public Allocated {
 public:
  // The buffers that a run uses.
  struct Buffers {
    const Location* inputs;  // the user's, one per input of the graph, without offsets
    const Bound* outputs;    // one per output
    void* const* arenas;     // one per memory of the model: a block of arena_bytes(), aligned to a cache line
    Location* scratch;       // room for most_operands()
  };

  // Where the elements of a tensor lie, or the workspace of a node.
  struct Home {
    enum : uint8_t { none, constant, user, arena } kind = none;
    uint8_t memory = 0;  // as in Tensor; only arenas may lie in a memory other than the host's
    uint32_t index = 0;  // of the constant, of the graph's input or of the block in the arena
    size_t offset = 0;   // in bytes, from the beginning of the constant, input or block
  };

  // One node to run.
  struct Step {
    size_t node;
    size_t shown;  // the node whose name a profile shows
    const Backend* backend;
    std::unique_ptr<NodePlan> plan;
    Vector<Home> operands;  // inputs, then outputs
    size_t inputs;
    Home workspace;
  };

  // Plans `graph`, which is the model's graph with the shapes of a session, already inferred.
  static qn_status make(Shared<const Model> model, Graph graph, const ExecutionOptions& options,
                        Shared<Execution>* made);
  explicit Execution(Shared<const Model> model, Graph graph, const ExecutionOptions& options)
      : graph_(std::move(graph)), model_(std::move(model)), options_(options) {}
  ~Execution();

  // Returns a shared execution for the same input shapes and options, or NULL if there is none.
  static Shared<const Execution> find(const Model& model, const Graph& graph, const ExecutionOptions& options);
  // Shares the execution, so that find() returns it. Cannot fail.
  static void share(const Shared<Execution>& execution);

  const Graph& graph() const { return graph_; }
  size_t arena_bytes(size_t memory = 0) const { return arenas_[memory].bytes; }
  size_t most_operands() const { return most_operands_; }

  // To run the model, call begin(), then run() for every step in order, then end(). After that, output() says where an
  // output is. To stop between two steps, call stop().
  const Vector<Step>& steps() const { return steps_; }
  void begin(const Buffers& buffers) const;
  qn_status run(size_t step, const Buffers& buffers, const qn_parallel* parallel) const;
  void stop(size_t next_step) const;
  void end(const Buffers& buffers) const;
  const void* output(size_t index, const Buffers& buffers) const;

 private:
  // How the user gets an output. It is copied if the user sees another type, or if its elements lie in a buffer of the
  // user's that may be gone when the user asks for the output.
  struct Output {
    bool copied = false;
    size_t block = nowhere;  // the block that a bound buffer replaces; nowhere: the buffer gets a copy at the end of a
                             // run
  };
  static constexpr size_t nowhere = SIZE_MAX;

  // The arena in one memory.
  struct Arena {
    Vector<Block> blocks;
    size_t bytes = 0;
  };

  qn_status plan();
  void find_lifetimes();
  void assign_homes();
  bool runs(const Node& node) const;
  bool run_in_place(size_t node);
  void assign_home(size_t node, int output);
  void assign_outputs();
  qn_status plan_nodes();
  qn_status synchronise(const Step& step, qn_status status) const;
  bool fits(const Graph& graph, const ExecutionOptions& options) const;

  const Tensor& tensor(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }
  size_t bytes(int index) const;
  Block& block(const Home& home) { return arenas_[home.memory].blocks[home.index]; }
  Home add_block(uint8_t memory, size_t size, size_t first, size_t last);
  Home add_block(int tensor, size_t first);  // a block for a tensor, in use until its last reader
  char* host_block(size_t block, const Buffers& buffers) const;
  Location locate(const Home& home, const Buffers& buffers) const;
  // The last step of the memory plan. Its step 0 converts inputs, then comes one step per node, and the last step
  // copies outputs.
  size_t last_step() const { return graph_.nodes.size() + 1; }

  Graph graph_;
  Shared<const Model> model_;
  ExecutionOptions options_;
  Vector<Placement> places_;  // per tensor
  Vector<int> source_;        // per tensor: the tensor whose elements it shows; itself, if it is not a view
  Vector<Fusion> fusions_;    // per node; the steps take over the plans
  Vector<size_t> last_use_;   // per tensor that is not a view: the last step that reads it or a view of it
  Vector<Home> homes_;        // per tensor
  Arena arenas_[max_memories];
  Vector<size_t> owners_;  // per block in the host's memory: the output whose bound buffer replaces it, or nowhere
  Vector<Step> steps_;
  Vector<Output> outputs_;
  size_t most_operands_ = 0;

  // The shared executions form a list that begins in the model. The model's mutex guards it.
  bool shared_ = false;
  Remembered<const Execution> self_;
  Execution* next_ = nullptr;
};

}  // namespace quern

// A model planned for one set of input shapes: every node's plan, who reads and writes where, and how large an arena
// that takes in every memory. Immutable, so that sessions can share it; each run brings its own buffers.
#pragma once

#include "base/vector.h"
#include "graph/plan/fusion.h"
#include "graph/plan/memory_plan.h"
#include "graph/session/model.h"

namespace quern {

// A buffer of the user's in place of an input that each run is given, or of an output's place in the arena.
struct Bound {
  void* data = nullptr;  // NULL: none
  size_t bytes = 0;
};

class Execution : public Allocated {
 public:
  // What a run works on.
  struct Buffers {
    const Location* inputs;  // the user's, one per input of the graph, without offsets
    const Bound* outputs;    // one per output
    void* const* arenas;     // one per memory of the model: a block of arena_bytes(), aligned to a cache line
    Location* scratch;       // room for most_operands()
  };

  // Where the elements of a tensor lie, or a node's workspace.
  struct Home {
    enum : uint8_t { none, constant, user, arena } kind = none;
    uint8_t memory = 0;  // as in Tensor; only arenas may be in others than the host's
    uint32_t index = 0;  // of the constant, the graph's input, the block
    size_t offset = 0;   // from its beginning
  };

  // One node to run.
  struct Step {
    size_t node;
    size_t shown;  // the node that a profile names
    const Backend* backend;
    std::unique_ptr<NodePlan> plan;
    Vector<Home> operands;  // inputs, then outputs
    size_t inputs;
    Home workspace;
  };

  // `graph` is the model's with the shapes of a session, already inferred.
  static qn_status make(Shared<const Model> model, Graph graph, const ExecutionOptions& options,
                        Shared<Execution>* made);
  explicit Execution(Shared<const Model> model, Graph graph, const ExecutionOptions& options)
      : graph_(std::move(graph)), model_(std::move(model)), options_(options) {}
  ~Execution();

  // One that is shared, for the same input shapes and options, or NULL.
  static Shared<const Execution> find(const Model& model, const Graph& graph, const ExecutionOptions& options);
  // Lets find() find it. Cannot fail.
  static void share(const Shared<Execution>& execution);

  const Graph& graph() const { return graph_; }
  size_t arena_bytes(size_t memory = 0) const { return arenas_[memory].bytes; }
  size_t most_operands() const { return most_operands_; }

  // A run is begin(), run() of every step in order, end(); then output() tells where an output is. Who stops between two
  // steps calls stop().
  const Vector<Step>& steps() const { return steps_; }
  void begin(const Buffers& buffers) const;
  qn_status run(size_t step, const Buffers& buffers, const qn_parallel* parallel) const;
  void stop(size_t next_step) const;
  void end(const Buffers& buffers) const;
  const void* output(size_t index, const Buffers& buffers) const;

 private:
  // How the user gets an output. It is copied where it has another type, or where its elements lie in a buffer of the
  // user's that may be gone when the output is asked for.
  struct Output {
    bool copied = false;
    size_t block = nowhere;  // what a bound buffer replaces; nowhere: such a buffer gets a copy at the end
  };
  static constexpr size_t nowhere = SIZE_MAX;

  // What lies in one memory.
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
  Home add_block(int tensor, size_t first);  // as long as it is read
  char* host_block(size_t block, const Buffers& buffers) const;
  Location locate(const Home& home, const Buffers& buffers) const;
  // Steps as the memory plan counts them: 0 converts inputs, then come the nodes, the last copies outputs.
  size_t last_step() const { return graph_.nodes.size() + 1; }

  Graph graph_;
  Shared<const Model> model_;
  ExecutionOptions options_;
  Vector<Placement> places_;  // per tensor
  Vector<int> source_;        // per tensor: the tensor whose elements it shows, itself unless it is a view
  Vector<Fusion> fusions_;    // per node; the steps have their plans
  Vector<size_t> last_use_;   // per tensor that is no view: the last step that reads it or a view of it
  Vector<Home> homes_;        // per tensor
  Arena arenas_[max_memories];
  Vector<size_t> owners_;  // per block in the host's memory: the output whose bound buffer replaces it, or nowhere
  Vector<Step> steps_;
  Vector<Output> outputs_;
  size_t most_operands_ = 0;

  // Of those that are shared, a list that begins in the model, whose mutex guards it.
  bool shared_ = false;
  Remembered<const Execution> self_;
  Execution* next_ = nullptr;
};

}  // namespace quern

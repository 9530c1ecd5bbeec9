// The internals of a loaded model.
#pragma once

#include "base/vector.h"
#include "graph/backend/backend.h"
#include "graph/ir/custom.h"
#include "op/core/operator.h"

struct qn_model;

namespace quern {

// Writes defaults to `options`, then the caller's options over them unless `user` is NULL.
template <class Options>
qn_status read_options(const char* who, const Options* user, void (*init)(Options*), Options* options) {
  init(options);
  return user == nullptr ? QN_OK : copy_struct(who, user, options, sizeof *options);
}

struct ReleaseCache {
  void operator()(qn_weights_cache* cache) const { qn_weights_cache_release(cache); }
};

// Puts the node's name before the message of an operator that failed.
qn_status name_culprit(qn_status status, const Node& node);

// Describes a tensor as users see it. Before a run, one that only a run can size has no elements.
qn_tensor describe_shown(const Tensor& tensor);

// The backend and operator of one node of the graph.
struct ModelOperator {
  const Backend* backend = nullptr;  // NULL for a reshape; for a copy, the backend whose memory is not the host's
  std::unique_ptr<NodeOperator> op;  // NULL for nodes that are always views
};

// Limit of the memory that loading a model of so many bytes may take. A session for the shapes in the model's file may
// take as much again. Weights grow when they are packed, and activations need room, but without a limit a file of a few
// bytes could ask for any amount.
constexpr size_t memory_limit(size_t model_bytes) {
  constexpr size_t floor = size_t{1} << 30;
  return model_bytes < (SIZE_MAX - floor) / 4 ? floor + 4 * model_bytes : SIZE_MAX;
}

class Execution;

// Nodes that run after all others, because only a run can size their tensors (later.h).
struct LaterNodes {
  Vector<Node> nodes;
  Vector<const qn_kind*> kinds;  // per node: its registered kind; NULL: it is of the library's own
  Vector<ModelOperator> operators;
  Vector<Vector<std::unique_ptr<qn_model>>> children;  // per node: the graphs that it runs
  Vector<int>
      reads;  // the tensors that others have computed, or that are inputs. The planned graph has them as outputs,
              // after the model's own
};

// Largest number of memories in which a model's tensors may lie: no more than one for each backend.
constexpr size_t max_memories = max_backends;

struct Model {
  Graph graph;  // of the nodes that are planned before a run
  // The memories by Tensor::memory. The first is NULL and stands for the host's memory.
  const Memory* memories[max_memories] = {};
  size_t memory_count = 1;
  std::unique_ptr<qn_weights_cache, ReleaseCache> own_cache;
  LaterNodes later;
  Vector<Port> outputs;      // as the user sees them
  Vector<size_t> output_at;  // per output: its index in graph.outputs; nowhere: one of the later nodes computes it
  static constexpr size_t nowhere = SIZE_MAX;
#ifndef QN_SMALL         // has_subgraphs
  Vector<State> states;  // by inputs and outputs as the user sees them
#endif
  Vector<ModelOperator> operators;  // declared after the graph and own_cache, whose weights they refer to
  // Executions that sessions share, see execution.h. The mutex guards the list.
  mutable Mutex mutex;
  mutable Execution* executions = nullptr;
};

}  // namespace quern

struct qn_model : quern::Allocated {
  explicit qn_model(quern::Shared<const quern::Model> m) : impl(std::move(m)) {}
  quern::Shared<const quern::Model> impl;
};

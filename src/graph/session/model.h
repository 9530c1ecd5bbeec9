// What a loaded model is inside.
#pragma once

#include "base/vector.h"
#include "graph/backend/backend.h"
#include "op/core/operator.h"

namespace quern {

// A caller's options over defaults; NULL: defaults.
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

// One per node of the graph.
struct ModelOperator {
  const Backend* backend = nullptr;  // NULL for a reshape; of a copy, the one whose memory is not the host's
  std::unique_ptr<NodeOperator> op;  // NULL for what is always a view
};

// What loading a model of so many bytes may take, and again a session for the shapes of its file: weights grow when
// they are packed, and activations should find room, but a file of a few bytes could ask for anything.
constexpr size_t memory_limit(size_t model_bytes) {
  constexpr size_t floor = size_t{1} << 30;
  return model_bytes < (SIZE_MAX - floor) / 4 ? floor + 4 * model_bytes : SIZE_MAX;
}

class Execution;

// Memories that a model's tensors may lie in: each backend has one, some the same.
constexpr size_t max_memories = max_backends;

struct Model {
  Graph graph;
  // Which ones they are, by Tensor::memory. The first is the host's, and NULL.
  const Memory* memories[max_memories] = {};
  size_t memory_count = 1;
  std::unique_ptr<qn_weights_cache, ReleaseCache> own_cache;
  Vector<ModelOperator> operators;  // after the weights they refer to
  // What sessions share, see execution.h.
  mutable Mutex mutex;
  mutable Execution* executions = nullptr;
};

}  // namespace quern

struct qn_model : quern::Allocated {
  explicit qn_model(quern::Shared<const quern::Model> m) : impl(std::move(m)) {}
  quern::Shared<const quern::Model> impl;
};

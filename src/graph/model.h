// What a loaded model is inside.
#pragma once

#include "graph/backend.h"

namespace quern {

struct ReleaseCache {
  void operator()(qn_weights_cache* cache) const { qn_weights_cache_release(cache); }
};

// One per node of the graph.
struct ModelOperator {
  const Backend* backend = nullptr;
  std::unique_ptr<NodeOperator> op;  // NULL for what is always a view
};

struct Model {
  Graph graph;
  std::unique_ptr<qn_weights_cache, ReleaseCache> own_cache;
  Vector<ModelOperator> operators;  // after the weights they refer to
};

}  // namespace quern

struct qn_model : quern::Allocated {
  explicit qn_model(std::shared_ptr<const quern::Model> m) : impl(std::move(m)) {}
  std::shared_ptr<const quern::Model> impl;
};

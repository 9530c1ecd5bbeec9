// Finds nodes that can run as one, which depends on the shapes: a depthwise convolution or pooling with the 1x1
// convolution behind it, and a convolution with the sum behind it.
#pragma once

#include "base/vector.h"
#include "graph/plan/placement.h"

namespace quern {

// How one node is fused. If several nodes run as one, the last of them has the plan, which writes that node's output.
struct Fusion {
  bool absorbed = false;           // another node's plan does the work of this one
  std::unique_ptr<NodePlan> plan;  // NULL: the node runs alone
  Vector<int> inputs = {};         // tensors that the plan reads
  size_t shown = 0;                // the node whose name a profile shows
};

// Returns one Fusion for each node of the graph. `places` comes from place_tensors().
qn_status find_fusions(const Model& model, const Graph& graph, const Vector<Placement>& places,
                       const ExecutionOptions& options, Vector<Fusion>* fusions);

}  // namespace quern

// Nodes that run as one, where their operators can do so for the shapes at hand.
#pragma once

#include "base/vector.h"
#include "graph/plan/placement.h"

namespace quern {

// Per node. The last of the nodes that run as one has the plan, which writes that node's output.
struct Fusion {
  bool absorbed = false;           // another node's plan does the work of this one
  std::unique_ptr<NodePlan> plan;  // NULL: the node runs alone
  Vector<int> inputs = {};         // tensors that the plan reads
  size_t shown = 0;                // the node that a profile names
};

// One per node of the graph, whose tensors are placed.
qn_status find_fusions(const Model& model, const Graph& graph, const Vector<Placement>& places,
                       const ExecutionOptions& options, Vector<Fusion>* fusions);

}  // namespace quern

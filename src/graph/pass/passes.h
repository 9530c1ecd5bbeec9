// Work on a graph before it runs.
#pragma once

#include "graph/ir/ir.h"

namespace quern {

// Checks that the graph is well formed: indices in range, arities of op.inc, each tensor written once and before it is
// read, constants where op.inc wants them and of the right size, ranks and attributes in range. Trusts nothing.
qn_status check_graph(const Graph& graph);

// Computes type and shape of every node's outputs from the inputs' shapes, in order. The graph has passed check_graph.
// Names the node on failure.
qn_status infer_shapes(Graph& graph);

// The same for one node of the graph, which check_graph would accept.
qn_status infer_node(Graph& graph, const Node& node);

// Folds and fuses; see optimize.cc for the list of passes and their order. Shapes must be known. Keeps all outputs.
// Sparse constants become dense: passes read and rewrite single elements.
qn_status optimize(Graph& graph);

}  // namespace quern

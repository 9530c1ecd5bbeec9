// Functions that check, complete and optimize a graph before it runs.
#pragma once

#include "graph/ir/ir.h"

namespace quern {

// Checks that the graph and its subgraphs are well formed: indices are in range, nodes have as many inputs and outputs
// as op.inc allows, each tensor is written once and before it is read, constants are where op.inc demands them and have
// the right size, and ranks and attributes are in range. Trusts nothing.
qn_status check_graph(const Graph& graph);

// Computes type and shape of every node's outputs from the inputs' shapes, in order, also in subgraphs. Then compares
// the two tensors of every state. The graph has passed check_graph. Names the node on failure.
qn_status infer_shapes(Graph& graph);

// Refuses a graph that has subgraphs or states. Code that runs graphs, or would lose these parts of them, calls it.
#ifdef QN_SMALL  // has_subgraphs: the reader has refused them
inline qn_status check_runnable(const Graph&) { return QN_OK; }
#else
qn_status check_runnable(const Graph& graph);
#endif

// Computes type and shape of the outputs of one node, in a graph that check_graph would accept.
qn_status infer_node(Graph& graph, const Node& node);

// Folds constants and fuses nodes; optimize.cc lists the passes in their order. Shapes must be known. Keeps all inputs
// and outputs of the graph in their order, and does not touch subgraphs. Makes sparse constants dense, because passes
// read and rewrite single elements.
qn_status optimize(Graph& graph);

}  // namespace quern

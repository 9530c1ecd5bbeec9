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

// Removes the nodes with outputs that only a run can size, and returns them, in order. All other nodes can run before
// them. Shapes have been inferred.
Vector<Node> take_later_nodes(Graph& graph);

// Refuses a graph that has subgraphs or states: code that would lose them, or leave them as they are where it changes the
// rest, calls it. Small builds have no such code.
#ifndef QN_SMALL  // has_subgraphs
qn_status check_plain(const Graph& graph);
#endif

// Computes type and shape of the outputs of one node, in a graph that check_graph would accept.
qn_status infer_node(Graph& graph, const Node& node);

// Folds constants and fuses nodes; optimize.cc lists the passes in their order. Shapes must be known. Keeps all inputs
// and outputs of the graph in their order; the same in subgraphs. Makes sparse constants dense, because passes
// read and rewrite single elements.
qn_status optimize(Graph& graph);

}  // namespace quern

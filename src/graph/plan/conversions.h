// Nodes between nodes: where a tensor is not in the form that one of its readers takes, a node that converts it.
//
// A form is so far the memory that the elements lie in, and all such nodes are copies (OpKind::copy).
#pragma once

#include "graph/session/model.h"

namespace quern {

// Places them in the graph of a model whose nodes have their operators. Inputs and outputs of the graph, with their
// names, are in the host's memory. The graph gets nodes and tensors, whose shapes are known if the others' are; tensors
// that were there keep their indices.
void place_conversions(Model& model);

}  // namespace quern

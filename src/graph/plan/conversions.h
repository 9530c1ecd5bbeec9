// Adds nodes that convert a tensor which is not in the form that one of its readers takes.
//
// So far, the form of a tensor is only the memory in which it lies, so all these nodes are copies (OpKind::copy).
#pragma once

#include "graph/session/model.h"

namespace quern {

// Adds such nodes to the graph of a model whose nodes have their operators. Inputs and outputs of the graph keep their
// names and lie in the host's memory. The new tensors have shapes if the other tensors have. The existing tensors keep
// their indices.
void place_conversions(Model& model);

}  // namespace quern

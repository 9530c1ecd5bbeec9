// Which tensors of a planned graph are pixel-blocked.
#pragma once

#include "graph/session/model.h"

namespace quern {

// Sets the layout of every tensor, where shapes are inferred: pixel-blocked where the operators that write and read it
// take less time that way, by their cost models. Inputs and outputs of the graph stay as the user knows them.
void assign_layouts(const Model& model, const ExecutionOptions& options, Graph& graph);

}  // namespace quern

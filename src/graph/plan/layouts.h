// Decides which tensors of a graph are pixel-blocked (QN_LAYOUT_PIXEL_BLOCKED).
#pragma once

#include "graph/session/model.h"

namespace quern {

// Sets the layout of every tensor of a graph whose shapes are inferred. A tensor becomes pixel-blocked if the cost
// models of the operators that write and read it say that this saves time. Inputs and outputs of the graph keep the
// layout that the user knows.
void assign_layouts(const Model& model, const ExecutionOptions& options, Graph& graph);

}  // namespace quern

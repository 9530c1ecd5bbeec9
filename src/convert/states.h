// Declares which tensors of an imported graph are carried from run to run.
#pragma once

#include <vector>

#include "convert/convert.h"

namespace quern {

// Makes states of pairs of an input and an output, which the names say. Throws Error if they do not fit.
void add_states(const std::vector<ImportOptions::State>& states, Graph* graph);

// Returns the index of the input or output of this name. `what` says in the message what the model lacks.
uint32_t find_port(const Graph& graph, const Vector<Port>& ports, const char* what, const std::string& name);

}  // namespace quern

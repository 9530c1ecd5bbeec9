// What a build must contain to run a model: the list for QUERN_NEEDS.
#pragma once

#include <string>

#include "convert/common/error.h"
#include "graph/ir/ir.h"

namespace quern {

// One line per operator, algorithm and kernel that plans of the graph may use, whatever CPU they are made for and
// whatever size the inputs get (src/README.md has the format). Shapes must be known. Throws Error where sparse weights
// cannot be decoded.
std::string needs_of(const Graph& graph);

}  // namespace quern

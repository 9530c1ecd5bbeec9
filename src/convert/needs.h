// Lists what a trimmed build must contain to run a model. The build option QUERN_NEEDS names a file with this list.
#pragma once

#include <string>

#include "convert/common/error.h"
#include "graph/ir/ir.h"

namespace quern {

// Returns one line for each operator, algorithm and kernel that plans of the graph may use, on any CPU and for any size
// of the inputs. src/README.md describes the format. The graph's shapes must be known. Throws Error if sparse weights
// cannot be decoded.
std::string needs_of(const Graph& graph);

// Does a node compute by kernels (kernel/), or only move elements? All others run as plain C++.
bool has_kernels(const Graph& graph, const Node& node);

}  // namespace quern

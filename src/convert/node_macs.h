// Multiply-accumulates of a node: those of convolutions, matrix multiplications, recurrent layers and attention.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/ir.h"

namespace quern {

// Does the node multiply matrices, or compute what is made of such products?
bool multiplies(const Node& node);

// The multiply-accumulates of one run; 0 if the node does not multiply. Nothing if a shape is known only at run time.
// Loops and branches have none of their own.
std::optional<uint64_t> macs_of(const Graph& graph, const Node& node);

}  // namespace quern

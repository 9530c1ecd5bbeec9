// Figures about a model that its graph alone tells.
#pragma once

#include <cstdint>

#include "graph/ir.h"

namespace quern {

struct ModelStats {
  uint64_t parameters = 0;  // elements of the float constants that nodes read
  uint64_t nonzeros = 0;    // those of them that are not zero
  uint64_t macs = 0;        // multiply-accumulates of convolutions and fully connected layers, padding taps included
};

// Shapes must be known.
ModelStats model_stats(const Graph& graph);

}  // namespace quern

// Figures about a model that follow from its graph, without running it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/ir.h"

namespace quern {

// The weights of a convolution or fully-connected layer.
struct LayerStats {
  std::string name;
  uint64_t elements = 0, zeros = 0;
};

struct ModelStats {
  uint64_t parameters = 0;  // elements of the float constants that nodes read
  uint64_t nonzeros = 0;    // how many of these elements are not zero
  uint64_t macs = 0;        // multiply-accumulates of convolutions and fully connected layers, padding taps included
  std::vector<LayerStats> layers;
};

// The graph's shapes must be known. Throws Error if sparse weights cannot be decoded.
ModelStats model_stats(const Graph& graph);

}  // namespace quern

// A model as a list of layers for estimate.h.
#pragma once

#include <vector>

#include "graph/ir/ir.h"
#include "tool/predict/estimate.h"

namespace quern::predict {

// Returns one layer for each node, in order. Shapes must be known. Throws Error if weights cannot be decoded.
std::vector<Layer> layers_of(const Graph& graph);

// Estimates all layers. Sparse layers need not transpose images that only pass from one such layer to the next.
std::vector<Estimate> estimate_layers(const Graph& graph, std::vector<Layer> layers, Machine machine);

}  // namespace quern::predict

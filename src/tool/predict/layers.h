// A model as a list of layers for estimate.h.
#pragma once

#include <vector>

#include "graph/ir/ir.h"
#include "tool/predict/estimate.h"

namespace quern::predict {

// One per node, in order. Shapes must be known. Throws Error where weights cannot be decoded.
std::vector<Layer> layers_of(const Graph& graph);

// Estimates of all layers. Sparse ones that hand images on to each other alone need not transpose them.
std::vector<Estimate> estimate_layers(const Graph& graph, std::vector<Layer> layers, Machine machine);

}  // namespace quern::predict

// Well-known networks with random weights, for benchmarks and tests that have no trained model.
//
// Weights depend only on the name of the network and the seed, and have the same bits on every platform (random.h).
// They are scaled so that activations keep a variance near one from the first layer to the last (builder.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/common/error.h"
#include "graph/ir/ir.h"

namespace quern {

// Returns the names of networks that build_zoo() knows, in the order of its table.
std::vector<std::string> zoo_names();

// Builds a network. Its input "input" is one image of the network's usual size, N,C,H,W. Its output "prob" has 1000
// classes. The outputs of mobilenet_ssd are "loc", the offsets of boxes, and "conf", the probabilities of classes.
// Throws Error for an unknown name.
Graph build_zoo(const std::string& name, uint64_t seed);

}  // namespace quern

// Reference architectures with random weights: what benchmarks and tests run when no trained model is at hand.
//
// Weights depend on the name of the network and the seed alone, bit for bit on every platform (random.h), and are
// scaled so that activations keep a variance near one from the first layer to the last (builder.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/common/error.h"
#include "graph/ir/ir.h"

namespace quern {

// Names that build_zoo knows, in the order of its table.
std::vector<std::string> zoo_names();

// The network `name`: one image of its usual size, N,C,H,W, as "input"; 1000 classes as "prob", or for mobilenet_ssd
// box offsets as "loc" and class probabilities as "conf". Throws Error for an unknown name.
Graph build_zoo(const std::string& name, uint64_t seed);

}  // namespace quern

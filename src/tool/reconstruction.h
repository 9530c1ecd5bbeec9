// Reconstructs the layers of a quantized model one after the other, from what they read on samples.
#pragma once

#include <functional>
#include <vector>

#include "compress/reconstruct.h"
#include "tool/part.h"

namespace quern {

// Calls finish(i, reconstruction) for each pair of layers when it has its samples; that changes the layer in `quantized`,
// which the layers after it then see. Of many samples some are taken, so that what both models keep between two layers
// fits a gibibyte. `formats`: of the nodes of `real`. Shows a progress bar.
void reconstruct_layers(const Graph& real, const Graph& quantized, const Vector<LayerPair>& pairs,
                        const Formats& formats, const std::vector<size_t>& samples, const Sample& sample,
                        const SessionSettings& settings, uint32_t seed,
                        const std::function<void(size_t i, Reconstruction& reconstruction)>& finish);

// `count` of the samples, evenly, or all.
std::vector<size_t> some_of(const std::vector<size_t>& samples, size_t count);

}  // namespace quern

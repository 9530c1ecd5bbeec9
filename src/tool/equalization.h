// Equalizes the channels of a model by their ranges on samples.
#pragma once

#include <vector>

#include "tool/part.h"

namespace quern {

// Scales channels between layers, so that less is lost when the tensors of the graph become int8 (compress/equalize.h).
// The graph is optimized. Its function remains, up to rounding. Shows a progress bar.
void equalize_model(Graph& graph, const std::vector<size_t>& samples, const Sample& sample,
                    const SessionSettings& settings);

}  // namespace quern

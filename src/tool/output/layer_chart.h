// The chart of a model's layers.
#pragma once

#include <string>
#include <vector>

#include "convert/model_stats.h"
#include "tool/output/plot.h"

namespace quern {

// The bytes of each layer's weights, the largest layer first.
BarChart layer_chart(const std::string& model, std::vector<LayerStats> layers);

}  // namespace quern

// How many of an operator's weights are not 0.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Counts them, reading the weights strip by strip. Throws Failure as WeightRows does.
WeightsDensity count_density(const qn_weights& weights, const WeightsShape& shape);

}  // namespace quern

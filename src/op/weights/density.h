// How many of an operator's weights are not 0.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Counts the weights that are not 0. Reads as much of the weights as it needs, strip by strip. Throws Failure if the
// weights cannot be decoded.
WeightsDensity count_density(const qn_weights& weights, const WeightsShape& shape);

}  // namespace quern

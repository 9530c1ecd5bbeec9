// How many of an operator's weights are not 0.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Counts the weights that are not 0. Reads as much of the weights as it needs, strip by strip. Throws Failure if the
// weights cannot be decoded.
WeightsDensity count_density(const qn_weights& weights, const WeightsShape& shape);

// The same from the weights' summary, if there is one.
WeightsDensity density_of(const qn_weights& weights, const WeightsShape& shape);

// That of weights without zeros.
WeightsDensity full_density(const WeightsShape& shape);

}  // namespace quern

// How many of an operator's weights are not 0.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Counts them. It reads the weights strip by strip, and only as many as it needs. Throws Failure as WeightRows does.
WeightsDensity count_density(const qn_weights& weights, const WeightsShape& shape);

}  // namespace quern

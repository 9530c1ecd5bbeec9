// Quantized weights: what has to hold for sums of their products.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Finds out with which zero points of the input no sum of products overflows 32 bits, whatever the input's elements are,
// how large sums may become, and which of the demands that kernels may have (Demand in kernel/row.h) the weights meet. Fails if sums of some output
// channel may overflow with every zero point. The weights are of QN_S8 and have passed read_weights(); `bias` has one
// 32-bit integer for each output channel, or is NULL.
qn_status check_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, const void* bias,
                     SumFacts* facts);

}  // namespace quern

// Quantized weights: what has to hold for sums of their products.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Finds the zero points of the input with which no sum of products overflows 32 bits, whatever the elements of the input
// are; how large sums may become; and which demands of kernels (Demand in kernel/row.h) the weights meet. Fails if sums
// of some output channel may overflow with every zero point. The weights are of QN_S8 and have passed read_weights();
// `bias` has one 32-bit integer for each output channel, or is NULL.
qn_status check_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, const void* bias,
                     SumFacts* facts);

// The same for weights that are multiplied with rows that an operator quantizes itself, with any zero point.
qn_status check_dynamic_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, SumFacts* facts);

}  // namespace quern

// Quantized weights: what has to hold for sums of their products.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Of the integers of each output channel: the largest sum of absolute values, the smallest and the largest element.
struct WeightsRange {
  int64_t absolute = 0;
  int8_t least = 0, most = 0;
};
// Takes them from the weights' summary, if there is one.
WeightsRange range_of(const qn_weights& weights, const WeightsShape& shape);

// Finds how large sums of products may become, and which demands of kernels (Demand in kernel/row.h) the weights meet.
// The weights are of QN_S8 and have passed read_weights(); `bias` has one 32-bit integer for each output channel, or is
// NULL. Sums wrap around: a sum that fits 32 bits is exact, whatever overflows on the way.
SumFacts facts_of_sums(const qn_weights& weights, const WeightsShape& shape, const void* bias);

// The same for weights that are multiplied with rows that an operator quantizes itself, with any zero point. These sums
// are scaled to real numbers, so it fails if one may overflow.
qn_status check_dynamic_sums(const char* who, const qn_weights& weights, const WeightsShape& shape, SumFacts* facts);

// Do weights that an operator of floats reads have scales for whole blocks of scale_block elements, and fit 4 bits?
bool fit_4_bits(const qn_weights& weights, const WeightsShape& shape);

}  // namespace quern

// The direct algorithm where kernels find taps at offsets (tapgemm.h): the rows of a band of the image are copied once,
// padding included, and all taps share the copy.
//
//     3x3, padding 1, 5 pixels wide: rows of the image lie 6 pixels apart, with one of padding between them
//
//         place   0 .. 5    . . . . . .
//                 6 .. 11   . a b c d e        the output below b is at place 1; its taps are at 0 1 2, 6 7 8, 12 13 14
//                12 .. 17   . f g h i j        from there
//
// Kernels compute an output for every place, also for places behind the last output of a row, whose sums go to scratch
// memory.
#pragma once

#include "op/algorithm/algorithm.h"

namespace quern {

// The number of tapgemm's table in the direct algorithm.
constexpr unsigned band_table = 1;

// What it costs. It does not apply to windows for which even one row of outputs needs too large a copy.
[[gnu::cold]] double band_cycles(const Problem& p, const TapgemmRow& row);

[[gnu::cold]] PlanPointer plan_band(const ConvRequest& conv, const Choice& choice);

}  // namespace quern

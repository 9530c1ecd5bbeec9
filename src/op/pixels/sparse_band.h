// The sparse algorithm for windows of stride 1. A band of the image at a time, each input channel is copied into
// scratch memory with its padding. There the pixels that a tap reads for successive outputs are a row, and all taps
// share one copy.
//
//     3x3, padding 1, 5 pixels wide: rows of the image lie 6 floats apart, with one float of padding between them
//
//         place   0 .. 5    . . . . . .
//                 6 .. 11   . a b c d e        the output below b is at place 1 of all rows; its taps are at 0 1 2,
//                12 .. 17   . f g h i j        6 7 8, 12 13 14 from there
//
// Kernels compute an output for every place, also for places between two rows of the image; the plan then copies only
// the outputs that exist.
#pragma once

#include "kernel/spmm.h"
#include "op/conv/conv.h"

namespace quern {

struct SparseBand {
  size_t pitch = 0;    // floats from one row of the image to the next
  size_t span = 0;     // places from an output's first tap to its last
  size_t pixels = 0;   // output pixels in a band; the last band may have fewer
  size_t width = 0;    // places of the outputs of a band, rounded up to whole vectors
  size_t channel = 0;  // floats from one input channel to the next

  size_t place(const Window& window, size_t pixel) const { return pixel / window.w.out * pitch + pixel % window.w.out; }
  bool fits() const { return pixels > 0; }
};

// How an image is cut into bands for this row of the table. The result does not fit() for rows of single weights (CSR),
// for windows with another stride or only one tap, and for too many channels. (Pairs of CSR find rows of A by bytes.
// Fours multiply a row less often than blocks do, so for them vectors that cross cache lines would cost more than one
// copy for every tap.)
SparseBand sparse_band(const Problem& p, const SpmmRow& row);

PlanPointer plan_sparse_band(const ConvRequest& conv, const SpmmRow& row, const SparseBand& band);

}  // namespace quern

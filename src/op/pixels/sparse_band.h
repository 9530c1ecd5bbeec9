// The sparse algorithm for windows of stride 1: each input channel lies in scratch memory with its padding, a band of
// the image at a time, so that what a tap sees of successive outputs is a row of pixels, and taps share what they see.
//
//     3x3, padding 1, 5 pixels wide: rows of the image lie 6 floats apart, one of padding between them
//
//         place   0 .. 5    . . . . . .
//                 6 .. 11   . a b c d e        the output below b is at place 1 of all rows; its taps are at 0 1 2,
//                12 .. 17   . f g h i j        6 7 8, 12 13 14 from there
//
// Outputs are computed for every place, those between two rows of the image, too, and what is wanted is copied.
#pragma once

#include "kernel/spmm.h"
#include "op/conv/conv.h"

namespace quern {

struct SparseBand {
  size_t pitch = 0;    // floats from one row of the image to the next
  size_t span = 0;     // from the place of an output's first tap to that of its last
  size_t pixels = 0;   // of the output, in a band; the last one may have fewer
  size_t width = 0;    // places of the outputs of a band, whole vectors
  size_t channel = 0;  // floats from one input channel to the next

  size_t place(const Window& window, size_t pixel) const { return pixel / window.w.out * pitch + pixel % window.w.out; }
  bool fits() const { return pixels > 0; }
};

// How bands are cut for this row. None for csr, where the window has another stride or but one tap, and where there are
// too many channels; which of these it is depends on nothing but the problem. (Pairs find rows of A by bytes; for
// fours, which multiply a row less often than blocks, vectors that cross lines cost more than a copy for every tap.)
SparseBand sparse_band(const Problem& p, const SpmmRow& row);

PlanPointer plan_sparse_band(const ConvRequest& conv, const SpmmRow& row, const SparseBand& band);

}  // namespace quern

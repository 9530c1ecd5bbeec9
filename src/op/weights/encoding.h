// The encodings in which a user may give weights. Only encoding.cc has a branch for each of them: not a table of
// functions, which the loader would have to relocate.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// The weights to read. They have passed read_weights().
struct WeightSource {
  const qn_weights& weights;
  const WeightsShape& shape;

  size_t item() const { return qn_type_size(weights.type); }  // bytes of an element
};

// The weights of some output channels that are not 0. A row holds the weights of one output channel in the order of
// QN_WEIGHTS_OHWI.
struct Nonzeros {
  static constexpr size_t most_channels = 32;
  using Mask = uint32_t;

  size_t depth = 0;               // elements of a row
  Vector<Mask> masks;             // one for each position: bit c is set if channel c has a nonzero there
  size_t count[most_channels];    // the number of nonzeros of each channel
  Buffer positions_room, values;  // their positions, ascending, and their values; room for `depth` per channel

  uint32_t* positions(size_t channel) const { return static_cast<uint32_t*>(positions_room.data()) + channel * depth; }
  float* floats(size_t channel) const { return static_cast<float*>(values.data()) + channel * depth; }
};

// Do the rows of the encoding stay where they are, so that rows_of() needs no room?
bool stays_in_place(const WeightSource& source);

// Provides rows first .. first + count - 1, counted through all groups, in the weights' own type. `data` becomes their
// address: either they stay where they are, with the strides of the weights' layout, or they are written to `room`,
// which has space for them.
qn_status rows_of(const WeightSource& source, size_t first, size_t count, void* room, const void** data);

// Does nonzeros_of() know the encoding? Otherwise the caller must read the rows and find the nonzeros itself.
bool gives_nonzeros(const WeightSource& source);

// Finds the nonzeros of up to Nonzeros::most_channels rows without writing out the rows.
void nonzeros_of(const WeightSource& source, size_t first, size_t count, Nonzeros* to);

}  // namespace quern

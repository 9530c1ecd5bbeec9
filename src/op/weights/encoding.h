// The ways in which a user may give weights: one entry of a table for each value of qn_weights_encoding.
#pragma once

#include "op/weights/weights.h"

namespace quern {

// Weights that an entry reads. They have passed read_weights().
struct WeightSource {
  const qn_weights& weights;
  const WeightsShape& shape;

  size_t item() const { return qn_type_size(weights.type); }  // bytes of an element
};

// What is not 0 of the rows of some output channels, whose elements are in the order of QN_WEIGHTS_OHWI.
struct Nonzeros {
  static constexpr size_t most_channels = 32;
  using Mask = uint32_t;

  size_t depth = 0;               // of a row
  Vector<Mask> masks;             // one for each position: bit c says that channel c has something there
  size_t count[most_channels];    // how much each channel has
  Buffer positions_room, values;  // where, ascending, and what, of the weights' type; room for `depth` per channel

  uint32_t* positions(size_t channel) const { return static_cast<uint32_t*>(positions_room.data()) + channel * depth; }
  float* floats(size_t channel) const { return static_cast<float*>(values.data()) + channel * depth; }
};

struct WeightEncoding {
  // Gives rows first .. first + count - 1 of all groups together, in the weights' own type: where they lie, with the
  // strides of the weights' layout, or written to `room`, which has as many bytes as they.
  qn_status (*rows)(const WeightSource& source, size_t first, size_t count, void* room, const void** data);
  // Writes what is not 0 of as many as Nonzeros::most_channels rows, without a detour over rows. NULL: those are read.
  void (*nonzeros)(const WeightSource& source, size_t first, size_t count, Nonzeros* to);
  bool in_place;  // rows are where they lie: `room` is not used
};

const WeightEncoding& encoding_of(const qn_weights& weights);

}  // namespace quern

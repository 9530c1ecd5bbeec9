// Channels that have the same value for every input, at every pixel.
//
// Training leaves many where weights decay: a channel that batch normalization scales by 0 is the shift alone, and so zero
// behind ReLU, or a constant that the next layer could have in its bias.
#pragma once

#include <cstddef>
#include <map>

#include "graph/ir/ir.h"

namespace quern {

// A row of weights counts as zero if the sum of their magnitudes is this part of the largest row's, a sixtieth of what
// rounding to f32 changes: weight decay leaves such rows. Where a layer has weights a million times larger for them than for
// others, they are missed: callers compare outputs.
inline constexpr double negligible_row = 1e-9;

// Constant channels of all tensors that layers write. Constants are dense.
class ConstantChannels {
 public:
  explicit ConstantChannels(const Graph& graph);

  // The values of a tensor's channels, the indices of its last dimension; NaN for one that is not known to be constant. NULL
  // if none is.
  const Vector<float>* values(int tensor) const;

 private:
  void visit_layer(const Node& node);
  void pass(const Node& node);

  const Graph& graph_;
  std::map<int, Vector<float>> values_;
};

// Moves what constant channels bring to the sums of a layer to its bias, so that their columns become zero. Layers that
// pad their input, or share their weights, remain as they are. Returns whether it has changed anything.
bool fold_constant_channels(Graph& graph);

}  // namespace quern

// Pruning by magnitude: the smallest blocks of weights become 0.
//
// A block is `block` neighbouring output channels of one group at one position of their rows: what kernels for sparse
// weights take at a time. It goes or stays as a whole, by the mean magnitude of its weights.
#pragma once

#include "graph/ir/ir.h"

namespace quern {

// How the zeros wanted are spread over the layers.
enum class Schedule {
  uniform,  // the same part of each
  global,   // the smallest of all, by one threshold
  erk,      // Erdos-Renyi kernel (Evci 2020): density in proportion to sum over product of the weights' dimensions
};

struct PruneOptions {
  double sparsity = 0;  // part of the blocks that become 0, of all layers that are pruned: from 0, below 1
  size_t block = 1;     // output channels: 1, 2, 4, 8 or 16
  Schedule schedule = Schedule::uniform;
  // Enlarges what is left of each layer, so that its squares sum to what they did: random weights keep the variance of
  // activations.
  bool rescale = false;
};

// Prunes the weights of convolutions and fully-connected layers, but not of the first convolution, nor of depthwise
// ones: they are few and matter. Sparse constants become dense.
qn_status prune(Graph& graph, const PruneOptions& options);

}  // namespace quern

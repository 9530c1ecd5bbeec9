// Pruning by magnitude: the smallest blocks of weights become 0.
//
// A block is `block` neighbouring output channels of one group at one position of their rows, or at those of `inputs`
// successive input channels of a tap: the unit that kernels for sparse weights work with. A block becomes 0 or stays as a
// whole, by the mean magnitude of its weights.
#pragma once

#include <optional>

#include "graph/ir/ir.h"

namespace quern {

// How the wanted zeros are spread over the layers.
enum class Schedule {
  uniform,  // the same part of every layer
  global,   // the smallest blocks of all layers, by one threshold
  erk,      // Erdos-Renyi kernel (Evci 2020): density in proportion to sum over product of the weights' dimensions
};

struct BlockShape {
  size_t outputs = 1, inputs = 1;  // channels
};

// A layer's weights in blocks: of `groups` groups, each with `out` rows of `depth` elements, of which `inputs` successive
// ones belong to a tap.
struct BlockGrid {
  size_t groups, out, depth, inputs;
  BlockShape shape = {};

  size_t blocks() const;
};
// Marks the weights in those blocks of least mean magnitude that are this part of all blocks.
Vector<bool> smallest_blocks(const BlockGrid& grid, const float* weights, double sparsity);

// What is decided of one layer.
struct LayerPruning {
  bool keep = false;                    // all weights
  std::optional<double> sparsity = {};  // from 0 to 1
  std::optional<BlockShape> shape = {};
};

struct PruneOptions {
  double sparsity = 0;  // the part of the blocks of all pruned layers that become 0: from 0, below 1
  size_t block = 1;     // output channels: 1, 2, 4, 8 or 16
  Schedule schedule = Schedule::uniform;
  // Enlarges the weights that are left in each layer, so that the sum of their squares is as before. With random
  // weights activations then keep their variance.
  bool rescale = false;
  size_t inputs = 1;                 // input channels: 1 or 4. Kernels of floats gain nothing by 4
  Vector<LayerPruning> layers = {};  // of each node; none: of no node is anything decided
};

// Prunes the weights of convolutions and fully-connected layers, except those of the first convolution and of depthwise
// ones, which are few and matter; these, too, if their sparsity is decided. Weights that several nodes share are pruned if
// none keeps them, as the first one says. Sparse constants become dense. `made` gets what has become of each node with
// weights, if it is not NULL.
qn_status prune(Graph& graph, const PruneOptions& options, Vector<LayerPruning>* made = nullptr);

}  // namespace quern

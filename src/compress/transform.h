// Transforms of a network: layers become fewer, narrower or thinner, and the network computes what it did before.
//
//     merge_linear_layers    y = B (A x + a) + b   -->   y = (B A) x + (B a + b)
//     remove_dead_channels   a channel that is zero or constant, or that nobody reads, goes
//     split_low_rank         y = W x + b           -->   y = L (R x) + b, with few rows of R
//
// The first two are exact, but for rounding and for rows that weigh next to nothing (negligible_row). The third one has an
// error, which is measured.
//
// All take an optimized graph whose shapes are known. Layers in branches and loops remain as they are. Equal constants are
// no matter of this file: the optimizer shares them (pass merge-common).
#pragma once

#include <cstdint>

#include "graph/ir/ir.h"

namespace quern {

enum class TransformKind { merged, narrowed, split };

// "merged", "narrowed" or "split"
const char* name_of(TransformKind kind);

// What a transform has done to a layer.
struct Transform {
  TransformKind kind = TransformKind::merged;
  String node = {};
  String other = {};    // merged: the layer before, which is gone; split: the first of the two layers
  size_t channels = 0;  // merged, split: between the two layers; narrowed: output channels that are gone
  uint64_t weights_before = 0, weights_after = 0;  // elements of weights and biases
  uint64_t macs_before = 0, macs_after = 0;
  double error = 0;  // split: of the weights, relative to them, in the Frobenius norm
};

// Merges two fully-connected layers or convolutions in a row, one of which reads single pixels, where the result has fewer
// weights than the two have nonzeros, and fewer multiply-accumulates. Nothing may lie between them, and nothing else may
// read what lies there. If the second one pads its input, the first one may have no bias: padding has none.
qn_status merge_linear_layers(Graph& graph, Vector<Transform>* done);

// Removes the sets of channels (channels.h) that change nothing: each of their rows computes what a row of zeros computes,
// and all their constants per channel are zero, except slopes of PReLU; or all columns that read them are zero. Before,
// what constant channels (constant_channels.h) bring to layers goes to their biases. Expects that activations are finite:
// zero times infinity is NaN.
qn_status remove_dead_channels(Graph& graph, Vector<Transform>* done);

// Applies both. Appends to `done`.
qn_status simplify(Graph& graph, Vector<Transform>* done);

// Splits fully-connected layers and convolutions in two: the first one has `rank` output channels, the second one reads
// single pixels. The rank of each layer is the least whose relative error, in the Frobenius norm of the weights, is at most
// `error`, from 0 to below 1; 0 stands for 1e-6. A layer remains whole if it is small or has more than 4096 rows and columns,
// if its weights are shared or not finite, or if the two layers would have more than nine tenths as many weights as it has
// nonzeros.
qn_status split_low_rank(Graph& graph, double error, Vector<Transform>* done);

}  // namespace quern

// Channel pruning: layers lose output channels, and every consumer shrinks with them.
//
// A channel rarely goes alone. Where two branches are added, both lose it, and each reader loses a column:
//
//     conv a --+
//              add --> relu --> conv c        rows 3 of a and b, column 3 of c
//     conv b --+
//
// find_channels() follows every channel from the rows of weights that produce it to the columns that read it. Indices
// that can only go together form a set. This is the dependency graph of Fang 2023 ("DepGraph"), built for single indices
// instead of whole layers, so that slices, concatenations and channel shuffles need no groups of their own. Which sets go
// is the caller's choice; smallest_channels() chooses by magnitude, after Li 2017 ("Pruning filters for efficient
// convnets").
//
// Removing sets is exact: the smaller graph computes what the graph computes with these channels set to zero. A channel
// is kept if some operator would turn its zeros into something that a layer reads (a clamp to [1, 6], a softmax), if
// neighbouring channels influence each other (LRN), or if it reaches an output of the graph or an operator that is not
// understood. The traits of op.inc say what an operator does with channels; whether it maps zero to zero is found by
// running it.
#pragma once

#include <cstdint>

#include "graph/ir/ir.h"

namespace quern {

// An output channel of a layer: a row of the weights that node `node` reads.
struct ChannelRow {
  uint32_t node, row;

  bool operator==(const ChannelRow&) const = default;
};

// How many indices of a dimension of a tensor belong to a set.
struct ChannelUse {
  uint32_t tensor, dimension, count;
};

// Indices that can only be removed together.
struct ChannelSet {
  Vector<ChannelRow> rows;  // at least one
  Vector<ChannelUse> uses;  // in all tensors, constants among them
  // What the graph loses if this set alone is removed: elements of constants, multiply-accumulates of layers. Sets that
  // share layers lose less together than the sum.
  uint64_t weights = 0, macs = 0;
};

constexpr uint32_t kept_channel = UINT32_MAX;

struct Channels {
  Vector<ChannelSet> sets;
  // [tensor][dimension][index]: the set of an index, or kept_channel. Empty for a dimension of which nothing can be
  // removed. Weights may lose indices of their first and last dimension, other tensors those of one.
  Vector<Vector<Vector<uint32_t>>> set_of;
};

// Finds what can be removed from an optimized graph whose shapes are known. Encoded constants become dense. Layers with
// integer weights, and everything that a branch or loop reads, are kept.
qn_status find_channels(Graph& graph, Channels* channels);

// Counts what is left of each tensor, for whoever chooses sets one after the other.
class ChannelsLeft {
 public:
  explicit ChannelsLeft(const Channels& channels);

  // Removes a set. Returns false, and changes nothing, if a tensor would lose its last channel.
  bool remove(size_t set);
  const Vector<bool>& removed() const { return removed_; }

 private:
  const Channels& channels_;
  Vector<Vector<size_t>> left_;  // [tensor][dimension]
  Vector<bool> removed_;
};

// Marks the sets of least magnitude: `part` of the removable channels of each layer, from 0 to below 1, rounded down. The
// magnitude of a set is the mean of the squared norms of its rows and columns, each relative to the mean of all rows or
// columns of its layer. Sets whose rows belong to the same layers compete with each other.
qn_status smallest_channels(const Graph& graph, const Channels& channels, double part, Vector<bool>* removed);

// Removes the sets that are marked from the graph in which they were found. Fails, and changes nothing, if a tensor would
// lose its last channel.
qn_status remove_channels(const Channels& channels, const Vector<bool>& removed, Graph& graph);

// Sets the same channels to zero instead: rows of weights, biases, and constants per channel. Columns stay as they are.
void zero_channels(const Channels& channels, const Vector<bool>& removed, Graph& graph);

}  // namespace quern

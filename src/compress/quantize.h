// Quantization after training: a model of floats becomes one that computes with bytes.
//
// Weights get a scale for each output channel, and values between -127 and 127. Results of nodes get one scale and zero
// point, from the smallest and the largest number that they have had on sample inputs ("minmax"; Jacob 2018, Krishnamoorthi
// 2018). Nodes that have no form for bytes, such as softmax, go on computing with floats.
#pragma once

#include "graph/ir/ir.h"

namespace quern {

// The numbers that a tensor has had. 0 always belongs to them, because it must be exact: padding reads it.
struct Range {
  float low = 0, high = 0;

  void add(const float* data, size_t count);  // a NaN makes the range infinite
  bool operator==(const Range&) const = default;
};

// Returns the tensors whose ranges quantize() must know. The graph is optimized, its shapes are known, and none of its
// constants is sparse.
Vector<int> tensors_to_observe(const Graph& graph);
// Returns a copy of the graph whose outputs are these tensors, in this order.
Graph observed(const Graph& graph, const Vector<int>& tensors);

// Quantizes the graph. `ranges` has those of tensors_to_observe(graph). Fails if a range is not finite, or if no node can
// compute with bytes.
qn_status quantize(Graph& graph, const Vector<Range>& ranges);

// A layer of bytes in the quantized graph, and the same layer in the graph before: indices of nodes.
struct LayerPair {
  size_t real, bytes;
};
// In the order of the quantized graph.
Vector<LayerPair> layer_pairs(const Graph& real, const Graph& quantized);

// A layer with weights in the quantized model.
struct QuantizedLayer {
  String name;
  OpKind kind;
  bool bytes;        // does it compute with bytes?
  uint64_t weights;  // elements
  double noise_db;   // signal to noise of the weights: power of the weights to power of their rounding errors. Infinite
                     // without errors
  Quantization input, output;  // if it computes with bytes
};
Vector<QuantizedLayer> quantized_layers(const Graph& real, const Graph& quantized);

}  // namespace quern

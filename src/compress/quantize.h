// Quantization after training: a model of floats becomes one that computes with bytes.
//
// Weights get a scale for each output channel, and values between -127 and 127. Activations get one scale and zero point
// per tensor, from the values that they have had on sample inputs (ranges.h; Jacob 2018, Krishnamoorthi 2018). Nodes that
// have no int8 form, such as softmax, remain f32.
#pragma once

#include <span>

#include "compress/ranges.h"
#include "compress/rounding.h"
#include "graph/ir/ir.h"

namespace quern {

// Returns the tensors whose ranges quantize() must know. The graph is optimized, its shapes are known, and none of its
// constants is sparse.
Vector<int> tensors_to_observe(const Graph& graph);
// Returns a copy of the graph whose outputs are these tensors, in this order.
Graph observed(const Graph& graph, const Vector<int>& tensors);

// Returns the indices of nodes that can compute in int8.
Vector<size_t> quantizable_nodes(const Graph& graph);

// How each node becomes one of integers. One of 32 bits remains f32, whether it has weights or not.
using Formats = Vector<WeightFormat>;
// This format for all but small layers (rounding.h).
Formats formats_for(const Graph& graph, const WeightFormat& wanted = {});

// Quantizes the graph. `ranges` has those of tensors_to_observe(graph). Fails if a range is not finite, or if no node can
// compute in int8.
qn_status quantize(Graph& graph, const Vector<Range>& ranges, const Formats& formats);
inline qn_status quantize(Graph& graph, const Vector<Range>& ranges) {
  return quantize(graph, ranges, formats_for(graph));
}
// Quantizes weights only: activations remain f32. Fails if there are none.
qn_status quantize_weights(Graph& graph, const Formats& formats);

// A layer of int8 weights in the quantized graph, and the same layer in the graph before: indices of nodes.
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
  int weight_bits;   // 8 or 4; 32: f32
  uint64_t weights;  // elements
  double noise_db;   // signal to noise of the weights: power of the weights to power of their rounding errors. Infinite
                     // without errors
  Quantization input, output;                          // if it computes with bytes
  double input_saturation = 0, output_saturation = 0;  // the part of their values on samples that saturates
};
// `seen` has the values of tensors_to_observe(real); without them, saturation is 0.
Vector<QuantizedLayer> quantized_layers(const Graph& real, const Graph& quantized,
                                        std::span<const Histogram> seen = {});

}  // namespace quern

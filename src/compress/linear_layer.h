// Layers as the transforms of transform.h see them.
#pragma once

#include <cstdint>
#include <span>

#include "compress/symmetric.h"
#include "graph/pass/rewrite.h"

namespace quern {

// What a layer multiplies by, and how often.
struct LayerCost {
  uint64_t weights = 0,
           macs = 0;  // elements of weights and bias; 0 multiply-accumulates if only a run knows its shapes
};
LayerCost cost_of(const Graph& graph, const Node& layer);

// Whether a node is a fully-connected layer or a convolution of one group, in f32, whose weights nothing else reads.
bool is_plain_layer(Rewriter& r, const Node& node);

// Whether a layer pads its input, at this size of the image or at others.
bool may_pad(const Attributes& a);

// Whether each output pixel of such a layer reads the input pixel at its position, whatever the size of the image.
bool is_pointwise(Rewriter& r, const Node& layer);

inline bool has_bias(const Node& layer) { return layer.inputs.size() > 2 && layer.inputs[2] != no_tensor; }

// The product of the dimensions of a shape, from one on.
size_t product_of(const Shape& shape, size_t from = 0);

size_t nonzeros_of(std::span<const float> values);

// The same values, in rows of `columns`.
RealMatrix matrix_of(std::span<const float> values, size_t columns);
Vector<float> as_floats(const RealMatrix& matrix);

}  // namespace quern

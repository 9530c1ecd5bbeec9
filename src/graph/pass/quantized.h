// What passes about bytes have in common. Importers, and the quantizer of models, put a node `quantize` after each node
// whose result is to be bytes, and a node `dequantize` before each node that reads them. So the graph already computes
// the right numbers; these passes replace the floats in between where a kind of node can do without them.
#pragma once

#include "graph/pass/rewrite.h"

namespace quern {

inline bool has_one_scale(const Tensor& tensor) { return tensor.quantization.scales.size() == 1; }

inline bool same_numbers(const Tensor& a, const Tensor& b) {
  return a.type == b.type && a.quantization == b.quantization;
}

// Returns the bytes that a tensor of floats comes from, or no_tensor.
int bytes_behind(Rewriter& r, int tensor);

// Finds the bytes behind all data inputs of a node. Returns an empty list if an input has none.
Vector<int> all_bytes_behind(Rewriter& r, const Node& node);

// Would the node do the same to bytes as to the real numbers that they stand for, apart from a clamp?
bool treats_bytes_alike(const Node& node);

// Converts the value of elements that a pad adds: it is a real number before, and an element after.
void convert_padding(const Tensor& bytes, Node* node);

// Returns the node's name with a part behind it.
String name_of(const Node& node, const char* part);

}  // namespace quern

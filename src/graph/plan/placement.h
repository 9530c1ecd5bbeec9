// Tensors whose elements lie within another tensor, so that nobody copies them: what a concat joins is computed where
// it belongs, and what a slice cuts out is read where it lies.
#pragma once

#include "base/vector.h"
#include "graph/session/model.h"

namespace quern {

struct Placement {
  enum { own, part, slice } kind = own;
  int within = no_tensor;  // the tensor it lies in, which lies nowhere else if this is a part
  int of = no_tensor;      // the output of the concat, or the input of the slice
  size_t offset = 0;       // bytes from the beginning of `within`
};

// For each tensor of the graph, whose shapes are known. Sets the strides of those that lie in others.
Vector<Placement> place_tensors(const Model& model, Graph& graph);

}  // namespace quern

// Finds tensors whose elements can lie within another tensor, which saves copies: an input of a concat is computed at
// its place in the concat's output, and the output of a slice is read at its place in the slice's input.
#pragma once

#include "base/vector.h"
#include "graph/session/model.h"

namespace quern {

struct Placement {
  enum { own, part, slice } kind = own;  // memory of its own, part of a concat's output, slice of another tensor
  int within = no_tensor;                // the tensor it lies in; if this is a part, that one has memory of its own
  int of = no_tensor;                    // the output of the concat, or the input of the slice
  size_t offset = 0;                     // bytes from the beginning of `within`
};

// Returns a placement for each tensor of the graph, whose shapes must be known. Sets the strides of tensors that lie in
// others.
Vector<Placement> place_tensors(const Model& model, Graph& graph);

}  // namespace quern

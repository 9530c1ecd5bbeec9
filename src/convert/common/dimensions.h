// Dimensions of a tensor of a source, the order in which one of ours has them, and walks over elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/rules.h"

namespace quern::convert {

// Returns the number of elements. Throws Error if it is too large for memory.
size_t element_count(const Shape& shape);

// Returns a shape as messages write it: "3 x 3 x 16".
std::string text_of(const Shape& shape);

using Order = std::vector<uint32_t>;  // our dimension i is the source's dimension order[i]

Order source_order(size_t rank);  // 0, 1, 2, ...
bool is_source_order(const Order& order);
Order axis_last(size_t rank, size_t axis);
Order channels_last(size_t rank);  // 0, 2, 3, ..., 1

// Returns the position in `order` of the source's dimension `axis`.
size_t position(const Order& order, size_t axis);
// Returns the order that a tensor of order `order` has after a transpose in the source. Dimension k of the transposed
// tensor is dimension permutation[k] of the tensor before.
Order permuted(const Order& order, const Order& permutation);
// Returns the permutation that brings a tensor from one order into another.
Order permutation_between(const Order& from, const Order& to);
// Copies a dense tensor with its dimensions reordered: dimension k of `out` is dimension permutation[k] of `in`.
// `shape` is that of `in`. An element has `element_size` bytes.
void permute_elements(const void* in, size_t element_size, const Shape& shape, const Order& permutation, void* out);

// Calls visit(offset) for each element of `shape`, in row-major order. One step in dimension d adds stride[d] to the
// offset.
template <class Visit>
void walk(const Shape& shape, const Shape& stride, Visit&& visit) {
  size_t count = 1, offset = 0;
  for (const size_t d : shape) count *= d;
  Shape at(shape.size(), 0);
  for (size_t n = 0; n < count; ++n) {
    visit(offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += stride[d];
      if (++at[d] < shape[d]) break;
      offset -= stride[d] * shape[d];
      at[d] = 0;
    }
  }
}

}  // namespace quern::convert

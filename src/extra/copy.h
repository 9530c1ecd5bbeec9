// Copies between tensors whose elements lie at strides. Only the size of an element matters, not its type.
#pragma once

#include <span>

#include "extra/node.h"

namespace quern::extra {

// The place of the first element and the distance between neighbours of each dimension, in elements. Distances may be
// negative: they are computed modulo 2^64.
struct Place {
  Shape strides;
  size_t first = 0;
};

// Copies the elements of a tensor of this shape. An element has `size` bytes: 1, 4 or 8.
void copy_elements(const Shape& shape, size_t size, const void* from, const Place& from_place, void* to,
                   const Place& to_place);
// Sets `n` elements to the one at `value`, or to 0 if that is null.
void fill_elements(void* to, size_t n, size_t size, const void* value);

// Calls visit(tag) with a type of so many bytes.
template <class Visit>
decltype(auto) with_size(size_t size, Visit&& visit) {
  switch (size) {
    case 1: return visit(Tag<uint8_t>());
    case 8: return visit(Tag<uint64_t>());
    default: return visit(Tag<uint32_t>());
  }
}

// The bytes of an element of the first input.
inline size_t element_size(const Node& node) { return qn_type_size(node.type(0)); }

// A tensor as three dimensions: those before an axis, the axis, and those behind it. Or the axis is several dimensions,
// from `first` up to `last`, without it.
struct Lanes {
  size_t outer, size, inner;
  Lanes(const Shape& shape, size_t axis) : Lanes(shape, axis, axis + 1) {}
  Lanes(const Shape& shape, size_t first, size_t last)
      : outer(count(shape.part(0, first))),
        size(count(shape.part(first, last))),
        inner(count(shape.part(last, shape.size()))) {}
};

// Returns a number of a file or an input as a size. `what` it is stands in the message.
size_t size_from(const Node& node, int64_t value, const char* what);
// Multiplies sizes of which the product need not fit.
size_t checked_product(const Node& node, size_t a, size_t b);
// The numbers that an input holds, which must be a scalar or a vector.
std::vector<int64_t> list(const Node& node, size_t input);
// The only number that an input holds; `otherwise` if the node does not have the input.
int64_t number(const Node& node, size_t input, int64_t otherwise);
// The axes that an input holds, each once; without the input the first `count` ones.
std::vector<size_t> axes(const Node& node, size_t input, size_t rank, size_t count);
// Returns an index that may count from the end as a number from 0 on.
size_t index_in(const Node& node, int64_t index, size_t size);
// Fails unless the inputs have one type.
void expect_same_type(const Node& node, size_t a, size_t b);

// Copies an input that the output holds in another shape.
void copy_all(const Run& node);

}  // namespace quern::extra

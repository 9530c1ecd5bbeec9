// Computes values at import: constants, and arithmetic on shapes, whose sizes may be symbols.
//
// `input` is the number of the node's input on which a function works. Functions without it work on the node's inputs
// from the first on.
#pragma once

#include <functional>
#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// Limits of what is computed at import, so that it stays small whatever a file asks for.
constexpr size_t fold_limit = size_t{1} << 20, rank_limit = 16;

// Returns the number of elements of a shape. Throws Unsupported beyond the limits.
size_t limited_product(const Shape& shape);

// Broadcasts two shapes by NumPy's rules: they are aligned at the right, and dimensions of 1 repeat.
Shape broadcast_shape(const SourceNode& node, const Shape& a, const Shape& b);
// Returns, for each element of shape `to`, which element of shape `from` it repeats.
std::vector<size_t> broadcast_index(const SourceNode& node, const Shape& from, const Shape& to);

// Makes a value of this shape from a constant input or integers: element i is the input's element index[i].
Value take(const SourceNode& node, size_t input, const Shape& shape, const std::vector<size_t>& index);

// ---- constants --------------------------------------------------------------------------------

// Returns an array of this shape that repeats the only element of `one`.
Array filled(const SourceNode& node, const Array& one, const std::vector<int64_t>& shape);
// Counts from the first input up to the second, without it, in steps of the third.
Value range(const SourceNode& node);
Value shape_of(const SourceNode& node, size_t input, size_t first, size_t last);
Value size_of(const SourceNode& node, size_t input);
Value product_of(const SourceNode& node, size_t input, bool keeps_rank);

// ---- elementwise ------------------------------------------------------------------------------

// Computes add, sub, mul or div at import if both inputs are constant and small, and adds a node otherwise.
Value arithmetic(const SourceNode& node, OpKind kind);
Value cast(const SourceNode& node, size_t input, ElementType to);
// Applies a function to each number of a constant.
Value mapped(const SourceNode& node, size_t input, const std::function<float(float)>& function);
Value equal(const SourceNode& node);
// Takes each element from the second input where the first input is not zero, and from the third elsewhere.
Value where(const SourceNode& node);

}  // namespace quern::convert

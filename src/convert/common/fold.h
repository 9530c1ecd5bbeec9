// What is worked out at import: constants, and arithmetic on shapes, whose sizes may be symbols.
//
// Functions take the number of the input that they work on, or work on a node's first inputs in turn.
#pragma once

#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// What is worked out stays small, whatever a file asks for.
constexpr size_t fold_limit = size_t{1} << 20, rank_limit = 16;

// The number of elements; throws Unsupported beyond the limits.
size_t limited_product(const Shape& shape);

// NumPy's rules: shapes are aligned at the right, dimensions of 1 repeat.
Shape broadcast_shape(const SourceNode& node, const Shape& a, const Shape& b);
// Per element of `to`, which element of the smaller tensor it repeats.
std::vector<size_t> broadcast_index(const SourceNode& node, const Shape& from, const Shape& to);

// A constant input with its elements picked by `index`.
Value take(const SourceNode& node, size_t input, const Shape& shape, const std::vector<size_t>& index);

// ---- constants --------------------------------------------------------------------------------

// `one`, an array of one element, as many times as `shape` has elements.
Array filled(const SourceNode& node, const Array& one, const std::vector<int64_t>& shape);
// From the first input, up to the second, in steps of the third.
Value range(const SourceNode& node);
Value shape_of(const SourceNode& node, size_t input, size_t first, size_t last);
Value size_of(const SourceNode& node, size_t input);
Value product_of(const SourceNode& node, size_t input, bool keeps_rank);

// ---- elementwise ------------------------------------------------------------------------------

// add, sub, mul or div: at import if both inputs are constant and small, by a node otherwise.
Value arithmetic(const SourceNode& node, OpKind kind);
Value cast(const SourceNode& node, size_t input, ElementType to);
Value rounded(const SourceNode& node, size_t input, float (*function)(float));
Value equal(const SourceNode& node);
// Of the second input where the first is not zero, else of the third.
Value where(const SourceNode& node);

}  // namespace quern::convert

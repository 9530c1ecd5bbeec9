// Operators that move or name elements: the same code for constants that are known at import and for tensors that
// nodes compute. All in the source's terms, and with sizes that follow those of the inputs where they can.
//
// Functions take the number of the input that they work on.
#pragma once

#include <optional>
#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// ---- the same elements in another shape -------------------------------------------------------

// `values` as in op.inc: 0 copies, so does copy_dimension(), -1 is inferred.
Value reshape(const SourceNode& node, size_t input, const std::vector<int64_t>& values);
// To the sizes that are the elements of another input: 0 copies (or, if `zero_is_zero`, is an error), -1 is inferred.
Value reshape_to(const SourceNode& node, size_t input, size_t shape_input, bool zero_is_zero);
// Dimensions before `axis`, which may be the rank, become one, and so do those from it on.
Value flatten(const SourceNode& node, size_t input, int64_t axis);
// Without the dimensions of 1 that are named, or without any.
Value squeeze(const SourceNode& node, size_t input, const std::optional<std::vector<int64_t>>& axes);
Value unsqueeze(const SourceNode& node, size_t input, const std::vector<int64_t>& axes);

// Dimension i of the result is dimension perm[i] of the input.
Value transpose(const SourceNode& node, size_t input, const std::vector<int64_t>& perm);

// ---- parts ------------------------------------------------------------------------------------

// Of one dimension: bounds may count from behind, and are moved to the nearer end where they lie outside.
struct Part {
  size_t axis;
  Symbols::Number begin, end;
  int64_t step;
};
Value slice(const SourceNode& node, size_t input, const std::vector<Part>& parts);
Values split(const SourceNode& node, size_t input, size_t axis, const std::vector<int64_t>& sizes);
// The places of one dimension that are the elements of another input. A single number drops the dimension.
Value gather(const SourceNode& node, size_t input, size_t index_input, size_t axis);

// ---- joining ----------------------------------------------------------------------------------

// All inputs, vectors of integers.
Value concat_integers(const SourceNode& node);
// All inputs, of which none is integers.
Value concat(const SourceNode& node, size_t axis);
// Repeats dimensions of 1, by the sizes that are the elements of another input.
Value expand(const SourceNode& node, size_t input, size_t shape_input);

}  // namespace quern::convert

// Imports operators that move or select elements. Results for integers and constants are computed at import; for other
// tensors, nodes are added. Arguments are in the source's terms. Where possible, the sizes of results follow the sizes
// of the model's inputs.
//
// `input` is the number of the node's input on which a function works.
#pragma once

#include <optional>
#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// ---- the same elements in another shape -------------------------------------------------------

// Reshapes as OpKind::reshape does (op.inc): 0 and the values of copy_dimension() copy a dimension, -1 is inferred.
Value reshape(const SourceNode& node, size_t input, const std::vector<int64_t>& values);
// Reshapes to the sizes that input `shape_input` holds: 0 copies a dimension (or, if `zero_is_zero`, is an error), and
// -1 is inferred.
Value reshape_to(const SourceNode& node, size_t input, size_t shape_input, bool zero_is_zero);
// Makes a matrix: the dimensions before `axis` become one dimension, and those from `axis` on become the other. `axis`
// may be the rank.
Value flatten(const SourceNode& node, size_t input, int64_t axis);
// Drops the dimensions of 1 in `axes` or, without `axes`, all dimensions of 1.
Value squeeze(const SourceNode& node, size_t input, const std::optional<std::vector<int64_t>>& axes);
Value unsqueeze(const SourceNode& node, size_t input, const std::vector<int64_t>& axes);

// Dimension i of the result is dimension perm[i] of the input.
Value transpose(const SourceNode& node, size_t input, const std::vector<int64_t>& perm);

// ---- parts ------------------------------------------------------------------------------------

// A part of one dimension. Bounds below 0 count from the end. A bound outside the dimension means its nearer end.
struct Part {
  size_t axis;
  Symbols::Number begin, end;
  int64_t step;
};
Value slice(const SourceNode& node, size_t input, const std::vector<Part>& parts);
// Takes so many elements of each dimension; -1 takes all from `begin` on.
Value slice_sizes(const SourceNode& node, size_t input, const std::vector<int64_t>& begin,
                  const std::vector<int64_t>& size);
// A part as Python writes it, x[1, ..., :-1, None]: one entry for each item in the brackets. A bit of a mask says that
// an item has no begin, has no end, is "...", is None, or is one index, whose dimension the result does not have.
struct Brackets {
  std::vector<int64_t> begin, end, step;
  int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, one_mask = 0;
};
// Where a part of one index ends. The greatest number stands for the end of the dimension.
int64_t end_of_one(int64_t index);
Value slice_brackets(const SourceNode& node, size_t input, const Brackets& brackets);
Values split(const SourceNode& node, size_t input, size_t axis, const std::vector<int64_t>& sizes);
// Takes the indices of one dimension that input `index_input` holds. If that is a scalar, the result does not have the
// dimension.
Value gather(const SourceNode& node, size_t input, size_t index_input, size_t axis);

// ---- joining ----------------------------------------------------------------------------------

// Joins all inputs, which are vectors of integers.
Value concat_integers(const SourceNode& node);
// Joins all inputs, none of which is integers.
Value concat(const SourceNode& node, size_t axis);
// Joins all inputs along a new dimension, or divides an input along a dimension that the results do not have.
Value stack(const SourceNode& node, int64_t axis);
Values unstack(const SourceNode& node, size_t input, int64_t axis);
// Pads x. `pads` has two numbers per dimension: before and after.
View pad(const SourceNode& node, const View& x, const std::vector<int64_t>& pads, float value);
// Repeats dimensions of 1 to reach the sizes that input `shape_input` holds.
Value expand(const SourceNode& node, size_t input, size_t shape_input);

}  // namespace quern::convert

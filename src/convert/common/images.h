// Operators on images as TensorFlow and TensorFlow Lite have them, N, H, W, C, as nodes of libquern-extra's kinds.
#pragma once

#include <string>
#include <vector>

#include "convert/common/kinds.h"

namespace quern::convert {

// Says that the node was converted for the present size of a dimension only.
void fix_dimension(const SourceNode& node, const Value& x, size_t dimension);

// Applies a kind for images N, C, ... to an image N, ..., C of any rank.
Value of_channels_last(const SourceNode& node, const char* kind, const Value& x, Parameters parameters);

// Pads and divides the dimensions behind the first into blocks: elements of all blocks at one place make an image of
// their own. `pairs`: two numbers for each of these dimensions, what is padded before and after.
Value space_to_batch(const SourceNode& node, const Value& x, const std::vector<int64_t>& block,
                     const std::vector<int64_t>& pairs);
// The inverse. `pairs`: what is cropped.
Value batch_to_space(const SourceNode& node, const Value& x, const std::vector<int64_t>& block,
                     const std::vector<int64_t>& pairs);

// A transposed convolution: its output is what a convolution with these attributes would read that gives `x`.
struct TransposedConvolution {
  std::vector<Symbols::Number> size;        // height and width of the output
  std::vector<int64_t> strides, dilations;  // of height and width
  bool same = false;                        // padding follows the size; else it is `pads`: top, left, bottom, right
  std::vector<int64_t> pads = {0, 0, 0, 0};
};
// `weights`: I, O, kh, kw, with the channels of x first. `bias` may be empty.
Value transposed_convolution(const SourceNode& node, const Value& x, const Value& weights, const Value& bias,
                             const TransposedConvolution& convolution);

}  // namespace quern::convert

// Layers that importers of all formats make: their weights may be quantized, their axes are those of the source.
#pragma once

#include <string>
#include <vector>

#include "convert/common/source_node.h"

namespace quern::convert {

// ---- constants that a file may hold as quantized integers

// What a layer multiplies. Dimension `axis` of x, in groups, is that of `weights_axis`. Weights that are sums of several
// bytes are all read by a layer of bytes, which then reads its input as often.
struct Factors {
  View x, weights;
};
Factors factors(const SourceNode& node, const View& x, size_t axis, size_t groups, const Value& weights,
                size_t weights_axis);
// The same for a convolution of an image by weights O, I, kh, kw. Where channels are convolved alone, rows of the image are
// repeated instead of channels: the convolution stays one of single channels, with more rows, which `a` then says.
Factors convolution_factors(const SourceNode& node, const View& x, const Value& weights, Attributes* a);
// Returns a bias for the weights that factors() made of `constant_weights`: as integers only beside integers.
View bias_for(const View& weights, const Value& constant_weights, const Value& bias);

// ---- normalization, sums, resizing

// The parameters of a batch normalization, one number per channel.
struct Normalization {
  std::vector<float> gamma, beta, mean, variance;
  double epsilon;
};
// `axis`: of the channels.
View normalized(const SourceNode& node, const View& x, size_t axis, const Normalization& n);

View sum_of(const SourceNode& node, const std::vector<View>& terms);

// How TensorFlow and TensorFlow Lite resize an image: its new height and width are the integers of an input.
Attributes resize_attributes(const SourceNode& node, qn_resize_kind mode, bool align_corners, bool half_pixel_centers,
                             size_t size_input);
// ---- windows

// Sets the padding for an image N, C, H, W: as many windows as pixels, divided by the stride, as TensorFlow has it.
void pad_same(const Builder& builder, const View& x, Attributes* a);

// ---- reductions

// Imports a reduction as global pooling: over two of four dimensions, which become height and width of an image, or over
// neighbouring dimensions.
View reduced(const SourceNode& node, OpKind kind, const View& x, const std::vector<int64_t>& axes, bool keep);

}  // namespace quern::convert

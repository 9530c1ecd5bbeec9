// Quantized tensors of a source. Each becomes bytes in our graph, between nodes that make bytes of real numbers and real
// numbers of bytes; passes of the optimizer then make the layers between them compute with bytes.
#pragma once

#include <string>

#include "convert/common/source_node.h"

namespace quern::convert {

bool is_byte(ElementType type);

// Fails unless scales are positive numbers, and there are no zero points, or as many as scales and within the type.
void check_scales(const SourceNode& node, const Scales& s, ElementType type);
// Fails unless scales for the indices of a dimension are as many as these.
void check_axis(const SourceNode& node, const Scales& s, const Shape& shape);

// Returns a quantized input, a tensor or constant integers, as floats.
Value dequantized(const SourceNode& node, size_t input, const Scales& s);
// Makes bytes of floats. `type` is that of the source: our bytes have a sign.
Value quantized(const SourceNode& node, const std::string& name, const View& x, const Scales& s, ElementType type);

}  // namespace quern::convert

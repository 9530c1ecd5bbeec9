// The encoder of small structured data.
#pragma once

#include <cstddef>
#include <span>

#include "base/vector.h"

namespace quern {

// Makes a stream for decode_small() (small_coder.h). `stride` is the length of a row of the data: 4 for a FlatBuffer.
// The stream holds neither `stride` nor the number of bytes.
Vector<unsigned char> encode_small(std::span<const unsigned char> bytes, size_t stride);

}  // namespace quern

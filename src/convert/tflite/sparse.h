// Constants that the file stores without most of their zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/common/layout.h"
#include "convert/tflite/node.h"

namespace quern::tflite {

// Returns all elements of a constant of this shape, of which `stored` has some.
std::vector<uint8_t> with_zeros(Builder& builder, const schema::Sparsity& sparsity, const Shape& shape,
                                size_t element_size, const std::vector<uint8_t>& stored);

}  // namespace quern::tflite

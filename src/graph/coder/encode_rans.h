// Encodes matrices of int8 weights for rans.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/vector.h"

namespace quern {

// The matrix has an element at least. Tries numbers of tables, for rows and for columns, and returns the shortest stream.
Vector<unsigned char> encode_rans(std::span<const int8_t> matrix, size_t rows, size_t depth);

}  // namespace quern

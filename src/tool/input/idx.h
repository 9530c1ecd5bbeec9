// idx files, in which MNIST and data sets like it are distributed.
#pragma once

#include <string>
#include <string_view>

#include "tool/input/npy.h"

namespace quern {

// Does the file begin like an idx file: two zeros, a known type of elements, and a rank that is not 0?
bool is_idx(std::string_view file);
// Reads integers of 8 to 32 bits and floats of 32 and 64, which the file holds big-endian. Throws Error; `who` names the
// file in messages.
NpyArray decode_idx(std::string_view file, const std::string& who);

}  // namespace quern

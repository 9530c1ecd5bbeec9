// Makes sure that the description of a model can be read without leaving it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern {

// Returns whether these bytes are a FlatBuffer of model.fbs: all offsets, sizes and strings lie within them. The values
// of fields are not looked at.
bool verify_description(const uint8_t* bytes, size_t size);

}  // namespace quern

// Whole files in memory.
#pragma once

#include <cstdint>
#include <string>

#include "convert/error.h"

namespace quern {

// Throws unless `path` is a readable regular file of at most `limit` bytes.
std::string read_file(const std::string& path, uint64_t limit);

// A failure leaves no partial file; what is there and no regular file is not replaced.
void write_file(const std::string& path, const std::string& content);

}  // namespace quern

// Whole files in memory.
#pragma once

#include <string>

#include "convert/error.h"

namespace quern {

// Throws unless `path` is a readable regular file of at most `limit` bytes.
std::string read_file(const std::string& path, size_t limit);

// Writes beside `path`, then renames: a failure leaves no partial file.
void write_file(const std::string& path, const std::string& content);

}  // namespace quern

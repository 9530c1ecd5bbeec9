// Reads and writes whole files.
#pragma once

#include <cstdint>
#include <string>

#include "convert/common/error.h"

namespace quern {

// Returns the content of a file. Throws unless `path` is a readable regular file of at most `limit` bytes.
std::string read_file(const std::string& path, uint64_t limit);

// Writes a file. If that fails, no partial file stays behind. Throws if `path` exists and is not a regular file.
void write_file(const std::string& path, const std::string& content);

// Throws if `source` and `target` are the same file, whatever their paths: writing `target` would replace the source.
// An empty `target` is no file.
void keep_source(const std::string& source, const std::string& target);

}  // namespace quern

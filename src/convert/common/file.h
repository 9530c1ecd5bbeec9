// Whole files in memory.
#pragma once

#include <cstdint>
#include <string>

#include "convert/common/error.h"

namespace quern {

// Throws unless `path` is a readable regular file of at most `limit` bytes.
std::string read_file(const std::string& path, uint64_t limit);

// A failure leaves no partial file; what is there and no regular file is not replaced.
void write_file(const std::string& path, const std::string& content);

// Throws if writing `target`, unless that is empty, would replace `source`, by whatever name.
void keep_source(const std::string& source, const std::string& target);

}  // namespace quern

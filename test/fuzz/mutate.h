// Damaged copies of valid files.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace quern {

enum class Format {
  bytes,              // no more is known
  protobuf,           // fields are found and re-encoded with the right lengths
  text,               // lines and numbers
  text_and_protobuf,  // a text, a NUL, and a message
  text_and_bytes,
  png,   // checksums are made right again
  quern  // the description is hit, not the weights; in files of version 2 both, and checksums are made right again
};

using Random = std::mt19937_64;

// A damaged copy of `valid`; `what` says what was done to it.
std::string mutate(const std::string& valid, Format format, Random& random, std::string* what);

}  // namespace quern

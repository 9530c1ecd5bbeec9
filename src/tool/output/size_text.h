// Numbers of bytes, for readers.
#pragma once

#include <string>

namespace quern {

struct SizeUnit {
  const char* name;
  double bytes;
};

// Bytes, KiB, MiB or GiB: the largest one that is not larger than so many bytes.
const SizeUnit& size_unit(double bytes);

// "3.25 MiB", "17 bytes"
std::string size_text(double bytes);

}  // namespace quern

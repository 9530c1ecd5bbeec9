// What programs (importers, exporter, the quern command) throw.
#pragma once

#include <stdexcept>
#include <string>

namespace quern {

// One line that names what is wrong and where, without a line feed.
struct Error : std::runtime_error {
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace quern

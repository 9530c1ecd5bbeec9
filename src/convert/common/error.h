// What programs (importers, exporter, the quern command) throw.
#pragma once

#include <stdexcept>
#include <string>

namespace quern {

// One line that names what is wrong and where. Messages quote names from files: control characters are replaced, so
// that a file cannot break the line or talk to the terminal.
struct Error : std::runtime_error {
  explicit Error(const std::string& message) : std::runtime_error(printable(message)) {}

 private:
  static std::string printable(std::string text) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return text;
  }
};

}  // namespace quern
